//! Failures, sorted by what a caller may do about them.
//!
//! A caller has three questions: may I try again, may it have happened all the same, and what do I tell whom. The
//! variants of [`Error`] are the answers. [`std::fmt::Display`] names the thing and the fix without a word of the
//! server's own text; that text is in the source, for operators, and [`Error::client_message`] is what a client may
//! see. No text holds a URL or a password.

mod connecting;
pub mod sqlstate;
mod tally;

use std::fmt;

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::migrate::MigrationError;
use crate::pool::suspicion;
use crate::shortage::Shortage;
use sqlstate::Kind;
pub use tally::error_counts;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The function of the server that refuses a cached plan whose result type changed. It reports `0A000`, which otherwise
/// means a feature that does not exist.
const STALE_PLAN_ROUTINE: &str = "RevalidateCachedQuery";

/// The function of the server that refuses a commit because its notifications do not fit into the queue. It reports
/// `54000`, which otherwise means a limit of the statement's own.
const QUEUE_FULL_ROUTINE: &str = "PreCommit_Notify";

/// What went wrong, as a decision.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option or a part of the URL is wrong. Correct it; nothing was sent.
    #[error("option `{option}`: {reason}")]
    Config {
        /// The option, or the URL parameter.
        option: String,
        /// What is wrong with it and what would be right.
        reason: String,
    },

    /// No server could be reached, so nothing was done. Try again later.
    #[error("cannot reach {server}: {reason}")]
    Unreachable {
        /// Host and port, as far as they are known.
        server: String,
        /// What that means, and what to look at.
        reason: &'static str,
        /// What the server is short of, if it answered that.
        shortage: Option<Shortage>,
        /// What the network, or a server that is starting, said.
        source: sqlx::Error,
    },

    /// A server answered and does not accept this user, database or kind of connection. Correct the URL or the server.
    #[error("{server} does not accept the connection: {reason}")]
    Rejected {
        /// Host and port, as far as they are known.
        server: String,
        /// What that means, and what to correct.
        reason: &'static str,
        /// What the server said.
        source: sqlx::Error,
    },

    /// The server is older than what this program needs. Use a newer one.
    #[error("{server} is PostgreSQL {found}, Reveille needs {oldest} or newer")]
    OldServer {
        /// Host and port.
        server: String,
        /// Its major version.
        found: u32,
        /// The oldest major version that will do.
        oldest: u32,
    },

    /// Servers answered, but none of them accepts writes: a failover is under way. Nothing was done. Try again later.
    #[error("none of {servers} is a primary that accepts writes")]
    NoPrimary {
        /// Host and port of each.
        servers: String,
    },

    /// All connections of the pool are in use and none became free in time, so nothing was done. Try again later.
    #[error("no database connection became free in time: all are in use (raise `max_connections`)")]
    Exhausted,

    /// The pool was closed, because the program is stopping. Nothing was done.
    #[error("the database pool is closed")]
    Closed,

    /// The connection broke, or the server ended the session, while a statement or commit was under way: it may or may
    /// not have happened. Ask before doing it again, unless doing it twice is harmless.
    #[error("the connection to the database broke before the answer; the outcome is unknown")]
    Interrupted(#[source] sqlx::Error),

    /// The server rolled the statement back for a reason that passes. It certainly has not happened. Try again.
    #[error("the database rolled back for now (SQLSTATE {code}): {reason}")]
    Transient {
        /// The SQLSTATE.
        code: String,
        /// Its reason, from the table.
        reason: &'static str,
        /// What the server said.
        source: sqlx::Error,
    },

    /// The server refused the statement for good. It certainly has not happened, and will not.
    #[error("the database refused the statement (SQLSTATE {code})")]
    Refused {
        /// The SQLSTATE.
        code: String,
        /// What the server said.
        source: sqlx::Error,
    },

    /// A value could not be put into the statement, so nothing was sent: a programming error, or a type that this
    /// database does not have.
    #[error("a value cannot be sent to the database; the program and the schema do not agree")]
    Unsendable(#[source] sqlx::Error),

    /// The server answered, and the answer is not what the program expects: a programming error, or a schema changed by
    /// another program. The statement may have taken effect; sent again, it would be answered the same way.
    #[error("the database's answer cannot be read; the program and the schema do not agree")]
    Unreadable(#[source] sqlx::Error),

    /// The schema cannot be brought up to date, or is not.
    #[error(transparent)]
    Migration(#[from] MigrationError),
}

impl Error {
    pub(crate) fn config(option: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Config { option: option.into(), reason: reason.into() }
    }

    /// Whether the same call may succeed later without a correction.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Unreachable { .. }
            | Error::NoPrimary { .. }
            | Error::Exhausted
            | Error::Interrupted(_)
            | Error::Transient { .. } => true,
            Error::Migration(error) => error.is_transient(),
            _ => false,
        }
    }

    /// Whether it may have happened although it failed. `false` means that it certainly has not.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Error::Interrupted(_) | Error::Unreadable(_))
    }

    /// The server's five-character code. `None` means that the failure did not come from a server.
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Error::Transient { code, .. } | Error::Refused { code, .. } => Some(code),
            _ => self.said().map(PgDatabaseError::code),
        }
    }

    /// The constraint a statement violated. `None` means that it failed for another reason.
    pub fn constraint(&self) -> Option<&str> {
        self.said()?.constraint()
    }

    /// Whether a statement was given up because it waited too long for a lock. It has not taken effect.
    pub fn is_lock_timeout(&self) -> bool {
        self.sqlstate() == Some("55P03")
    }

    /// Whether a commit failed only because the notification queue is full: some session listens and does not read.
    /// Without its notifications the transaction may succeed.
    pub fn is_notification_queue_full(&self) -> bool {
        self.said().is_some_and(|said| said.code() == "54000" && said.routine() == Some(QUEUE_FULL_ROUTINE))
    }

    /// A sentence that may be shown to a client: it holds no text of the server and no name of a host or table.
    pub fn client_message(&self) -> &'static str {
        match self {
            Error::Unreachable { .. } | Error::NoPrimary { .. } | Error::Exhausted | Error::Transient { .. } => {
                "the database is not available, nothing was changed; try again"
            }
            Error::Interrupted(_) => "the connection to the database broke, the outcome is unknown",
            Error::Closed => "the server is stopping",
            Error::Refused { .. } | Error::Unsendable(_) => "the database refused the operation",
            Error::Unreadable(_) => "the database's answer could not be read, the outcome is unknown",
            Error::Config { .. } | Error::Rejected { .. } | Error::OldServer { .. } | Error::Migration(_) => {
                "the server is not set up correctly"
            }
        }
    }

    fn said(&self) -> Option<&PgDatabaseError> {
        match self {
            Error::Unreachable { source, .. }
            | Error::Rejected { source, .. }
            | Error::Interrupted(source)
            | Error::Transient { source, .. }
            | Error::Refused { source, .. } => source.as_database_error()?.try_downcast_ref(),
            Error::Migration(error) => error.cause()?.said(),
            _ => None,
        }
    }
}

