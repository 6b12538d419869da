//! The HTTP status of each error of flow.

use axum::http::StatusCode;
use reveille_web::ApiError;
use serde_json::json;

use crate::error::Error;

impl From<Error> for ApiError {
    fn from(error: Error) -> ApiError {
        let message = error.to_string();
        match error {
            Error::Invalid { .. } => ApiError::bad_request(message),
            Error::Template(faults) => ApiError::bad_request(message).with("faults", json!(faults)),
            Error::VersionTaken { .. } | Error::NotAllowed { .. } => ApiError::new(StatusCode::CONFLICT, message),
            Error::NoTemplate { .. } | Error::NoTask { .. } | Error::NoStep { .. } | Error::NoSchedule { .. } => {
                ApiError::not_found(message)
            }
            Error::Duplicate { task } => {
                ApiError::new(StatusCode::CONFLICT, message).with("task_uuid", task.to_string())
            }
            // Existing clients retry if the message contains the word "connection".
            Error::Busy { .. } => ApiError::unavailable(format!("{message} on this connection")),
            Error::Wake(error) => error.into(),
            Error::Database(error) => error.into(),
        }
    }
}
