//! Patterns of names: `*` for any characters, `?` for one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest pattern, in bytes. Matching takes at most the product of the lengths of pattern and name.
pub const GLOB_MAX: usize = 256;

/// A pattern of names. `*` stands for any characters, also none; `?` for exactly one; every other character for itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Glob(String);

/// A text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAGlob(String);

impl Glob {
    /// The pattern of all names.
    pub fn all() -> Glob {
        Glob("*".to_owned())
    }

    /// Whether it matches every name.
    pub fn is_all(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'*')
    }

    /// Whether it matches `name`.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut at, mut seen) = (0, 0);
        // The last star, and how much of the name it has matched: on a mismatch it takes one character more.
        let mut star: Option<(usize, usize)> = None;
        while seen < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, seen));
                    at += 1;
                }
                Some(b'?') => {
                    at += 1;
                    seen = next_character(name, seen);
                }
                Some(byte) if *byte == name[seen] => {
                    at += 1;
                    seen += 1;
                }
                _ => {
                    let Some((star_at, matched)) = star else { return false };
                    let matched = next_character(name, matched);
                    star = Some((star_at, matched));
                    (at, seen) = (star_at + 1, matched);
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }

    /// The same pattern for `LIKE` in SQL, with its default escape character.
    pub fn like(&self) -> String {
        let mut pattern = String::with_capacity(self.0.len());
        for character in self.0.chars() {
            match character {
                '*' => pattern.push('%'),
                '?' => pattern.push('_'),
                '%' | '_' | '\\' => pattern.extend(['\\', character]),
                _ => pattern.push(character),
            }
        }
        pattern
    }

    /// The text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The start of the character after the one at `at`.
fn next_character(text: &[u8], at: usize) -> usize {
    let is_continued = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    at + 1 + text[at + 1..].iter().take_while(is_continued).count()
}

impl TryFrom<String> for Glob {
    type Error = NotAGlob;

    fn try_from(text: String) -> Result<Glob, NotAGlob> {
        if text.is_empty() {
            return Err(NotAGlob("a pattern of names must not be empty: * matches all".to_owned()));
        }
        if text.len() > GLOB_MAX {
            return Err(NotAGlob(format!(
                "a pattern of names has at most {GLOB_MAX} bytes, this one has {}",
                text.len()
            )));
        }
        if let Some(character) = text.chars().find(|character| character.is_control()) {
            return Err(NotAGlob(format!("a pattern of names has no control character, this one has {character:?}")));
        }
        Ok(Glob(text))
    }
}

impl FromStr for Glob {
    type Err = NotAGlob;

    fn from_str(text: &str) -> Result<Glob, NotAGlob> {
        Glob::try_from(text.to_owned())
    }
}

impl From<Glob> for String {
    fn from(glob: Glob) -> String {
        glob.0
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for NotAGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAGlob {}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> Glob {
        text.parse().expect("a pattern")
    }

    /// Stars match any characters, question marks one, everything else itself; the whole name must match.
    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "orders", true),
            ("orders", "orders", true),
            ("orders", "orders2", false),
            ("orders", "my-orders", false),
            ("orders.*", "orders.eu", true),
            ("orders.*", "orders", false),
            ("*.eu", "orders.eu", true),
            ("*.eu", "orders.eu.x", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?", "é", true),
            ("??", "é", false),
            ("*é", "aé", true),
            ("*?", "", false),
            ("**", "x", true),
            ("Orders", "orders", false),
            ("a?c", "a🐘c", true),
        ] {
            assert_eq!(glob(pattern).matches(name), expected, "{pattern} {name}");
        }
    }

    /// Special characters of LIKE are escaped.
    #[test]
    fn the_pattern_for_sql_is_escaped() {
        for (pattern, like) in [("*", "%"), ("a?*", "a_%"), ("50%_\\", "50\\%\\_\\\\")] {
            assert_eq!(glob(pattern).like(), like);
        }
    }

    /// A pattern with many stars takes no more than the product of the lengths.
    #[test]
    fn many_stars_are_no_attack() {
        let pattern = glob(&"*a".repeat(GLOB_MAX / 2));
        assert!(!pattern.matches(&("a".repeat(100_000) + "b")));
    }

    /// Empty, long and unprintable patterns are rejected with the reason.
    #[test]
    fn invalid_patterns_are_rejected() {
        for text in ["", "a\nb", &"x".repeat(GLOB_MAX + 1)] {
            assert!(text.parse::<Glob>().is_err(), "{text:?}");
        }
        assert!(glob("*").is_all() && glob("**").is_all() && !glob("?*").is_all());
    }
}
