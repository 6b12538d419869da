//! The errors of this crate. Each variant is a decision that the caller can take.

use uuid::Uuid;

use crate::operate::Obstacle;
use crate::template::Faults;
use crate::template::schema::SchemaError;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is invalid. Nothing was changed; correct it.
    #[error("invalid parameter `{what}`: {reason}")]
    Invalid {
        /// The parameter.
        what: &'static str,
        /// What is wrong with it, and what is allowed.
        reason: String,
    },

    /// The template has faults. Nothing was registered.
    #[error(transparent)]
    Template(#[from] Faults),

    /// This version of the template is registered with another text. A version never changes: choose a new version.
    #[error(
        "template {namespace}/{name} version {version:?} is already registered with a different text: choose a new version"
    )]
    VersionTaken {
        /// The namespace of the template.
        namespace: String,
        /// The name of the template.
        name: String,
        /// The version of the template.
        version: String,
    },

    /// There is no such template.
    #[error("no template {namespace}/{name} with version {version:?}")]
    NoTemplate {
        /// The namespace of the template.
        namespace: String,
        /// The name of the template.
        name: String,
        /// The version of the template.
        version: String,
    },

    /// There is no such schedule.
    #[error("no schedule {name:?} in namespace {namespace:?}")]
    NoSchedule {
        /// The namespace of the template.
        namespace: String,
        /// The name of the schedule.
        name: String,
    },

    /// The submission is a duplicate of an existing task.
    #[error("duplicate of task {task}")]
    Duplicate {
        /// The existing task.
        task: Uuid,
    },

    /// There is no such task.
    #[error("no task with id {task}")]
    NoTask {
        /// The requested task.
        task: Uuid,
    },

    /// The task has no such step, or the step has not been created yet.
    #[error("task {task} has no step {step:?}")]
    NoStep {
        /// The task.
        task: Uuid,
        /// The requested step.
        step: String,
    },

    /// The operation is not allowed in the current state of the step or task. Nothing was changed.
    #[error("{operation} is not allowed for {}task {task}: {obstacle}", .step.as_ref().map(|step| format!("step {step:?} of ")).unwrap_or_default())]
    NotAllowed {
        /// The task.
        task: Uuid,
        /// The step, if the operation was on a step.
        step: Option<String>,
        /// The operation.
        operation: &'static str,
        /// Why it is not allowed.
        obstacle: Obstacle,
    },

    /// Too many templates or large values are being validated. Nothing was changed; retry.
    #[error("cannot validate `{what}` now: too many validations are running; retry")]
    Busy {
        /// The parameter.
        what: &'static str,
    },

    /// A wait or a write failed.
    #[error(transparent)]
    Wake(#[from] reveille_wake::Error),

    /// A statement failed. The source says whether to retry.
    #[error(transparent)]
    Database(#[from] reveille_pg::Error),
}

impl Error {
    /// Whether the same call may succeed later without a change.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Wake(error) => error.is_transient(),
            Error::Database(error) => error.is_transient(),
            Error::Busy { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn invalid(what: &'static str, reason: impl Into<String>) -> Error {
        Error::Invalid { what, reason: reason.into() }
    }

    /// The error for a value that does not match its schema.
    pub(crate) fn schema(what: &'static str, error: SchemaError) -> Error {
        match error {
            SchemaError::Invalid(reason) => Error::Invalid { what, reason },
            SchemaError::Busy => Error::Busy { what },
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Error::Database(error.into())
    }
}

/// The result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
