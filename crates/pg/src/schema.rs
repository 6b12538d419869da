//! Rendering the schema's name into SQL text.
//!
//! Statements are written `select … from {schema}.job`. The alternative, `search_path`, is session state: it belongs to
//! the application on its own pool, and a transaction-mode pooler does not keep it. Formatting by hand risks wrong
//! quoting: a schema may be called `My "odd" Schéma`. [`Schema`] quotes the name once, and [`Schema::sql`] renders a
//! text once, at start, to an [`Sql`] that sqlx accepts.
//!
//! Only `{word}` is a placeholder (a letter or `_`, then letters, digits or `_`), so array and JSON literals such as
//! `'{}'`, `'{1,2}'` and `'{"a": 1}'` are unchanged. A one-word array literal, `'{red}'`, would be read as a
//! placeholder: write `array['red']`.

use std::fmt;
use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::{Error, Result};

/// The longest identifier in PostgreSQL; a longer one is silently truncated, so two schemas could become one.
pub const MAX_IDENTIFIER_BYTES: usize = 63;

/// The name of a schema, quoted once. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Schema(Arc<Names>);

#[derive(PartialEq, Eq, Hash)]
struct Names {
    name: Box<str>,
    /// As an identifier: `"My ""odd"" Schéma"`.
    identifier: Box<str>,
    /// As a string literal, correct whatever `standard_conforming_strings` says: `'it''s'`, or `E'a\\b'`.
    literal: Box<str>,
}

impl Schema {
    /// Accepts any valid schema name: not empty, at most 63 bytes, no NUL, not starting with `pg_`.
    ///
    /// # Errors
    /// [`Error::Config`] naming the option `schema` and the reason.
    pub fn new(name: &str) -> Result<Schema> {
        check_name("schema", name)?;
        Ok(Schema(Arc::new(Names { name: name.into(), identifier: identifier(name), literal: literal(name) })))
    }

    /// The name as it was given.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The name as a quoted SQL identifier.
    pub fn quoted(&self) -> &str {
        &self.0.identifier
    }

    /// Renders `text`: `{schema}` becomes the quoted identifier, `{schema_text}` the name as a SQL string literal.
    ///
    /// # Panics
    /// On any other `{word}`: SQL texts are part of the program, so an unknown placeholder is a bug.
    pub fn sql(&self, text: &str) -> Sql {
        self.sql_with(text, &[])
    }

    /// Like [`Schema::sql`], with additional placeholders: each `{name}` of `vars` is replaced by its value, unquoted.
    /// The value must never come from a request.
    ///
    /// # Panics
    /// As [`Schema::sql`].
    pub fn sql_with(&self, text: &str, vars: &[(&str, &str)]) -> Sql {
        let lookup = |word: &str| match word {
            "schema" => Some(&*self.0.identifier),
            "schema_text" => Some(&*self.0.literal),
            _ => vars.iter().find(|(name, _)| *name == word).map(|(_, value)| *value),
        };
        match render(text, lookup) {
            Ok(rendered) => Sql(rendered.into()),
            Err(word) => panic!("unknown placeholder {{{word}}} in SQL text: {}", first_line(text)),
        }
    }
}

/// Rejects what is no name of a schema or a role.
pub(crate) fn check_name(option: &'static str, name: &str) -> Result<()> {
    let refuse = |reason: String| Err(Error::config(option, reason));
    if name.is_empty() {
        return refuse("the name is empty".into());
    }
    if name.contains('\0') {
        return refuse("the name contains a NUL character, which PostgreSQL cannot store".into());
    }
    if name.len() > MAX_IDENTIFIER_BYTES {
        return refuse(format!(
            "the name is {} bytes long, PostgreSQL keeps {MAX_IDENTIFIER_BYTES} and would cut the rest",
            name.len()
        ));
    }
    if name.starts_with("pg_") {
        return refuse("the prefix \"pg_\" is reserved by PostgreSQL for its own names".into());
    }
    Ok(())
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.0.name).finish()
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.quoted())
    }
}

/// Rendered SQL text, accepted by `sqlx::query(&sql)`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sql(Arc<str>);