/// As [`causes`] tells it. The driver's own form has the server's details, and those quote rows: what users have
/// written.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({})", causes(self))
    }
}

/// An error and its causes on one line, each once: some libraries repeat their cause in their own message.
pub fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| match cause.to_string() {
        said if text.contains(&said) => text,
        said => format!("{text}: {said}"),
    })
}

/// Sorts an error of a statement or commit that was under way. [`Database::session`](crate::Database::session) sorts
/// those of getting a connection itself, because only it knows that nothing had been sent.
impl From<sqlx::Error> for Error {
    fn from(source: sqlx::Error) -> Error {
        tally::counted(Error::sorted(source))
    }
}

impl Error {
    fn sorted(source: sqlx::Error) -> Error {
        match source {
            sqlx::Error::Database(ref said) => {
                let Verdict { kind, reason } = classify(&**said);
                let code = said.code().unwrap_or_default().into_owned();
                match kind {
                    Kind::Interrupted => interrupted(source),
                    Kind::Transient => {
                        if code == "25006" || code == "0A000" {
                            suspicion::outdated();
                        }
                        Error::Transient { code, reason, source }
                    }
                    Kind::Permanent => Error::Refused { code, source },
                }
            }
            sqlx::Error::Tls(_) => Error::rejected("the database server".into(), source),
            sqlx::Error::PoolTimedOut => {
                suspicion::exhausted();
                Error::Exhausted
            }
            sqlx::Error::PoolClosed => Error::Closed,
            sqlx::Error::Configuration(_) => unusable(),
            // Whatever the network says: a firewall may answer for a server in the middle of a statement, too.
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed | sqlx::Error::BeginFailed => {
                interrupted(source)
            }
            sqlx::Error::Encode(_)
            | sqlx::Error::TypeNotFound { .. }
            | sqlx::Error::InvalidArgument(_)
            | sqlx::Error::InvalidSavePointStatement => Error::Unsendable(source),
            _ => Error::Unreadable(source),
        }
    }
}

