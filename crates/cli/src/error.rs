//! Why a command failed, in words for the person who typed it.

use std::{error::Error as StdError, io, net::SocketAddr, path::PathBuf, process::ExitStatus};

use crate::config::redact;

/// The command could not be carried out because of how it was called.
const USAGE: u8 = 2;

/// The command was understood and failed.
const FAILURE: u8 = 1;

/// Why a command failed. Each message names the thing and what to do about it; none holds a URL or a password.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command needs a database and was given none.
    #[error("no database: give --database-url or set DATABASE_URL, or let `reveille up` start a PostgreSQL of its own")]
    NoDatabase,

    /// A setting has a value that cannot be used.
    #[error("{key} has to be corrected")]
    Setting {
        /// The flag.
        key: &'static str,
        /// Why not.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// The data directory cannot be made into an absolute path.
    #[error("--data-dir {} cannot be used", dir.display())]
    DataDir {
        /// As it was given.
        dir: PathBuf,
        /// Why not.
        source: io::Error,
    },

    /// Another process has the data directory's PostgreSQL, and would be left without it when this one stops it.
    #[error(
        "another `reveille up`{} runs on {}: use that one, or stop it first, or give this one a directory of its own with \
         --data-dir", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), dir.display()
    )]
    Owned {
        /// The data directory.
        dir: PathBuf,
        /// The other process; `None` if it has not said.
        pid: Option<u32>,
    },

    /// A server works on the data directory's PostgreSQL, which is not to be stopped under it.
    #[error(
        "a `reveille up`{} runs on {}: stop it with Ctrl-C or `kill`, and it stops its PostgreSQL",
        pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), dir.display()
    )]
    InUse {
        /// The data directory.
        dir: PathBuf,
        /// The process; `None` if it has not said.
        pid: Option<u32>,
    },

    /// There is no private PostgreSQL to connect to.
    #[error("no PostgreSQL accepts connections in {}: start it with `reveille up`, or name another directory with --data-dir", dir.display())]
    NotRunning {
        /// The data directory.
        dir: PathBuf,
    },

    /// The programs of this PostgreSQL come without psql.
    #[error("there is no psql to run")]
    NoPsql,

    /// A program could not be run.
    #[error("cannot run {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },

    /// The private PostgreSQL does not stay up.
    #[error(
        "PostgreSQL has ended or failed to start {times} times in a row, and is not started again; its log {} says why", log.display()
    )]
    PostgresFails {
        /// How often.
        times: u32,
        /// Its log.
        log: PathBuf,
    },

    /// The server's own process could not be started or waited for.
    #[error("cannot run the server as {user}")]
    ServerProcess {
        /// The user that it runs as.
        user: String,
        /// The system's reason.
        source: io::Error,
    },

    /// The server's own process has failed. It has said why.
    #[error("the server's process has ended with {status}; what it said is above")]
    ServerProcessFailed {
        /// How it ended.
        status: ExitStatus,
    },

    /// There is no home directory to keep data in.
    #[error("no place for data: HOME is not set; name a directory with --data-dir")]
    NoDataDir,

    /// Somebody else listens there.
    #[error(
        "port {} on {} is already in use, perhaps by another reveille: stop the program that listens there, \
         or choose another port, such as --listen {}",
        address.port(), address.ip(), neighbour(*address)
    )]
    PortInUse {
        /// The address asked for.
        address: SocketAddr,
    },

    /// The address cannot be listened on.
    #[error("cannot listen on {address}: choose an address of this machine and a port above 1023 with --listen")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },

    /// Other machines could reach the server, and no flag allows it.
    #[error(
        "refusing to listen on {address}: there is no authentication, so anyone who can reach this address may do \
         everything; listen on 127.0.0.1, or give --allow-unauthenticated if that is what you want"
    )]
    Exposed {
        /// The address asked for.
        address: SocketAddr,
    },

    /// Signals cannot be received.
    #[error("cannot receive signals")]
    Signals(#[source] io::Error),

    /// Metrics cannot be collected.
    #[error("cannot collect metrics")]
    Metrics {
        /// Why not.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// The database cannot be used, and waiting would not change that.
    #[error("{doing} failed; `reveille doctor` explains what is wrong with a database and how to fix it")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        source: pg::Error,
    },

    /// The provider of orchestrations could not be started.
    #[error(transparent)]
    Durable(durable::Error),

    /// Orchestrations were not carried over, or not all of them.
    #[error(transparent)]
    Import(durable::import::Error),

    /// The private PostgreSQL failed.
    #[error(transparent)]
    Embedded(#[from] pg::embedded::Error),

    /// `doctor` found something broken, and said what.
    #[error("{broken} of {checks} checks failed")]
    Unwell {
        /// How many checks failed.
        broken: usize,
        /// How many were made.
        checks: usize,
    },

    /// The result could not be written.
    #[error("cannot write to standard output")]
    Output(#[from] io::Error),
}

impl From<durable::Error> for Error {
    fn from(error: durable::Error) -> Self {
        match error {
            durable::Error::Database(error) => Error::database("preparing the schema", error),
            other => Error::Durable(other),
        }
    }
}

impl From<durable::import::Error> for Error {
    fn from(error: durable::import::Error) -> Self {
        match error {
            durable::import::Error::Database(error) => Error::database("importing", error),
            other => Error::Import(other),
        }
    }
}

impl Error {
    /// The failure of something that was done with the database. An option that `pg` complains about gets the name under which
    /// it is set here.
    pub(crate) fn database(doing: &'static str, error: pg::Error) -> Self {
        match error {
            pg::Error::Config { option, reason } => {
                let key = match option.as_str() {
                    "listen_url" => "--direct-url (REVEILLE_DIRECT_URL)",
                    "pooler" => "--pooler (REVEILLE_POOLER)",
                    "max_connections" => "--pool-size (REVEILLE_POOL_SIZE)",
                    _ => "--database-url (DATABASE_URL)",
                };
                Error::Setting { key, source: reason.into() }
            }
            source => Error::Database { doing, source },
        }
    }

    /// The process's exit code: 2 if the call has to be changed, 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::NoDatabase
            | Error::Setting { .. }
            | Error::DataDir { .. }
            | Error::NoDataDir
            | Error::Exposed { .. } => USAGE,
            _ => FAILURE,
        }
    }

    /// The message with all its causes, in one paragraph.
    pub fn explain(&self) -> String {
        explain(self)
    }
}

/// An error and its causes, each once, without any password that a cause may have quoted.
pub(crate) fn explain(error: &(dyn StdError + 'static)) -> String {
    redact(&pg::causes(error))
}

/// A port worth trying instead.
fn neighbour(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port().checked_add(1).unwrap_or(6632))
}
