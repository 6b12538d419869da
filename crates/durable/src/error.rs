//! Errors.

use duroxide::providers::ProviderError;

/// An error of starting a provider, or of a call beyond duroxide's trait.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database: its address, its schema, or a statement.
    #[error(transparent)]
    Database(#[from] reveille_pg::Error),

    /// A wait or a write failed.
    #[error(transparent)]
    Wake(#[from] reveille_wake::Error),

    /// An environment variable has an invalid value. Correct or remove it.
    #[error("invalid environment variable {name}: must be {expected}, got {value:?}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },

    /// An argument is invalid. Nothing was changed.
    #[error("invalid parameter `{what}`: {reason}")]
    Invalid {
        /// The argument.
        what: &'static str,
        /// Why.
        reason: String,
    },

    /// The stored data of an instance cannot be decoded: written by another version, or changed by other means.
    #[error("instance {instance:?} cannot be read: {reason}")]
    Unreadable {
        /// The instance.
        instance: String,
        /// What is wrong with it, without the data.
        reason: String,
    },

    /// There is no instance of that id. Nothing was changed.
    #[error("there is no instance {instance:?}")]
    NotFound {
        /// The instance.
        instance: String,
    },

    /// The state of an instance does not allow the operation. Nothing was changed.
    #[error("not allowed: {what}")]
    NotAllowed {
        /// Which instance, and what it would take.
        what: String,
    },

    /// A call of the provider failed.
    #[error("{operation} failed: {message}")]
    Provider {
        /// The call.
        operation: String,
        /// Why; may be a text of the database.
        message: String,
        /// Whether the same call may succeed later.
        retryable: bool,
    },

    /// The instance has ended or changed, but its status could not be read in time. Retry.
    #[error("instance {instance:?} has ended or changed, but the database did not return its status in time")]
    Late {
        /// The instance.
        instance: String,
    },
}

impl Error {
    /// Whether the same call may succeed later without any correction.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Database(error) => error.is_transient(),
            Error::Wake(error) => error.is_transient(),
            Error::Provider { retryable, .. } => *retryable,
            Error::Late { .. } => true,
            Error::Environment { .. }
            | Error::Invalid { .. }
            | Error::NotFound { .. }
            | Error::NotAllowed { .. }
            | Error::Unreadable { .. } => false,
        }
    }

    pub(crate) fn unreadable(instance: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Unreadable { instance: instance.into(), reason: reason.into() }
    }

    /// An error of duroxide's trait, as one of this crate.
    #[cfg(feature = "http")]
    pub(crate) fn from_provider(error: ProviderError) -> Error {
        let ProviderError { operation, message, retryable } = error;
        match message.contains("still running") {
            true => Error::NotAllowed { what: message },
            false => Error::Provider { operation, message, retryable },
        }
    }

    /// As an error of duroxide.
    pub(crate) fn of(&self, operation: &'static str) -> ProviderError {
        ProviderError {
            operation: operation.into(),
            message: reveille_pg::causes(self),
            retryable: self.is_transient(),
        }
    }
}

/// The result of this crate's own functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the database, as an error of duroxide.
pub(crate) fn database(operation: &'static str, error: &reveille_pg::Error) -> ProviderError {
    ProviderError { operation: operation.into(), message: reveille_pg::causes(error), retryable: error.is_transient() }
}

/// An error of the engine, as an error of duroxide.
pub(crate) fn engine(operation: &'static str, error: &reveille_wake::Error) -> ProviderError {
    ProviderError { operation: operation.into(), message: reveille_pg::causes(error), retryable: error.is_transient() }
}
