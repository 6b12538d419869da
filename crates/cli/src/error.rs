//! Errors of commands, with messages for operators.

use std::{error::Error as StdError, io, net::SocketAddr, path::PathBuf, process::ExitStatus};

use crate::{client, config::redact, exit, terminal::Declined};

/// Why a command failed. Each message says what is wrong and what to do; none contains a URL or a password.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command needs a database and none is configured.
    #[error("no database: set --database-url or DATABASE_URL, or let `reveille up` start a PostgreSQL of its own")]
    NoDatabase,

    /// A setting has an invalid value.
    #[error("invalid value for {key}")]
    Setting {
        /// The flag.
        key: &'static str,
        /// The reason.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// The data directory cannot be used.
    #[error("--data-dir {} cannot be used", dir.display())]
    DataDir {
        /// As configured.
        dir: PathBuf,
        /// The system's reason.
        source: io::Error,
    },

    /// Another `up` uses the data directory: this one would stop its PostgreSQL.
    #[error(
        "another `reveille up`{} runs on {}: use that one, stop it first, or choose another directory with --data-dir",
        pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), dir.display()
    )]
    Owned {
        /// The data directory.
        dir: PathBuf,
        /// The other process; `None` if it is not known.
        pid: Option<u32>,
    },

    /// A running `up` uses the data directory's PostgreSQL, which must not be stopped.
    #[error(
        "a `reveille up`{} runs on {}: stop it with Ctrl-C or `kill`, and it stops its PostgreSQL",
        pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), dir.display()
    )]
    InUse {
        /// The data directory.
        dir: PathBuf,
        /// The process; `None` if it is not known.
        pid: Option<u32>,
    },

    /// There is no private PostgreSQL to connect to.
    #[error(
        "no PostgreSQL runs in {}: start it with `reveille up`, or choose another directory with --data-dir",
        dir.display()
    )]
    NotRunning {
        /// The data directory.
        dir: PathBuf,
    },

    /// The installed PostgreSQL has no psql.
    #[error("psql is not installed")]
    NoPsql,

    /// A program could not be run.
    #[error("cannot run {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },

    /// The private PostgreSQL exits repeatedly.
    #[error("PostgreSQL exited or failed to start {times} times in a row, giving up; see its log {}", log.display())]
    PostgresFails {
        /// How often.
        times: u32,
        /// Its log.
        log: PathBuf,
    },

    /// The server process could not be started or waited for.
    #[error("cannot run the server as {user}")]
    ServerProcess {
        /// The user that it runs as.
        user: String,
        /// The system's reason.
        source: io::Error,
    },

    /// The server process failed and has printed the reason.
    #[error("the server process exited with {status}; its error is printed above")]
    ServerProcessFailed {
        /// Its exit status.
        status: ExitStatus,
    },

    /// There is no home directory for the data.
    #[error("no data directory: HOME is not set; choose a directory with --data-dir")]
    NoDataDir,

    /// Another program listens there.
    #[error(
        "port {} on {} is already in use, perhaps by another reveille: stop that program, \
         or choose another port, such as --listen {}",
        address.port(), address.ip(), next_port(*address)
    )]
    PortInUse {
        /// The configured address.
        address: SocketAddr,
    },

    /// The address cannot be bound.
    #[error("cannot listen on {address}: choose an address of this machine and a port above 1023 with --listen")]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },

    /// The address is not loopback, and the flag that allows this is not set.
    #[error(
        "refusing to listen on {address}: there is no authentication, so every client that can reach this address has \
         full access; set --require-authentication, listen on 127.0.0.1, or set --allow-unauthenticated if that is \
         intended"
    )]
    Exposed {
        /// The configured address.
        address: SocketAddr,
    },

    /// The admin token of the configuration is not accepted. The reason does not contain it.
    #[error("{reason}")]
    AdminToken {
        /// Why.
        reason: String,
    },

    /// Signals cannot be received.
    #[error("cannot receive signals")]
    Signals(#[source] io::Error),

    /// Metrics cannot be collected.
    #[error("cannot collect metrics")]
    Metrics {
        /// The reason.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// A permanent database error.
    #[error("{doing} failed; run `reveille doctor` for a diagnosis")]
    Database {
        /// The operation.
        doing: &'static str,
        /// The database's error.
        source: reveille_pg::Error,
    },

    /// The orchestration provider could not be started.
    #[error(transparent)]
    Durable(reveille_durable::Error),

    /// The import of orchestrations failed or is incomplete.
    #[error(transparent)]
    Import(reveille_durable::import::Error),

    /// The private PostgreSQL failed.
    #[error(transparent)]
    Embedded(#[from] reveille_pg::embedded::Error),

    /// Checks of `doctor` failed; it has printed them.
    #[error("{failed} of {checks} checks failed")]
    ChecksFailed {
        /// The number of failed checks.
        failed: usize,
        /// The number of checks.
        checks: usize,
    },

    /// A request to a running server failed.
    #[error(transparent)]
    Client(#[from] client::Error),

    /// The server has answered, and what was named is not in its answer.
    #[error("{what}")]
    NothingNamed {
        /// What there is not.
        what: String,
    },

    /// Something was not confirmed, so it was not done.
    #[error(transparent)]
    Declined(#[from] Declined),

    /// The input of a command cannot be used.
    #[error("{what}")]
    Input {
        /// What, and why.
        what: String,
    },

    /// The server did what was asked for, and not all of it succeeded.
    #[error("{what}")]
    Incomplete {
        /// What did not.
        what: String,
    },

    /// Ended by Ctrl-C before the end.
    #[error("interrupted: {resume}")]
    Interrupted {
        /// What is done, and how to continue.
        resume: String,
    },

    /// A long operation failed in the middle.
    #[error("{resume}")]
    Stopped {
        /// What is done, and how to continue.
        resume: String,
        /// Why it stopped.
        source: client::Error,
    },

    /// The result could not be written.
    #[error("cannot write to standard output")]
    Output(#[from] io::Error),
}

impl From<reveille_durable::Error> for Error {
    fn from(error: reveille_durable::Error) -> Self {
        match error {
            reveille_durable::Error::Database(error) => Error::database("preparing the schema", error),
            other => Error::Durable(other),
        }
    }
}

impl From<reveille_durable::import::Error> for Error {
    fn from(error: reveille_durable::import::Error) -> Self {
        match error {
            reveille_durable::import::Error::Database(error) => Error::database("importing", error),
            other => Error::Import(other),
        }
    }
}

impl Error {
    /// A database error. An invalid option of `pg` is reported under the flag that sets it.
    pub(crate) fn database(doing: &'static str, error: reveille_pg::Error) -> Self {
        match error {
            reveille_pg::Error::Config { option, reason } => {
                let key = match option.as_str() {
                    "listen_url" => "--direct-url (REVEILLE_DIRECT_URL)",
                    "pooler" => "--pooler (REVEILLE_POOLER)",
                    "role" => "--roles",
                    "max_connections" => "--pool-size (REVEILLE_POOL_SIZE)",
                    _ => "--database-url (DATABASE_URL)",
                };
                Error::Setting { key, source: reason.into() }
            }
            source => Error::Database { doing, source },
        }
    }

    /// The exit code of the process, of [`exit`].
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::NoDatabase
            | Error::Setting { .. }
            | Error::DataDir { .. }
            | Error::NoDataDir
            | Error::Exposed { .. }
            | Error::AdminToken { .. }
            | Error::Input { .. } => exit::USAGE,
            Error::Client(error) | Error::Stopped { source: error, .. } => error.exit_code(),
            Error::NothingNamed { .. } => exit::NOT_FOUND,
            Error::Declined(declined) => declined.exit_code(),
            Error::Interrupted { .. } => exit::INTERRUPTED,
            _ => exit::FAILED,
        }
    }

    /// The message with all causes.
    pub fn explain(&self) -> String {
        explain(self)
    }
}

/// An error and its causes, each once, without passwords.
pub(crate) fn explain(error: &(dyn StdError + 'static)) -> String {
    redact(&reveille_pg::causes(error))
}

/// The same address with the next port.
fn next_port(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port().checked_add(1).unwrap_or(6632))
}
