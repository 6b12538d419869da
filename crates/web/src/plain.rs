//! What a parser says of a text that it cannot read, in the words of the API.
//!
//! Parsers name the types of the program (`struct Submission with 12 elements`, `u32`), which say nothing to a client and change with the program. [`plain`] writes what they mean
//! instead. What it does not know it leaves as it is: names of fields and values are the client's own.

/// Words of the program after which a name of the program follows, and what is said instead of both.
const NAMED: [(&str, &str); 8] = [
    ("internally tagged enum ", "an object with a known type"),
    ("adjacently tagged enum ", "an object with a known type"),
    ("variant of untagged enum ", "form that is allowed"),
    ("tuple struct ", "a list"),
    ("unit struct ", "null"),
    ("newtype struct ", "a value"),
    ("struct ", "an object"),
    ("enum ", "one of the names that are allowed"),
];
/// Types of the program, and what they are.
const TYPES: [(&str, &str); 16] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number from 0 to 18446744073709551615"),
    ("usize", "a whole number from 0 on"),
    ("u128", "a whole number from 0 on"),
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
/// What is found, by the parser's name.
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

/// The same without the words of the program.
pub fn plain(said: &str) -> String {
    // What is found comes first, with the client's own text behind it; what is expected is the parser's.
    let (found, expected) = match said.rfind(EXPECTED) {
        Some(at) => said.split_at(at + EXPECTED.len()),
        None => (said, ""),
    };
    let mut text = found.to_owned();
    if let Some((word, instead)) = FOUND.iter().find(|(word, _)| found.contains(word)) {
        text = text.replacen(word, instead, 1);
    }
    if let Some(at) = text.find("variant of untagged enum ") {
        text.truncate(at);
        text.push_str("form that is allowed");
    }
    if let Some(at) = text.find(" to a `") {
        // Of a path: `cannot parse x to a i64`.
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

/// Where it is in the text, if that is said at the end.
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

    fn said<T: DeserializeOwned>(text: &str) -> String {
        plain(&serde_json::from_str::<T>(text).err().expect("an error").to_string())
    }

    /// What is wrong with a body is said without a name of the program, with where it is.
    #[test]
    fn no_name_of_the_program_is_told() {
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
            (r#"{"any": "x"}"#, "data did not match any form that is allowed"),
            (
                r#"{"map": {"a": 1.5}}"#,
                "invalid type: number `1.5`, expected a whole number from 0 to 4294967295 at line 1 column 17",
            ),
            (r#"{"expected struct": 1}"#, "unknown field `expected struct`, expected one of `name`"),
            (r#"{"name": "a"}"#, "missing field `priority` at line 1 column 13"),
        ] {
            let said = said::<Submission>(text);
            assert!(said.starts_with(expected), "{text}: {said}");
            for name in ["Submission", "Kind", "Way", "Any", "u32", "i16", "enum", "elements"] {
                assert!(!said.contains(name), "{text}: {said}");
            }
        }
    }
}
