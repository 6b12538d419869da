//! JSON with its numbers as they were written.
//!
//! A payload may contain integers of twenty digits, and a console that shows them through a float shows another number.
//! Here a number is its text. Objects keep the order and the repetition of their keys.

use std::fmt::{self, Write as _};
use std::ops::Index;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`, and whatever is absent.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as its text.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object, in its order.
    Object(Vec<(String, Json)>),
}

static NULL: Json = Json::Null;

impl Json {
    /// Parses JSON.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Json, serde_json::Error> {
        Ok(match text.trim_start().as_bytes().first() {
            Some(b'{') => {
                let Members(members) = serde_json::from_str(text)?;
                let parse = |(name, value): (String, &RawValue)| Ok((name, Json::parse(value.get())?));
                Json::Object(members.into_iter().map(parse).collect::<Result<_, serde_json::Error>>()?)
            }
            Some(b'[') => {
                let elements: Vec<&RawValue> = serde_json::from_str(text)?;
                Json::List(elements.into_iter().map(|element| Json::parse(element.get())).collect::<Result<_, _>>()?)
            }
            Some(b'"') => Json::Text(serde_json::from_str(text)?),
            Some(b't' | b'f') => Json::Bool(serde_json::from_str(text)?),
            Some(b'n') => serde_json::from_str::<()>(text).map(|()| Json::Null)?,
            _ => Json::Number(serde_json::from_str::<&RawValue>(text)?.get().to_owned()),
        })
    }

    /// The text; empty for everything else.
    pub fn text(&self) -> &str {
        self.as_text().unwrap_or_default()
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        if let Json::Text(text) = self { Some(text) } else { None }
    }

    /// The elements; none for everything else.
    pub fn items(&self) -> &[Json] {
        if let Json::List(items) = self { items } else { &[] }
    }

    /// The members of an object; none for everything else.
    pub fn members(&self) -> &[(String, Json)] {
        if let Json::Object(members) = self { members } else { &[] }
    }

    /// A whole number, if it is one and fits.
    pub fn integer(&self) -> Option<i64> {
        if let Json::Number(text) = self { text.parse().ok() } else { None }
    }

    /// A number for plots, and for nothing that is shown.
    pub fn approximate(&self) -> Option<f64> {
        if let Json::Number(text) = self { text.parse().ok() } else { None }
    }

    /// Whether it is `true`.
    pub fn is_true(&self) -> bool {
        *self == Json::Bool(true)
    }

    /// Whether it is `null` or absent.
    pub fn is_null(&self) -> bool {
        *self == Json::Null
    }

    /// As text for a cell: texts without quotes, nothing for `null`, everything else as JSON.
    pub fn shown(&self) -> String {
        match self {
            Json::Null => String::new(),
            Json::Text(text) => text.clone(),
            other => other.to_string(),
        }
    }

    /// With line breaks and indentation.
    pub fn pretty(&self) -> String {
        let mut text = String::new();
        self.write_pretty(&mut text, 0);
        text
    }

    fn write_pretty(&self, into: &mut String, depth: usize) {
        let indent = |into: &mut String, depth: usize| {
            into.push('\n');
            into.extend(std::iter::repeat_n("  ", depth));
        };
        match self {
            Json::List(items) if !items.is_empty() => {
                into.push('[');
                for (index, item) in items.iter().enumerate() {
                    into.push_str(if index == 0 { "" } else { "," });
                    indent(into, depth + 1);
                    item.write_pretty(into, depth + 1);
                }
                indent(into, depth);
                into.push(']');
            }
            Json::Object(members) if !members.is_empty() => {
                into.push('{');
                for (index, (name, value)) in members.iter().enumerate() {
                    into.push_str(if index == 0 { "" } else { "," });
                    indent(into, depth + 1);
                    let _ = write!(into, "{}: ", quoted(name));
                    value.write_pretty(into, depth + 1);
                }
                indent(into, depth);
                into.push('}');
            }
            other => {
                let _ = write!(into, "{other}");
            }
        }
    }
}

/// A text as JSON.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

impl Index<&str> for Json {
    type Output = Json;

    /// A member of an object; `null` if there is none.
    fn index(&self, name: &str) -> &Json {
        self.members().iter().find(|(known, _)| known == name).map_or(&NULL, |(_, value)| value)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_owned())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Json {
        Json::Number(value.to_string())
    }
}

/// Compact JSON.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Number(text) => f.write_str(text),
            Json::Text(text) => f.write_str(&quoted(text)),
            Json::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { "," })?;
                }
                f.write_str("]")
            }
            Json::Object(members) => {
                f.write_str("{")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    write!(f, "{}{}:{value}", if index == 0 { "" } else { "," }, quoted(name))?;
                }
                f.write_str("}")
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Json, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        Json::parse(raw.get()).map_err(D::Error::custom)
    }
}

/// The members of an object in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = from.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        from.deserialize_map(InOrder).map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value is written as it was read: digits, order, repeated keys and escaped texts.
    #[test]
    fn json_is_kept_exactly() {
        for text in [
            r#"{"b":12345678901234567890123,"a":[1.10,-0,1e400,true,null,"\"<é\n"],"b":{}}"#,
            "[]",
            "\"\"",
            "0.10000000000000000001",
            "null",
        ] {
            assert_eq!(Json::parse(text).expect("JSON").to_string(), text);
        }
        let value: Json = serde_json::from_str(r#" { "n" : 9007199254740993 , "l":[{"x":1}] } "#).expect("JSON");
        assert_eq!((value["n"].integer(), value["none"]["deeper"].is_null()), (Some(9_007_199_254_740_993), true));
        assert_eq!(value.pretty(), "{\n  \"n\": 9007199254740993,\n  \"l\": [\n    {\n      \"x\": 1\n    }\n  ]\n}");
        for text in ["", "{", "01", "tru", "[1,]", "1 2"] {
            assert!(Json::parse(text).is_err(), "{text:?}");
        }
    }
}
