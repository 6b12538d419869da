//! What the errors of the queue mean to a client.

use std::fmt::Display;

use axum::http::StatusCode;
use reveille_web::ApiError;

use crate::error::Error;

/// The refusal of a part of a list: the error says which field, and `place` which part.
pub(crate) fn at(place: impl Display, error: Error) -> ApiError {
    match error {
        Error::Invalid { what, reason } => invalid(format_args!("{place}{what}"), reason),
        other => other.into(),
    }
}

/// A parameter is invalid: `what` names it, `reason` says what is wrong with it.
pub(crate) fn invalid(what: impl Display, reason: impl Display) -> ApiError {
    ApiError::bad_request(format!("invalid parameter `{what}`: {reason}"))
}

/// A mandatory parameter was not sent.
pub(crate) fn missing(what: impl Display) -> ApiError {
    invalid(what, "required")
}

impl From<Error> for ApiError {
    fn from(error: Error) -> ApiError {
        match error {
            Error::Invalid { .. } => ApiError::bad_request(error.to_string()),
            Error::AckRefused(_) | Error::RolledBack { .. } => ApiError::new(StatusCode::CONFLICT, error.to_string()),
            // Another server may have the key: a client that knows several tries the next.
            Error::NoKey { .. } | Error::WrongKey { .. } | Error::Damaged { .. } => {
                ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
            }
            Error::Wake(error) => error.into(),
            Error::Database(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    /// Each error of the queue has its status; of a part of a list the place is told.
    #[test]
    fn every_error_has_its_status() {
        let queue = || "q".to_owned();
        for (error, status) in [
            (Error::invalid("queue", "must not be empty"), 400),
            (Error::RolledBack { reason: "no".into() }, 409),
            (Error::NoKey { queue: queue() }, 500),
            (Error::WrongKey { queue: queue(), key: None }, 500),
            (Error::Damaged { queue: queue() }, 500),
            (Error::from(reveille_pg::Error::Closed), 503),
        ] {
            let text = error.to_string();
            let refusal = ApiError::from(error);
            assert!(refusal.message().contains(&text) || status == 503, "{refusal:?}");
            assert_eq!(refusal.into_response().status().as_u16(), status, "{text}");
        }
        let placed = at("items[0].", Error::invalid("queue", "must not be empty"));
        assert_eq!(placed.message(), "invalid parameter `items[0].queue`: must not be empty");
    }
}
