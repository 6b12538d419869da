//! Fields of a JSON body that may have values of several types.

use std::fmt::Display;

use reveille_web::ApiError;
use serde_json::value::RawValue;

use super::api_error::invalid;

/// A field as it was sent.
pub(crate) type Raw<'a> = Option<&'a RawValue>;

/// A string. `None`: absent or null.
pub(crate) fn text(raw: Raw<'_>, what: impl Display) -> Result<Option<String>, ApiError> {
    let Some(raw) = raw.map(RawValue::get).filter(|raw| *raw != "null") else { return Ok(None) };
    if !raw.starts_with('"') {
        return Err(invalid(what, "must be a string"));
    }
    serde_json::from_str(raw).map(Some).map_err(|error| invalid(&what, error))
}

/// A string, number or boolean as text: clients send ids in any of these types.
pub(crate) fn scalar(raw: Raw<'_>, what: impl Display) -> Result<Option<String>, ApiError> {
    match raw.map(RawValue::get) {
        Some(raw) if raw.starts_with(['{', '[']) => Err(invalid(what, "must be a string or a number")),
        Some(plain) if !plain.starts_with('"') && plain != "null" => Ok(Some(plain.to_owned())),
        _ => text(raw, what),
    }
}

/// As [`scalar`]; an empty text is `None`.
pub(crate) fn name(raw: Raw<'_>, what: impl Display) -> Result<Option<String>, ApiError> {
    Ok(scalar(raw, what)?.filter(|name| !name.is_empty()))
}

/// An error text: as [`scalar`], or an object or list as JSON.
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

    /// The result of each function for each type of value; an error names the field.
    #[test]
    fn values_of_several_types_are_read() {
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
                Err(error) => {
                    assert_eq!(Err(()), expected, "{json}");
                    assert!(format!("{error:?}").contains("items[0].x"), "{json}");
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
