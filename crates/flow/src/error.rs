//! What can go wrong, as a decision of the caller.

use uuid::Uuid;

use crate::operate::Obstacle;
use crate::schema::Unfit;
use crate::template::Faults;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something in the request cannot be meant. Nothing was changed; correct it.
    #[error("{what}: {reason}")]
    Invalid {
        /// Which part of the request.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },

    /// The template has faults. Nothing was registered.
    #[error(transparent)]
    Template(#[from] Faults),

    /// That version of the template has another text already. A version never changes: choose another.
    #[error(
        "version {version:?} of template {namespace}/{name} is registered with another text; give it another version"
    )]
    VersionTaken {
        /// Its namespace,
        namespace: String,
        /// name,
        name: String,
        /// and version.
        version: String,
    },

    /// There is no such template.
    #[error("there is no template {namespace}/{name} of version {version:?}")]
    NoTemplate {
        /// Its namespace,
        namespace: String,
        /// name,
        name: String,
        /// and version.
        version: String,
    },

    /// There is no such schedule.
    #[error("there is no schedule {name:?} in namespace {namespace:?}")]
    NoSchedule {
        /// Its namespace,
        namespace: String,
        /// and name.
        name: String,
    },

    /// The same task was submitted before.
    #[error("task {task} is the same")]
    Duplicate {
        /// That one.
        task: Uuid,
    },

    /// There is no such task.
    #[error("there is no task {task}")]
    NoTask {
        /// The one that was asked for.
        task: Uuid,
    },

    /// The task has no such step, or that has not come to be.
    #[error("task {task} has no step {step:?}")]
    NoStep {
        /// The task,
        task: Uuid,
        /// and the step that was asked for.
        step: String,
    },

    /// What somebody wanted to do with a step or a task cannot be done where it is. Nothing was changed.
    #[error("{operation} is not possible for {}task {task}: {obstacle}", .step.as_ref().map(|step| format!("step {step:?} of ")).unwrap_or_default())]
    NotAllowed {
        /// The task,
        task: Uuid,
        /// and its step, if it was about one.
        step: Option<String>,
        /// What was to be done.
        operation: &'static str,
        /// What stands in the way.
        obstacle: Obstacle,
    },

    /// As many templates and large values as are allowed at once are being checked. Nothing was changed; try again.
    #[error("{what}: too many others are being checked; try again")]
    Busy {
        /// Which part of the request.
        what: &'static str,
    },

    /// The engine could not carry out a wait or a write.
    #[error(transparent)]
    Wake(#[from] wake::Error),

    /// The database failed a statement. The source says whether to try again.
    #[error(transparent)]
    Database(#[from] pg::Error),
}

impl Error {
    /// Whether the same call may succeed later without anybody correcting anything.
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

    /// A value that its schema does not allow.
    pub(crate) fn unfit(what: &'static str, unfit: Unfit) -> Error {
        match unfit {
            Unfit::Invalid(reason) => Error::Invalid { what, reason },
            Unfit::Busy => Error::Busy { what },
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
