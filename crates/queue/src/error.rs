//! What can go wrong, as a decision of the caller.

use crate::consume::ack::AckRefusal;
use crate::storage::encryption::KeyId;

/// The error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is invalid. Nothing was changed; correct it.
    #[error("invalid parameter `{what}`: {reason}")]
    Invalid {
        /// Which part of the request.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },

    /// The queue wants its messages encrypted, and this process has no key. Nothing was stored.
    #[error("queue {queue:?} is encrypted and this process has no encryption key")]
    NoKey {
        /// The queue.
        queue: String,
    },

    /// A stored message is encrypted with a key that this process does not have. It stays where it is, for a process that has it.
    #[error("a message of queue {queue:?} cannot be decrypted: {}", missing(*key))]
    WrongKey {
        /// The queue.
        queue: String,
        /// The key; `None`: the message does not say which.
        key: Option<KeyId>,
    },

    /// The key of a stored message is here and does not open it: it was changed, or moved from another message, in the database.
    #[error("a message of queue {queue:?} cannot be decrypted: it was changed or moved in the database")]
    Damaged {
        /// The queue.
        queue: String,
    },

    /// An ack was refused. Do not retry it: the messages are redelivered, or another consumer has them.
    #[error("ack refused: {0}")]
    AckRefused(#[from] AckRefusal),

    /// The transaction was rolled back as a whole: one of its operations could not be done.
    #[error("{reason}")]
    RolledBack {
        /// Which, and why.
        reason: String,
    },

    /// The engine could not carry out a wait or a write.
    #[error(transparent)]
    Wake(#[from] reveille_wake::Error),

    /// The database failed a statement. The source says whether to try again.
    #[error(transparent)]
    Database(#[from] reveille_pg::Error),
}

impl Error {
    /// Whether the same call may succeed later unchanged.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Wake(error) => error.is_transient(),
            Error::Database(error) => error.is_transient(),
            Error::Invalid { .. }
            | Error::NoKey { .. }
            | Error::WrongKey { .. }
            | Error::Damaged { .. }
            | Error::AckRefused(_)
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
