//! The HTTP responses of the queue's errors.

use std::fmt::Display;

use axum::http::StatusCode;
use reveille_web::ApiError;

use crate::error::Error;

/// An error in an element of a list: `element` is the path of the element, the error names the field.
pub(crate) fn at(element: impl Display, error: Error) -> ApiError {
    match error {
        Error::Invalid { what, reason } => invalid(format_args!("{element}{what}"), reason),
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
            Error::AckRejected(_) | Error::RolledBack { .. } => ApiError::new(StatusCode::CONFLICT, error.to_string()),
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

    /// Each error of the queue has its status, and an error in a list names its element.
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
            let response = ApiError::from(error);
            assert!(response.message().contains(&text) || status == 503, "{response:?}");
            assert_eq!(response.into_response().status().as_u16(), status, "{text}");
        }
        let in_list = at("items[0].", Error::invalid("queue", "must not be empty"));
        assert_eq!(in_list.message(), "invalid parameter `items[0].queue`: must not be empty");
    }
}