impl Sql {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Concatenates two texts; the first is terminated even if it ends in a comment.
    pub(crate) fn join(first: &Sql, second: &Sql) -> Sql {
        Sql(format!("{first}\n;\n{second}").into())
    }
}

impl AsRef<str> for Sql {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Safe because the only parts that are not literal program text are a quoted identifier, a quoted literal and the
/// trusted `vars`.
impl SqlSafeStr for Sql {
    fn into_sql_str(self) -> SqlStr {
        AssertSqlSafe(self.0).into_sql_str()
    }
}

impl SqlSafeStr for &Sql {
    fn into_sql_str(self) -> SqlStr {
        self.clone().into_sql_str()
    }
}

pub(crate) fn identifier(name: &str) -> Box<str> {
    format!("\"{}\"", name.replace('"', "\"\"")).into()
}

/// A SQL string literal of `text`. A backslash needs the `E` form, which does not depend on
/// `standard_conforming_strings`.
pub(crate) fn literal(text: &str) -> Box<str> {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') {
        format!("E'{}'", quoted.replace('\\', "\\\\")).into()
    } else {
        format!("'{quoted}'").into()
    }
}

/// Replaces every `{word}`; the error is the first word that `lookup` does not find.
fn render<'a>(text: &'a str, lookup: impl Fn(&str) -> Option<&'a str>) -> Result<String, &'a str> {
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        match placeholder(rest) {
            Some(word) => {
                out.push_str(lookup(word).ok_or(word)?);
                rest = &rest[word.len() + 2..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// The word of a text that starts with `{word}`; `None` if it starts with any other brace.
fn placeholder(text: &str) -> Option<&str> {
    let (word, _) = text.strip_prefix('{')?.split_once('}')?;
    let mut chars = word.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    (starts && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(word)
}

fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("(empty)")
}

/// The text of `db/statements/<name>.sql` of the crate that calls it, for [`Schema::sql`].
#[macro_export]
macro_rules! statement {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/db/statements/", $name, ".sql"))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every character that is special inside quotes is escaped. The expected texts were written by hand.
    #[test]
    fn odd_names_are_quoted() {
        let schema = Schema::new(r#"My "odd" Schéma"#).unwrap();
        assert_eq!(schema.sql("{schema}.t {schema_text}").as_str(), r#""My ""odd"" Schéma".t 'My "odd" Schéma'"#);
        let schema = Schema::new(r"it's a \ back").unwrap();
        assert_eq!(schema.sql("{schema_text}").as_str(), r"E'it''s a \\ back'");
    }

    /// Braces that are not placeholders are unchanged. Renders every brace form that SQL text uses.
    #[test]
    fn braces_that_are_not_placeholders_pass_through() {
        let schema = Schema::new("s").unwrap();
        for text in ["'{}'", "'{1,2}'", "'{\"a\": 1}'", "{", "}", "{ schema }", "'{1}'", "{é}", "a {schema"] {
            assert_eq!(schema.sql(text).as_str(), text);
        }
        assert_eq!(schema.sql("'{{schema}}'").as_str(), "'{\"s\"}'");
    }

    /// Variables are rendered unquoted, in addition to `{schema}` and `{schema_text}`.
    #[test]
    fn variables_are_rendered() {
        let schema = Schema::new("s").unwrap();
        let sql = schema.sql_with("notify {channel}; -- {schema}", &[("channel", "\"s_work\"")]);
        assert_eq!(sql.as_str(), "notify \"s_work\"; -- \"s\"");
    }

    /// A misspelt placeholder fails when the text is rendered, and the message names it.
    #[test]
    #[should_panic(expected = "unknown placeholder {shcema}")]
    fn an_unknown_placeholder_panics() {
        Schema::new("s").unwrap().sql("select 1 from {shcema}.t");
    }

    /// Names that PostgreSQL would truncate, reject or reserve are rejected with the reason.
    #[test]
    fn invalid_names_are_rejected() {
        for (name, reason) in [("", "empty"), ("a\0b", "NUL"), (&"é".repeat(32), "64 bytes"), ("pg_mine", "reserved")]
        {
            let error = Schema::new(name).unwrap_err().to_string();
            assert!(error.contains("`schema`") && error.contains(reason), "{error}");
        }
        assert!(Schema::new(&"x".repeat(63)).is_ok());
    }
}
