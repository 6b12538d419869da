//! Error messages of parsers, without the type names of the program.
//!
//! Parsers name Rust types (`struct Submission with 12 elements`, `u32`), which mean nothing to a client and change
//! with the program. [`plain`] replaces them by JSON terms. The rest stays: names of fields and values are the client's
//! own.

/// Words of the parser that a type name follows, and the replacement for both.
const NAMED: [(&str, &str); 8] = [
    ("internally tagged enum ", "an object with a known type"),
    ("adjacently tagged enum ", "an object with a known type"),
    ("variant of untagged enum ", "allowed type"),
    ("tuple struct ", "a list"),
    ("unit struct ", "null"),
    ("newtype struct ", "a value"),
    ("struct ", "an object"),
    ("enum ", "one of the allowed names"),
];
/// Rust and serde types, and their descriptions.
const TYPES: [(&str, &str); 16] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number from 0 to 18446744073709551615"),
    ("usize", "a whole number, 0 or greater"),
    ("u128", "a whole number, 0 or greater"),
    ("i8", "a whole number from -128 to 127"),
    ("i16", "a whole number from -32768 to 32767"),
    ("i32", "a whole number from -2147483648 to 2147483647"),
    ("i64", "a whole number from -9223372036854775808 to 9223372036854775807"),
    ("isize", "a whole number"),
    ("f32", "a number"),
    ("f64", "a number"),
    ("a map", "an object"),
    ("a sequence", "a list"),
    ("unit", "null"),
];
/// The parser's names for the value that it found, and JSON's.
const FOUND: [(&str, &str); 9] = [
    ("unknown variant", "unknown value"),
    ("type: map", "type: object"),
    ("type: sequence", "type: list"),
    ("type: unit", "type: null"),
    ("type: Option value", "type: null"),
    ("type: floating point", "type: number"),
    ("value: map", "value: object"),
    ("value: sequence", "value: list"),
    ("value: floating point", "value: number"),
];
const EXPECTED: &str = "expected ";

/// A parser's message without the type names of the program.
pub fn plain(message: &str) -> String {
    // The part before the last "expected" may quote the client; the part after it is the parser's own.
    let (found, expected) = match message.rfind(EXPECTED) {
        Some(at) => message.split_at(at + EXPECTED.len()),
        None => (message, ""),
    };
    let mut text = found.to_owned();
    if let Some((word, instead)) = FOUND.iter().find(|(word, _)| found.contains(word)) {
        text = text.replacen(word, instead, 1);
    }
    if let Some(at) = text.find("variant of untagged enum ") {
        text.truncate(at);
        text.push_str("allowed type");
    }
    if let Some(at) = text.find(" to a `") {
        // For a path parameter: `cannot parse x to a i64`.
        text.truncate(at);
        text.push_str(" to a number");
    }
    text + &without_types(expected)
}

fn without_types(expected: &str) -> String {
    for (word, instead) in NAMED {
        if let Some(rest) = expected.strip_prefix(word) {
            return format!("{instead}{}", position(rest));
        }
    }
    for (name, instead) in TYPES {
        let rest = expected.strip_prefix(name);
        if let Some(rest) = rest.filter(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_')) {
            return format!("{instead}{rest}");
        }
    }
    expected.to_owned()
}

/// The position in the text, if the message ends with it.
fn position(rest: &str) -> &str {
    rest.rfind(" at line ").map_or("", |at| &rest[at..])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::de::DeserializeOwned;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors count")]
    struct Submission {
        name: String,
        priority: i16,
        #[serde(default)]
        tags: Vec<String>,
        #[serde(default)]
        kind: Option<Kind>,
        #[serde(default)]
        way: Option<Way>,
        #[serde(default)]
        any: Option<Any>,
        #[serde(default)]
        map: BTreeMap<String, u32>,
    }

    #[derive(Deserialize)]
    enum Kind {
        One,
    }

    #[derive(Deserialize)]
    #[serde(tag = "type")]
    enum Way {
        There,
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only the errors count")]
    enum Any {
        Number(u8),
    }

    fn message<T: DeserializeOwned>(text: &str) -> String {
        plain(&serde_json::from_str::<T>(text).err().expect("an error").to_string())
    }

    /// The message for an invalid body has the position, but no type name of the program.
    #[test]
    fn messages_have_no_type_names() {
        for (text, expected) in [
            ("1", "invalid type: integer `1`, expected an object at line 1 column 1"),
            ("[]", "invalid length 0, expected an object at line 1 column 2"),
            (r#"{"name": 1}"#, "invalid type: integer `1`, expected a string at line 1 column 10"),
            (r#"{"name": [1]}"#, "invalid type: list, expected a string at line 1 column 9"),
            (
                r#"{"priority": 99999}"#,
                "invalid value: integer `99999`, expected a whole number from -32768 to 32767 at line 1 column 18",
            ),
            (r#"{"tags": {}}"#, "invalid type: object, expected a list at line 1 column 9"),
            (r#"{"kind": "two"}"#, "unknown value `two`, expected `One` at line 1 column 14"),
            (r#"{"way": 1}"#, "invalid type: integer `1`, expected an object with a known type at line 1 column 9"),
            (r#"{"any": "x"}"#, "data did not match any allowed type"),
            (
                r#"{"map": {"a": 1.5}}"#,
                "invalid type: number `1.5`, expected a whole number from 0 to 4294967295 at line 1 column 17",
            ),
            (r#"{"expected struct": 1}"#, "unknown field `expected struct`, expected one of `name`"),
            (r#"{"name": "a"}"#, "missing field `priority` at line 1 column 13"),
        ] {
            let message = message::<Submission>(text);
            assert!(message.starts_with(expected), "{text}: {message}");
            for name in ["Submission", "Kind", "Way", "Any", "u32", "i16", "enum", "elements"] {
                assert!(!message.contains(name), "{text}: {message}");
            }
        }
    }
}
