//! The HTTP status of each error of durable.

use axum::http::StatusCode;
use reveille_web::ApiError;

use crate::error::Error;

impl From<Error> for ApiError {
    fn from(error: Error) -> ApiError {
        let message = error.to_string();
        match error {
            Error::Invalid { .. } | Error::Environment { .. } => ApiError::bad_request(message),
            Error::NotFound { .. } => ApiError::not_found(message),
            Error::NotAllowed { .. } => ApiError::new(StatusCode::CONFLICT, message),
            Error::Unreadable { .. } => {
                tracing::error!(error = message, "request failed: stored data cannot be read");
                ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message)
            }
            Error::Late { .. } => ApiError::unavailable(format!("{message}; retry on this connection")),
            Error::Provider { retryable: true, .. } => {
                tracing::debug!(error = message, "request failed: transient database error");
                ApiError::unavailable("no connection to the database; retry")
            }
            // The message may be a text of the database.
            Error::Provider { .. } => {
                tracing::error!(error = message, "request failed: database error");
                let message = "the database rejected the operation; see the log of the server";
                ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, message)
            }
            Error::Wake(error) => error.into(),
            Error::Database(error) => error.into(),
        }
    }
}
