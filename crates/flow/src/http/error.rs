//! What the errors of flow mean to a client.

use axum::http::StatusCode;
use serde_json::json;
use web::Refusal;

use crate::error::Error;

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let said = error.to_string();
        match error {
            Error::Invalid { .. } => Refusal::bad(said),
            Error::Template(faults) => Refusal::bad(said).with("faults", json!(faults)),
            Error::VersionTaken { .. } | Error::NotAllowed { .. } => Refusal::new(StatusCode::CONFLICT, said),
            Error::NoTemplate { .. } | Error::NoTask { .. } | Error::NoStep { .. } | Error::NoSchedule { .. } => {
                Refusal::not_found(said)
            }
            Error::Duplicate { task } => Refusal::new(StatusCode::CONFLICT, said).with("task_uuid", task.to_string()),
            // A client of the field goes on if it finds the word "connection".
            Error::Busy { .. } => Refusal::later(format!("{said} on this connection")),
            Error::Wake(error) => error.into(),
            Error::Database(error) => error.into(),
        }
    }
}