fn interrupted(source: sqlx::Error) -> Error {
    suspicion::interrupted();
    Error::Interrupted(source)
}

/// What the driver refuses before or while it connects, in words of our own: its text may quote what it was given.
fn unusable() -> Error {
    Error::config("url", "the driver cannot use it: check the certificate files, and how the server lets users log in")
}

struct Verdict {
    kind: Kind,
    reason: &'static str,
}

fn classify(said: &dyn sqlx::error::DatabaseError) -> Verdict {
    let code = said.code().unwrap_or_default();
    if let Some(said) = said.try_downcast_ref::<PgDatabaseError>() {
        if said.severity() == PgSeverity::Panic {
            return Verdict { kind: Kind::Interrupted, reason: "the server crashed" };
        }
        if said.code() == "0A000" && said.routine() == Some(STALE_PLAN_ROUTINE) {
            let reason = "a migration changed a table under a prepared statement; a new connection prepares it anew";
            return Verdict { kind: Kind::Transient, reason };
        }
    }
    match sqlstate::lookup(&code) {
        Some(row) => Verdict { kind: row.kind, reason: row.reason },
        None => Verdict { kind: Kind::Permanent, reason: "" },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error as IoError, ErrorKind};

    /// Every cause is named once, although some libraries quote theirs in their own message.
    #[test]
    fn causes_are_named_once() {
        let refused = || IoError::other("refused");
        let error = Error::connecting("db:5432", sqlx::Error::Io(refused()));
        let text = causes(&error);
        assert!(text.starts_with(&error.to_string()));
        assert_eq!(text.matches("refused").count(), 1, "{text}");
        assert_eq!(causes(&refused()), "refused");
    }

    /// Which promise each failure of the driver gets: transient, ambiguous. The database's own are tested against a
    /// server.
    #[test]
    fn driver_errors_are_sorted_by_what_the_caller_may_do() {
        let io = |kind: ErrorKind| sqlx::Error::Io(IoError::from(kind));
        for (error, transient, ambiguous) in [
            (io(ErrorKind::ConnectionRefused), true, true),
            (io(ErrorKind::ConnectionReset), true, true),
            (io(ErrorKind::UnexpectedEof), true, true),
            (io(ErrorKind::BrokenPipe), true, true),
            (io(ErrorKind::TimedOut), true, true),
            (sqlx::Error::Protocol("odd".into()), true, true),
            (sqlx::Error::PoolTimedOut, true, false),
            (sqlx::Error::PoolClosed, false, false),
            (sqlx::Error::Configuration("odd".into()), false, false),
            (sqlx::Error::Encode("too long".into()), false, false),
            (sqlx::Error::TypeNotFound { type_name: "mood".into() }, false, false),
            (sqlx::Error::RowNotFound, false, true),
            (sqlx::Error::ColumnNotFound("c".into()), false, true),
            (sqlx::Error::Decode("odd".into()), false, true),
            (sqlx::Error::ColumnDecode { index: "c".into(), source: "odd".into() }, false, true),
        ] {
            let text = error.to_string();
            let error = Error::from(error);
            assert_eq!((error.is_transient(), error.is_ambiguous()), (transient, ambiguous), "{text} -> {error:?}");
        }
    }

    /// Before a connection exists nothing can have happened, whatever the network says.
    #[test]
    fn failing_to_connect_is_never_ambiguous() {
        for kind in [
            ErrorKind::ConnectionRefused,
            ErrorKind::NotFound,
            ErrorKind::ConnectionReset,
            ErrorKind::UnexpectedEof,
            ErrorKind::TimedOut,
            ErrorKind::Other,
        ] {
            let error = Error::connecting("h:1", sqlx::Error::Io(IoError::from(kind)));
            assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
            assert!(error.is_transient() && !error.is_ambiguous());
        }
    }

    /// What the driver itself cannot use is corrected by a person; waiting would not help, and its words stay out of
    /// it.
    #[test]
    fn a_configuration_the_driver_refuses_is_not_an_outage() {
        let error = Error::connecting("h:1", sqlx::Error::Configuration("hunter2".into()));
        assert!(matches!(error, Error::Config { .. }) && !error.is_transient(), "{error:?}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}
