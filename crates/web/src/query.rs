//! The part of a URL behind the question mark, read leniently.
//!
//! Clients write their own values as text (`True`, `10.5`, a number of twenty digits) and send parameters of servers that can do more. What is not known is passed over, what is too
//! large is cut to what is possible, and only what cannot be meant at all is refused.

use std::ops::RangeInclusive;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use time::OffsetDateTime;

use crate::error::ApiError;
use crate::timestamp;

/// The parameters of a request.
#[derive(Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// As it stands in a URL.
    pub fn of(text: &str) -> Query {
        Query(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// A parameter; an empty one is none, and of several the last counts.
    pub fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(given, _)| given == name)?;
        Some(found.1.as_str()).filter(|value| !value.is_empty())
    }

    /// The same, to keep.
    pub fn name(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    /// Yes or no, in the ways that languages write it.
    ///
    /// # Errors
    /// If it is neither.
    pub fn flag(&self, name: &str) -> Result<bool, ApiError> {
        let Some(value) = self.text(name) else { return Ok(false) };
        match value.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" | "none" | "null" => Ok(false),
            _ => Err(ApiError::bad_request(format!("{name}: {value:?} is neither true nor false"))),
        }
    }

    /// A time.
    ///
    /// # Errors
    /// If it is none.
    pub fn time(&self, name: &str) -> Result<Option<OffsetDateTime>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        timestamp::parse(text).map(Some).ok_or_else(|| ApiError::not_a_timestamp(name, text))
    }

    /// A whole number, cut to the range.
    ///
    /// # Errors
    /// If it is no number, or less than nothing.
    pub fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.text(name) else { return Ok(None) };
        match value.trim().parse::<f64>() {
            // A cast from a float stays within the type.
            Ok(number) if number >= 0.0 => Ok(Some((number as u64).clamp(*range.start(), *range.end()))),
            _ => Err(ApiError::bad_request(format!("{name}: {value:?} is not a number from 0 on"))),
        }
    }
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

    /// Each way of writing a truth value, and what is none.
    #[test]
    fn truth_values_are_read_in_every_spelling() {
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

    /// Numbers are cut to what is possible; what is no number, or less than nothing, is refused.
    #[test]
    fn numbers_are_cut_and_nonsense_is_refused() {
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

    /// Text is decoded as forms are encoded.
    #[test]
    fn text_is_decoded() {
        let query = Query::of("a=x+y%2Fz%F0%9F%90%98&b=&c");
        assert_eq!((query.text("a"), query.text("b"), query.text("c")), (Some("x y/z🐘"), None, None));
    }
}
