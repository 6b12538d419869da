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

    /// There is no such instance.
    #[error("there is no instance {instance:?}")]
    NoInstance {
        /// The instance asked for.
        instance: String,
    },
}

impl Error {
    /// Whether the same call may succeed later without anybody correcting anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Database(error) => error.is_transient(),
            Error::Wake(error) => error.is_transient(),
            Error::Environment { .. } | Error::Invalid { .. } | Error::NoInstance { .. } => false,
        }
    }
}

/// The result of this crate's own functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the database, as duroxide sees it.
pub(crate) fn database(operation: &'static str, error: &pg::Error) -> ProviderError {
    ProviderError { operation: operation.into(), message: pg::causes(error), retryable: error.is_transient() }
}

/// A failure of the engine, as duroxide sees it.
pub(crate) fn engine(operation: &'static str, error: &wake::Error) -> ProviderError {
    ProviderError { operation: operation.into(), message: pg::causes(error), retryable: error.is_transient() }
}
