//! Errors, as duroxide and as applications see them.

use duroxide::providers::ProviderError;

/// What keeps a provider from starting, or a call of its own (beyond duroxide's trait) from succeeding.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database: its address, its schema, or a statement. The source says which, and whether to try again.
    #[error(transparent)]
    Database(#[from] pg::Error),

    /// The engine could not carry out a wait or a write.
    #[error(transparent)]
    Wake(#[from] wake::Error),

    /// An environment variable holds something it cannot mean. Correct or remove it.
    #[error("{name} is {value:?}: it must be {expected}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: String,
        /// What it may hold.
        expected: &'static str,
    },

    /// The argument cannot be stored or sent. Nothing was changed.
    #[error("{what}: {reason}")]
    Invalid {
        /// The argument.
        what: &'static str,
        /// Why.
        reason: String,
    },

    /// What is stored of an instance cannot be read: another version has written it, or somebody has changed it.
    #[error("instance {instance:?} cannot be read: {reason}")]
    Unreadable {
        /// The instance.
        instance: String,
        /// What is wrong with it, without a word of it.
        reason: String,
    },

    /// What was waited for has happened, and could not be read in time. Ask again.
    #[error(
        "instance {instance:?}: what was waited for has happened, and the database did not answer in time what it is"
    )]
    Late {
        /// The instance.
        instance: String,
    },
}

impl Error {
    /// Whether the same call may succeed later without anybody correcting anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Database(error) => error.is_transient(),
            Error::Wake(error) => error.is_transient(),
            Error::Late { .. } => true,
            Error::Environment { .. } | Error::Invalid { .. } | Error::Unreadable { .. } => false,
        }
    }

    pub(crate) fn unreadable(instance: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Unreadable { instance: instance.into(), reason: reason.into() }
    }

    /// As duroxide sees it.
    pub(crate) fn of(&self, operation: &'static str) -> ProviderError {
        ProviderError { operation: operation.into(), message: pg::causes(self), retryable: self.is_transient() }
    }
}

/// The result of this crate's own functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of the database, as duroxide sees it.
pub(crate) fn database(operation: &'static str, error: &pg::Error) -> ProviderError {
    ProviderError { operation: operation.into(), message: pg::causes(error), retryable: error.is_transient() }
}

/// A failure of the engine, as duroxide sees it.
pub(crate) fn engine(operation: &'static str, error: &wake::Error) -> ProviderError {
    ProviderError { operation: operation.into(), message: pg::causes(error), retryable: error.is_transient() }
}
