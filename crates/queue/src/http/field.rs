//! Fields of a JSON body that clients fill with more than one kind of value.

use std::fmt::Display;

use reveille_web::ApiError;
use serde_json::value::RawValue;

use super::api_error::invalid;

/// A field as it was sent.
pub(crate) type Raw<'a> = Option<&'a RawValue>;

/// Text, or nothing: absent, null.
pub(crate) fn text(raw: Raw<'_>, what: impl Display) -> Result<Option<String>, ApiError> {
    let Some(raw) = raw.map(RawValue::get).filter(|raw| *raw != "null") else { return Ok(None) };
    if !raw.starts_with('"') {
        return Err(invalid(what, "must be a string"));
    }
    serde_json::from_str(raw).map(Some).map_err(|error| invalid(&what, error))
}

/// Text, a number or a truth value as text: clients send ids as whatever their users have.
pub(crate) fn scalar(raw: Raw<'_>, what: impl Display) -> Result<Option<String>, ApiError> {
    match raw.map(RawValue::get) {
        Some(raw) if raw.starts_with(['{', '[']) => Err(invalid(what, "must be a string or a number")),
        Some(plain) if !plain.starts_with('"') && plain != "null" => Ok(Some(plain.to_owned())),
        _ => text(raw, what),
    }
}

/// As [`scalar`]; an empty one is none.
pub(crate) fn name(raw: Raw<'_>, what: impl Display) -> Result<Option<String>, ApiError> {
    Ok(scalar(raw, what)?.filter(|name| !name.is_empty()))
}

/// An explanation: text, or whatever else was sent, as JSON.
pub(crate) fn explanation(raw: Raw<'_>, what: impl Display) -> Result<Option<String>, ApiError> {
    match raw.map(RawValue::get) {
        Some(raw) if raw.starts_with(['{', '[']) => Ok(Some(raw.to_owned())),
        _ => scalar(raw, what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).expect("JSON")
    }

    /// What each reading makes of each kind of value; `Err` is a refusal that names the field.
    #[test]
    fn values_are_read_as_far_as_they_can_be_meant() {
        type Read = Result<Option<&'static str>, ()>;
        let table: [(&str, Read, Read, Read); 8] = [
            ("null", Ok(None), Ok(None), Ok(None)),
            (r#""""#, Ok(Some("")), Ok(Some("")), Ok(Some(""))),
            (r#""a\u00e9\n""#, Ok(Some("aé\n")), Ok(Some("aé\n")), Ok(Some("aé\n"))),
            ("42", Err(()), Ok(Some("42")), Ok(Some("42"))),
            ("1.50", Err(()), Ok(Some("1.50")), Ok(Some("1.50"))),
            ("true", Err(()), Ok(Some("true")), Ok(Some("true"))),
            ("[1]", Err(()), Err(()), Ok(Some("[1]"))),
            (r#""\ud800""#, Err(()), Err(()), Err(())),
        ];
        for (json, as_text, as_scalar, as_explanation) in table {
            let given = raw(json);
            let check = |read: Result<Option<String>, ApiError>, expected: Read| match read {
                Ok(read) => assert_eq!(Ok(read.as_deref()), expected, "{json}"),
                Err(refusal) => {
                    assert_eq!(Err(()), expected, "{json}");
                    assert!(format!("{refusal:?}").contains("items[0].x"), "{json}");
                }
            };
            check(text(Some(&given), "items[0].x"), as_text);
            check(scalar(Some(&given), "items[0].x"), as_scalar);
            check(explanation(Some(&given), "items[0].x"), as_explanation);
        }
        assert_eq!(text(None, "x").ok(), Some(None));
        assert_eq!(name(Some(&raw(r#""""#)), "x").ok(), Some(None));
    }
}
