//! JSON kept as text.
//!
//! A parsed `serde_json::Value` holds 64-bit integers and floating point numbers: 100000000000000000001 becomes 1e20,
//! so two different contexts would be equal, and the stored value would differ from the one that was sent. [`Json`]
//! keeps the text. It is parsed only where the content matters: to validate it, to read an outcome, and to compute an
//! identity.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// JSON text: numbers keep all their digits, objects the order of their keys.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

/// The text is not JSON, or nested too deep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotJson(String);

impl Json {
    /// Checks that a text is JSON.
    ///
    /// # Errors
    /// If it is not JSON, or nested too deep.
    pub fn parse(text: String) -> Result<Json, NotJson> {
        let raw = RawValue::from_string(text).map_err(|error| NotJson(reveille_web::plain(&error.to_string())))?;
        Json::of(raw)
    }

    /// A text from the database. It may be nested deeper than new values may be.
    pub(crate) fn stored(text: String) -> Result<Json, NotJson> {
        RawValue::from_string(text).map(Json).map_err(|error| NotJson(reveille_web::plain(&error.to_string())))
    }

    /// Serializes a value.
    ///
    /// # Errors
    /// If the value has no JSON form, such as a map whose keys are not strings.
    pub fn from_serialize(value: &impl Serialize) -> Result<Json, NotJson> {
        to_raw_value(value).map_err(|error| NotJson(error.to_string())).and_then(Json::of)
    }

    fn of(raw: Box<RawValue>) -> Result<Json, NotJson> {
        if !reveille_web::is_within_depth(raw.get()) {
            return Err(NotJson(format!("nested more than {} levels deep", reveille_web::MAX_DEPTH)));
        }
        Ok(Json(raw))
    }

    /// The text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The text as a raw value.
    pub fn into_raw(self) -> Box<RawValue> {
        self.0
    }

    /// The parsed value with 64-bit numbers. `Err` if a number is too large.
    pub(crate) fn value(&self) -> Result<Value, String> {
        serde_json::from_str(self.get()).map_err(|error| reveille_web::plain(&error.to_string()))
    }

    /// The parsed value with all digits.
    pub(crate) fn json(&self) -> Exact {
        Reader { text: self.get(), at: 0 }.value()
    }
}

