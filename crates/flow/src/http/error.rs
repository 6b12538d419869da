//! The HTTP status of each error of flow.

use axum::http::StatusCode;
use serde_json::json;
use web::Refusal;

use crate::error::Error;

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let message = error.to_string();
        match error {
            Error::Invalid { .. } => Refusal::bad(message),
            Error::Template(faults) => Refusal::bad(message).with("faults", json!(faults)),
            Error::VersionTaken { .. } | Error::NotAllowed { .. } => Refusal::new(StatusCode::CONFLICT, message),
            Error::NoTemplate { .. } | Error::NoTask { .. } | Error::NoStep { .. } | Error::NoSchedule { .. } => {
                Refusal::not_found(message)
            }
            Error::Duplicate { task } => {
                Refusal::new(StatusCode::CONFLICT, message).with("task_uuid", task.to_string())
            }
            // Existing clients retry if the message contains the word "connection".
            Error::Busy { .. } => Refusal::later(format!("{message} on this connection")),
            Error::Wake(error) => error.into(),
            Error::Database(error) => error.into(),
        }
    }
}
