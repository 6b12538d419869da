//! The configuration file: TOML, with a line per setting, named like its flag without the dashes.
//!
//! A file is read only if it is named. One that is merely found in the current folder could send a command, and the
//! token with it, to another server.
//!
//! A misspelt key is the danger: the setting would silently have its default. So every key has to be a setting, and
//! every value has to be valid, also of settings that this command does not use. No error quotes a value that may be
//! secret.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

/// The largest file: every setting with a long comment.
const FILE_MAX: u64 = 1024 * 1024;
/// A key that is less similar than this to every setting is no typing mistake.
const SIMILAR: f64 = 0.7;

/// A value of the file, in the syntax of the flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) value: String,
    pub(super) line: usize,
}

/// The values of a file, by the name of the setting without dashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) entries: BTreeMap<String, Entry>,
    /// Whether every user of this machine can read it.
    pub(super) readable_by_all: bool,
}

impl ConfigFile {
    /// Reads the file. `is_setting` says which names exist, `names` lists them for a hint.
    ///
    /// # Errors
    /// The text for the error message: the file, the line, and what is wrong.
    pub(super) fn read(path: &Path, names: &[String]) -> Result<ConfigFile, String> {
        let unreadable =
            |error: std::io::Error| format!("cannot read the configuration file {}: {error}", path.display());
        let opened = File::open(path).map_err(unreadable)?;
        let readable_by_all = is_readable_by_all(&opened);
        let mut text = String::new();
        opened.take(FILE_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > FILE_MAX {
            return Err(format!("the configuration file {} is longer than {FILE_MAX} bytes", path.display()));
        }
        let entries = parse(&text, names).map_err(|(line, why)| format!("{}:{line}: {why}", path.display()))?;
        Ok(ConfigFile { path: path.to_owned(), entries, readable_by_all })
    }
}

#[cfg(unix)]
fn is_readable_by_all(opened: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    opened.metadata().is_ok_and(|metadata| metadata.mode() & 0o004 != 0)
}

#[cfg(not(unix))]
fn is_readable_by_all(_: &File) -> bool {
    false
}

/// The entries of a text, or the first line that is wrong and why.
fn parse(text: &str, names: &[String]) -> Result<BTreeMap<String, Entry>, (usize, String)> {
    let line = |at: usize| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    // The error's own display would quote the line.
    let table = DeTable::parse(text)
        .map_err(|error| (line(error.span().map_or(0, |span| span.start)), error.message().to_owned()))?;
    let mut entries: Vec<_> = table.into_inner().into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let mut read = BTreeMap::new();
    for (key, value) in entries {
        let (line, key) = (line(key.span().start), key.into_inner().into_owned());
        if !names.contains(&key) {
            return Err((line, unknown(&key, value.get_ref(), names)));
        }
        let value = plain(value.get_ref()).map_err(|why| (line, format!("`{key}` {why}")))?;
        read.insert(key, Entry { value, line });
    }
    Ok(read)
}

fn unknown(key: &str, value: &DeValue<'_>, names: &[String]) -> String {
    if value.is_table() {
        return format!("unknown table `{key}`: settings are not grouped, write `name = value` at the top");
    }
    // Settings are often known by their variable.
    let plain = key.to_lowercase().replace('_', "-");
    let plain = plain.trim_start_matches('-').trim_start_matches("reveille-");
    let likeness = |name: &&String| strsim::jaro_winkler(plain, name);
    let nearest = names.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    match nearest.filter(|name| likeness(name) >= SIMILAR) {
        Some(name) => format!("unknown setting `{key}`: did you mean `{name}`?"),
        None => format!("unknown setting `{key}`: `reveille config show` lists all"),
    }
}

/// A value in the syntax of the flag.
fn plain(value: &DeValue<'_>) -> Result<String, &'static str> {
    const ALLOWED: &str = "must be a string, an integer, true or false, or a list of strings";
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Boolean(is) => Ok(is.to_string()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map(|number| number.to_string()).map_err(|_| ALLOWED)
        }
        DeValue::Array(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(|item| item.get_ref().as_str()).collect();
            let texts = texts.ok_or(ALLOWED)?;
            match texts.iter().any(|text| text.contains(',')) {
                true => Err("has a comma in an element of its list"),
                false => Ok(texts.join(",")),
            }
        }
        _ => Err(ALLOWED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["allowed-hosts", "database-url", "listen", "pool-size", "pooler"].map(str::to_owned).to_vec()
    }

    /// Every kind of value is read in the syntax of the flags, with its line. One of each, between comments.
    #[test]
    fn values_are_read_with_their_lines() {
        let text = "# first\nlisten = '127.0.0.1:7000'\n\npool-size = 1_6 # more\npooler = true\nallowed-hosts = [\n  'a',\n  \"b\",\n]\n";
        let read = parse(text, &names()).expect("a valid file");
        let read: Vec<_> = read.iter().map(|(name, entry)| (name.as_str(), entry.value.as_str(), entry.line)).collect();
        assert_eq!(
            read,
            [
                ("allowed-hosts", "a,b", 6),
                ("listen", "127.0.0.1:7000", 2),
                ("pool-size", "16", 4),
                ("pooler", "true", 5)
            ]
        );
    }

    /// A wrong file is rejected with its line, and a key with the nearest setting; no message quotes a value.
    #[test]
    fn mistakes_have_their_line_and_the_nearest_setting() {
        let table = [
            ("\npol-size = 'hunter2'", 2, "did you mean `pool-size`?"),
            ("DATABASE_URL = 'hunter2'", 1, "did you mean `database-url`?"),
            ("REVEILLE_LISTEN = 'hunter2'", 1, "did you mean `listen`?"),
            ("xyz = 'hunter2'", 1, "reveille config show"),
            ("[server]\nlisten = 'hunter2'", 1, "not grouped"),
            ("pool-size = 1.5", 1, "`pool-size` must be"),
            ("listen = 1979-05-27", 1, "`listen` must be"),
            ("allowed-hosts = ['a', 2]", 1, "`allowed-hosts` must be"),
            ("allowed-hosts = ['a,hunter2']", 1, "comma"),
            ("pooler = true\nlisten = 'a'\nlisten = 'hunter2'", 3, "duplicate"),
            ("\n\ndatabase-url = 'postgres://ann:hunter2@h/db", 3, "string"),
            ("database-url = hunter2", 1, ""),
        ];
        for (text, line, part) in table {
            let (at, why) = parse(text, &names()).expect_err(text);
            assert_eq!(at, line, "{text}: {why}");
            assert!(why.contains(part) && !why.contains("hunter2"), "{text}: {why}");
        }
    }
}
