//! The error of this crate: each variant is a decision of the caller.

use crate::consume::ack::AckError;
use crate::storage::encryption::KeyId;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is invalid. Nothing was changed; correct it.
    #[error("invalid parameter `{what}`: {reason}")]
    Invalid {
        /// The name of the parameter.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },

    /// The queue is encrypted, and this process has no key. Nothing was stored.
    #[error("queue {queue:?} is encrypted and this process has no encryption key")]
    NoKey {
        /// The queue.
        queue: String,
    },

    /// A stored message is encrypted with a key that this process does not have. It is not delivered, and stays for a
    /// process that has the key.
    #[error("a message of queue {queue:?} cannot be decrypted: {}", missing(*key))]
    WrongKey {
        /// The queue.
        queue: String,
        /// The id of the key. `None`: the message does not name it.
        key: Option<KeyId>,
    },

    /// A stored message does not decrypt with its key: it was changed in the database, or moved from another message.
    #[error("a message of queue {queue:?} cannot be decrypted: it was changed or moved in the database")]
    Damaged {
        /// The queue.
        queue: String,
    },

    /// An ack was rejected. Do not retry it: the messages are redelivered, or another consumer has them.
    #[error("ack rejected: {0}")]
    AckRejected(#[from] AckError),

    /// The transaction was rolled back as a whole, because one of its operations failed.
    #[error("{reason}")]
    RolledBack {
        /// Which operation, and why.
        reason: String,
    },

    /// The engine failed a wait or a write.
    #[error(transparent)]
    Wake(#[from] reveille_wake::Error),

    /// A statement failed. The source says whether a retry may succeed.
    #[error(transparent)]
    Database(#[from] reveille_pg::Error),
}

impl Error {
    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Wake(error) => error.is_transient(),
            Error::Database(error) => error.is_transient(),
            Error::Invalid { .. }
            | Error::NoKey { .. }
            | Error::WrongKey { .. }
            | Error::Damaged { .. }
            | Error::AckRejected(_)
            | Error::RolledBack { .. } => false,
        }
    }

    pub(crate) fn invalid(what: &'static str, reason: impl Into<String>) -> Error {
        Error::Invalid { what, reason: reason.into() }
    }
}

fn missing(key: Option<KeyId>) -> String {
    match key {
        Some(key) => format!("this server does not have the key {key}"),
        None => "none of the keys of this server opens it".to_owned(),
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Error::Database(error.into())
    }
}

/// The result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
