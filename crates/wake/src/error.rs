//! What can go wrong between asking for work and getting it.

use std::sync::Arc;

/// The error of this crate. Each variant is a decision its caller can take.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The registry of intentions holds its maximum: refuse the client and let it come back later.
    #[error("{consumer} already has {limit} waiting intentions; try again later")]
    Full {
        /// The consumer that refused.
        consumer: Arc<str>,
        /// Its `max_waiters`.
        limit: usize,
    },

    /// The engine is stopping: answer the client as if its wait had ended.
    #[error("{what} is closed")]
    Closed {
        /// The consumer or flight that was closed.
        what: Arc<str>,
    },

    /// Nothing could be asked of the database until the deadline; what exists is untouched. Try again.
    #[error("{what}: the database could not be reached in time")]
    Unavailable {
        /// The consumer or flight that could not reach it.
        what: Arc<str>,
        /// The last failure.
        #[source]
        source: Arc<pg::Error>,
    },

    /// The database refused this claim or this member, and would again: do not retry unchanged.
    #[error("{what}: refused by the database")]
    Refused {
        /// The consumer or flight it was refused to.
        what: Arc<str>,
        /// Why.
        #[source]
        source: Arc<pg::Error>,
    },

    /// A write whose outcome could not be learnt in time: it may have happened. Its own fence decides what a repetition
    /// does.
    #[error("{what}: the outcome of a write could not be learnt")]
    Unknown {
        /// The flight that carried it.
        what: Arc<str>,
        /// The last failure.
        #[source]
        source: Arc<pg::Error>,
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

    /// The database's own error, if it is one.
    pub fn database(&self) -> Option<&pg::Error> {
        match self {
            Error::Unavailable { source, .. } | Error::Refused { source, .. } | Error::Unknown { source, .. } => {
                Some(source)
            }
            Error::Full { .. } | Error::Closed { .. } => None,
        }
    }

    /// A refusal; of a pool that is closed, the end.
    pub(crate) fn refused(what: &Arc<str>, source: Arc<pg::Error>) -> Error {
        match *source {
            pg::Error::Closed => Error::Closed { what: what.clone() },
            _ => Error::Refused { what: what.clone(), source },
        }
    }
}

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Whether an error is about getting a connection, and so no member's or waiter's own.
pub(crate) fn is_about_connecting(error: &pg::Error) -> bool {
    matches!(
        error,
        pg::Error::Rejected { .. } | pg::Error::OldServer { .. } | pg::Error::Config { .. } | pg::Error::Closed
    )
}

/// A failure of our own making that means what a broken connection means: it may or may not have happened.
pub(crate) fn broken(kind: std::io::ErrorKind, what: &'static str) -> pg::Error {
    pg::Error::from(sqlx::Error::Io(std::io::Error::new(kind, what)))
}
