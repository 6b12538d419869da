//! The errors of claims and writes.

use std::sync::Arc;

/// The error of this crate. Each variant is a decision that the caller can take.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The consumer has its maximum of waiters: reject the client, which may come back later.
    #[error("{consumer}: too many waiters: `max_waiters` is {limit}; try again later")]
    Full {
        /// The consumer.
        consumer: Arc<str>,
        /// Its `max_waiters`.
        limit: usize,
    },

    /// The engine is stopping: reply to the client as if its wait had ended.
    #[error("{what} is closed")]
    Closed {
        /// The consumer or writer that was closed.
        what: Arc<str>,
    },

    /// The database could not be reached before the deadline; nothing has changed. Try again.
    #[error("{what}: the database could not be reached in time")]
    Unavailable {
        /// The consumer or writer.
        what: Arc<str>,
        /// The last failure.
        #[source]
        source: Arc<reveille_pg::Error>,
    },

    /// The database refused this claim or write, and would again: do not retry unchanged.
    #[error("{what}: refused by the database")]
    Refused {
        /// The consumer or writer.
        what: Arc<str>,
        /// Why.
        #[source]
        source: Arc<reveille_pg::Error>,
    },

    /// The outcome of a write is unknown: it may have happened. Its own fence, such as a lease token, decides what a
    /// repetition does.
    #[error("{what}: the outcome of a write is unknown")]
    Unknown {
        /// The writer.
        what: Arc<str>,
        /// The last failure.
        #[source]
        source: Arc<reveille_pg::Error>,
    },
}

impl Error {
    /// Whether the same call may succeed later without any change.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Full { .. } | Error::Unavailable { .. } | Error::Unknown { .. } => true,
            Error::Closed { .. } | Error::Refused { .. } => false,
        }
    }

    /// The error of the database, if there is one.
    pub fn database(&self) -> Option<&reveille_pg::Error> {
        match self {
            Error::Unavailable { source, .. } | Error::Refused { source, .. } | Error::Unknown { source, .. } => {
                Some(source)
            }
            Error::Full { .. } | Error::Closed { .. } => None,
        }
    }

    /// The error of a permanent failure; [`Error::Closed`] if the pool was closed.
    pub(crate) fn refused(what: &Arc<str>, source: Arc<reveille_pg::Error>) -> Error {
        match *source {
            reveille_pg::Error::Closed => Error::Closed { what: what.clone() },
            _ => Error::Refused { what: what.clone(), source },
        }
    }
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Whether an error is about getting a connection, and so concerns all waiters or writes alike.
pub(crate) fn is_about_connecting(error: &reveille_pg::Error) -> bool {
    matches!(
        error,
        reveille_pg::Error::Rejected { .. }
            | reveille_pg::Error::OldServer { .. }
            | reveille_pg::Error::Config { .. }
            | reveille_pg::Error::Closed
    )
}

/// An error of the engine that means the same as a broken connection: the statement may or may not have happened.
pub(crate) fn broken(kind: std::io::ErrorKind, what: &'static str) -> reveille_pg::Error {
    reveille_pg::Error::from(sqlx::Error::Io(std::io::Error::new(kind, what)))
}
