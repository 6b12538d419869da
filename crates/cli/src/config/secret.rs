//! URLs with passwords.
//!
//! One `{:?}` of a configuration or one quoted argument in an error message would put a password into a log.
//! [`SecretUrl`] prints nothing; code that connects calls [`SecretUrl::reveal`]. [`redact`] removes passwords from
//! texts of other origin, such as a parser that quotes its input.

use std::{convert::Infallible, fmt, str::FromStr};

/// A URL that cannot be printed by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// The whole text, password included: for connecting, never for display.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for SecretUrl {
    type Err = Infallible;

    /// Accepts any text. It is validated later, by code that does not quote it.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.trim().to_owned()))
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretUrl(…)")
    }
}

/// Replaces the user and password of every URL in `text`, and the value of every `password=` and `token=`, by `…`.
///
/// A password may contain an unescaped `@`: everything up to the last `@` before the next white space or quote is
/// hidden.
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = next_secret(rest) {
        let (before, secret) = rest.split_at(start);
        out.push_str(before);
        let end = secret.find(|c: char| c.is_whitespace() || c == '\'' || c == '"').unwrap_or(secret.len());
        let word = &secret[..end];
        let hidden =
            if before.ends_with("://") { word.rfind('@').unwrap_or(0) } else { word.find('&').unwrap_or(word.len()) };
        if hidden > 0 {
            out.push('…');
        }
        rest = &secret[hidden..];
    }
    out.push_str(rest);
    out
}

/// Where the next secret may begin: after the first of the marks.
fn next_secret(text: &str) -> Option<usize> {
    ["://", "password=", "token="].iter().filter_map(|mark| text.find(mark).map(|at| at + mark.len())).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Debug` of a URL reveals no part of it.
    #[test]
    fn debug_of_a_url_shows_nothing_of_it() {
        let url: SecretUrl = "postgres://ann:hunter2@db.example/app".parse().expect("any text is accepted");
        let shown = format!("{url:?}");
        for part in ["ann", "hunter2", "db.example", "app"] {
            assert!(!shown.contains(part), "{shown}");
        }
    }

    /// Every form of a password in a text is hidden; the text around it stays readable.
    #[test]
    fn redaction_hides_passwords_and_keeps_the_rest() {
        let table = [
            ("no secret here", "no secret here"),
            ("see https://example.org/docs", "see https://example.org/docs"),
            ("'postgres://ann:hunter2@h/db' found", "'postgres://…@h/db' found"),
            ("postgres://ann:hun@ter2@h/db", "postgres://…@h/db"),
            ("a postgres://x:1@h/a b postgres://y:2@h/b", "a postgres://…@h/a b postgres://…@h/b"),
            ("postgres://h/db?password=hunter2&sslmode=require", "postgres://h/db?password=…&sslmode=require"),
            ("https://h/releases?token=hunter2", "https://h/releases?token=…"),
            ("host=h password=hunter2 user=ann", "host=h password=… user=ann"),
            ("postgres://", "postgres://"),
        ];
        for (text, expected) in table {
            assert_eq!(redact(text), expected);
        }
    }
}