impl Default for Json {
    fn default() -> Json {
        Json(RawValue::NULL.to_owned())
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Json {
        Json(to_raw_value(&value).expect("a value is JSON"))
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

/// Compares values: the order of keys and the notation of numbers do not matter.
impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.get() == other.get() || self.json() == other.json()
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Json, D::Error> {
        Json::of(Box::<RawValue>::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// A parsed value whose numbers have all their digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exact {
    Null,
    Bool(bool),
    /// Normalized by [`normal`].
    Number(String),
    String(String),
    Array(Vec<Exact>),
    Object(BTreeMap<String, Exact>),
}

/// Parses a text that is known to be JSON.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Exact {
        match self.next() {
            b'{' => {
                let mut members = BTreeMap::new();
                self.at += 1;
                while self.next() != b'}' {
                    let name = self.string();
                    self.skip(b':');
                    // Of duplicate keys the last wins, as in serde_json.
                    members.insert(name, self.value());
                    self.skip(b',');
                }
                self.at += 1;
                Exact::Object(members)
            }
            b'[' => {
                let mut elements = Vec::new();
                self.at += 1;
                while self.next() != b']' {
                    elements.push(self.value());
                    self.skip(b',');
                }
                self.at += 1;
                Exact::Array(elements)
            }
            b'"' => Exact::String(self.string()),
            _ => {
                let rest = &self.text[self.at..];
                let length = rest.find([',', ']', '}', ' ', '\n', '\r', '\t']).unwrap_or(rest.len());
                self.at += length;
                match &rest[..length] {
                    "null" => Exact::Null,
                    "true" => Exact::Bool(true),
                    "false" => Exact::Bool(false),
                    number => Exact::Number(normal(number)),
                }
            }
        }
    }

    /// The next byte that is not white space. At the end of the text it is `}`, so that every loop ends.
    fn next(&mut self) -> u8 {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
        self.text.as_bytes().get(self.at).copied().unwrap_or(b'}')
    }

    fn skip(&mut self, byte: u8) {
        if self.next() == byte {
            self.at += 1;
        }
    }

    fn string(&mut self) -> String {
        self.next();
        let rest = &self.text[self.at..];
        let mut escaped = true;
        let end = rest.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let text = &rest[..end.map_or(rest.len(), |end| end + 1)];
        self.at += text.len();
        serde_json::from_str(text).unwrap_or_default()
    }
}

/// Whether two JSON numbers are equal, to the last digit.
pub(crate) fn same_number(one: &str, other: &str) -> bool {
    normal(one) == normal(other)
}

/// Normalizes a number: equal numbers have equal texts. `1`, `1.0` and `10e-1` become `1`.
fn normal(number: &str) -> String {
    let (sign, rest) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (digits, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let Ok(exponent) = exponent.parse::<i64>() else { return number.to_ascii_lowercase() };
    let all = format!("{whole}{part}");
    let significant = all.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return "0".to_owned();
    }
    let zeros = (all.len() - all.trim_end_matches('0').len()) as i64;
    let exponent = exponent.saturating_sub(part.len() as i64).saturating_add(zeros);
    // Integers of a usual length are written out.
    match usize::try_from(exponent) {
        Ok(zeros) if zeros <= 40 => format!("{sign}{significant}{}", "0".repeat(zeros)),
        _ => format!("{sign}{significant}e{exponent}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// All digits and the order of keys survive a round trip through a struct.
    #[test]
    fn the_text_survives_a_round_trip() {
        #[derive(Serialize, Deserialize)]
        struct Wrapper {
            context: Json,
        }
        let text = r#"{"context":{"z":100000000000000000001,"a":[1.0,1e2,0.1000000000000000055511151231257827,-0]}}"#;
        let wrapper: Wrapper = serde_json::from_str(text).expect("JSON");
        assert_eq!(serde_json::to_string(&wrapper).expect("JSON"), text);
        assert_eq!(Json::default().get(), "null");
        assert_eq!(json(" [1] "), Json::from(json!([1])));
    }

    /// Numbers are compared by value, to the last digit.
    #[test]
    fn numbers_are_equal_exactly() {
        for (one, other, same) in [
            ("1", "1.0", true),
            ("1", "1e0", true),
            ("100", "1e2", true),
            ("0", "-0.0e7", true),
            ("0.10", "1E-1", true),
            ("-1.5", "-15e-1", true),
            ("100000000000000000000", "100000000000000000001", false),
            ("1e20", "100000000000000000000", true),
            ("0.1", "0.1000000000000000055511151231257827", false),
            ("1e400", "1e401", false),
            ("1e99999999999999999999", "1e99999999999999999998", false),
            ("1", "-1", false),
            ("10", "1", false),
        ] {
            assert_eq!(json(one) == json(other), same, "{one} {other}");
        }
    }

    /// All other values are equal if their parsed values are.
    #[test]
    fn values_are_compared_by_content() {
        for (one, other, same) in [
            (r#"{"a":1,"b":[true,null]}"#, "{ \"b\" : [ true , null ] ,\n\"a\" : 1 }", true),
            (r#"{"a":1}"#, r#"{"a":1,"b":1}"#, false),
            (r#"["a\"]","\\"]"#, r#"["a\"]", "\\"]"#, true),
            (r#""\u00e9\u0000""#, "\"é\\u0000\"", true),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#, true),
            ("[]", "{}", false),
            ("[[],[]]", "[[]]", false),
            ("\"1\"", "1", false),
            ("false", "null", false),
        ] {
            assert_eq!(json(one) == json(other), same, "{one} {other}");
        }
    }

    /// A value may be nested as deep as an HTTP body, and no deeper; brackets in strings do not count.
    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(nested(reveille_web::MAX_DEPTH)).is_ok());
        let error = Json::parse(nested(reveille_web::MAX_DEPTH + 1)).expect_err("deep").to_string();
        assert!(error.contains("more than 100 levels"), "{error}");
        assert!(Json::parse(nested(100_000)).is_err());
        assert!(Json::stored(nested(128)).is_ok(), "stored when the limit was 128");
        assert!(Json::parse(format!("\"{}\\\"[\"", "[".repeat(1_000))).is_ok());
    }
}
