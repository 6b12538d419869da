//! Query parameters, parsed leniently.
//!
//! Clients send values as their language prints them (`True`, `10.5`, a number of twenty digits). Numbers out of range
//! are clamped; only a value that has no meaning for its parameter is rejected.

use std::ops::RangeInclusive;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use time::OffsetDateTime;

use super::error::ApiError;
use crate::timestamp;

/// The parameters of a request.
#[derive(Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the query string of a URL.
    pub fn of(text: &str) -> Query {
        Query(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// A parameter. An empty value counts as absent; of several values the last counts.
    pub fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(given, _)| given == name)?;
        Some(found.1.as_str()).filter(|value| !value.is_empty())
    }

    /// As [`Query::text`], owned.
    pub fn name(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    /// A boolean, as languages print it. Absent means false.
    ///
    /// # Errors
    /// If it is no boolean.
    pub fn flag(&self, name: &str) -> Result<bool, ApiError> {
        let Some(value) = self.text(name) else { return Ok(false) };
        match value.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" | "none" | "null" => Ok(false),
            _ => Err(invalid(name, "true or false", value)),
        }
    }

    /// A timestamp.
    ///
    /// # Errors
    /// If it is no timestamp.
    pub fn time(&self, name: &str) -> Result<Option<OffsetDateTime>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        timestamp::parse(text).map(Some).ok_or_else(|| ApiError::not_a_timestamp(name, text))
    }

    /// A whole number, clamped to the range.
    ///
    /// # Errors
    /// If it is no number, or negative.
    pub fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.text(name) else { return Ok(None) };
        match value.trim().parse::<f64>() {
            // The cast saturates.
            Ok(number) if number >= 0.0 => Ok(Some((number as u64).clamp(*range.start(), *range.end()))),
            _ => Err(invalid(name, "a number, 0 or greater", value)),
        }
    }
}

fn invalid(name: &str, expected: &str, value: &str) -> ApiError {
    ApiError::bad_request(format!("invalid parameter `{name}`: must be {expected}, got {value:?}"))
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query, ApiError> {
        Ok(Query::of(parts.uri.query().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every common spelling of a boolean is accepted; anything else is rejected.
    #[test]
    fn booleans_are_parsed_in_every_spelling() {
        for (text, expected) in [
            ("", Ok(false)),
            ("wait", Ok(false)),
            ("wait=", Ok(false)),
            ("wait=true", Ok(true)),
            ("wait=True", Ok(true)),
            ("wait=1", Ok(true)),
            ("wait=False", Ok(false)),
            ("wait=0", Ok(false)),
            ("wait=true&wait=false", Ok(false)),
            ("wait=perhaps", Err(())),
        ] {
            assert_eq!(Query::of(text).flag("wait").map_err(|_| ()), expected, "{text}");
        }
    }

    /// Numbers are clamped to the range; a negative number or other text is rejected.
    #[test]
    fn numbers_are_clamped_and_other_texts_are_rejected() {
        for (text, expected) in [
            ("", Ok(None)),
            ("n=", Ok(None)),
            ("n=7", Ok(Some(7))),
            ("n=7.9", Ok(Some(7))),
            ("n=+7", Ok(Some(7))),
            ("n=0", Ok(Some(1))),
            ("n=1e3", Ok(Some(10))),
            ("n=99999999999999999999999", Ok(Some(10))),
            ("n=-1", Err(())),
            ("n=NaN", Err(())),
            ("n=seven", Err(())),
        ] {
            assert_eq!(Query::of(text).number("n", 1..=10).map_err(|_| ()), expected, "{text}");
        }
    }

    /// Text is decoded from `application/x-www-form-urlencoded`.
    #[test]
    fn text_is_decoded() {
        let query = Query::of("a=x+y%2Fz%F0%9F%90%98&b=&c");
        assert_eq!((query.text("a"), query.text("b"), query.text("c")), (Some("x y/z🐘"), None, None));
    }
}
