//! What the errors of flow mean to a client.

use axum::http::StatusCode;
use serde_json::json;
use web::ApiError;

use crate::error::Error;

impl From<Error> for ApiError {
    fn from(error: Error) -> ApiError {
        let said = error.to_string();
        match error {
            Error::Invalid { .. } => ApiError::bad_request(said),
            Error::Template(faults) => ApiError::bad_request(said).with("faults", json!(faults)),
            Error::VersionTaken { .. } | Error::NotAllowed { .. } => ApiError::new(StatusCode::CONFLICT, said),
            Error::NoTemplate { .. } | Error::NoTask { .. } | Error::NoStep { .. } | Error::NoSchedule { .. } => {
                ApiError::not_found(said)
            }
            Error::Duplicate { task } => ApiError::new(StatusCode::CONFLICT, said).with("task_uuid", task.to_string()),
            // A client of the field goes on if it finds the word "connection".
            Error::Busy { .. } => ApiError::unavailable(format!("{said} on this connection")),
            Error::Wake(error) => error.into(),
            Error::Database(error) => error.into(),
        }
    }
}
