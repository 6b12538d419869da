//! What can go wrong with a private server, each with its fix.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Version;

/// Why a server was not found, made, started or stopped.
///
/// Every message names the path, port or program concerned and what to do about it. None holds a password or a URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No usable PostgreSQL. Install one, or allow a download.
    #[error(
        "no PostgreSQL {wanted} found (looked in {}); install it with the system's package manager, \
         e.g. `apt-get install postgresql`, or name its folder of programs",
        list(.looked)
    )]
    NotFound {
        /// What was asked for, e.g. `14 to 18`.
        wanted: String,
        /// The folders searched.
        looked: Vec<PathBuf>,
    },

    /// A folder that was named explicitly does not hold a usable PostgreSQL.
    #[error("{} is not a folder of PostgreSQL programs: {reason}", .bin.display())]
    NotAnInstallation {
        /// The folder.
        bin: PathBuf,
        /// What is missing or wrong.
        reason: String,
    },

    /// The data was written by a major version that is not installed, or other programs were asked for. Data files of one major version cannot be read
    /// by another.
    #[error(
        "the data in {} was written by PostgreSQL {data}, and what there is to run it with is {found}; \
         install PostgreSQL {data} and name no other, or move the data with pg_dump and pg_restore, or choose another data directory",
        .data_dir.display()
    )]
    VersionMismatch {
        /// The data directory.
        data_dir: PathBuf,
        /// The major version that wrote it.
        data: u32,
        /// The version that is installed, or that was asked for.
        found: Version,
    },

    /// There is data whose version cannot be read. It is left untouched, because it may be all that there is.
    #[error(
        "{} has no readable PG_VERSION, so it is damaged; restore it from a backup, or move it away to begin anew",
        .data.display()
    )]
    Damaged {
        /// PostgreSQL's data directory.
        data: PathBuf,
    },

    /// A server may be running on the data, and it cannot be found out whether it does. Nothing was touched.
    #[error(
        "process {pid} in {} is a PostgreSQL server, and it cannot be seen which data it runs on; stop it, or wait until it has ended",
        .pid_file.display()
    )]
    MayBeRunning {
        /// The process.
        pid: u32,
        /// The file that names it.
        pid_file: PathBuf,
    },

    /// The data directory is in use for something else. It is left untouched.
    #[error("{} holds something else ({found}); choose an empty or a new directory", .path.display())]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
        /// One thing that was found in it.
        found: String,
    },

    /// PostgreSQL must not run as root, and the user that would run it cannot get at a path.
    #[error(
        "PostgreSQL refuses to run as root, and user {user} cannot reach {}; \
         choose a path that every user can enter, such as {}",
        .path.display(), .instead.display()
    )]
    Unreachable {
        /// The data directory or program.
        path: PathBuf,
        /// The user that would run the server.
        user: String,
        /// A path that works.
        instead: PathBuf,
    },

    /// The server's user could lead root to other files on the way to the data directory. Nothing was written.
    #[error(
        "user {user}, who runs PostgreSQL, can replace {}, and root would write to wherever it then leads; \
         choose a data directory below folders that only root can change, such as /var/lib/reveille",
        .path.display()
    )]
    Untrusted {
        /// What can be replaced.
        path: PathBuf,
        /// The user that runs the server.
        user: String,
    },

    /// Something other than a plain file or folder is where the server's directory has one. It was not opened.
    #[error(
        "{} is a link, or has a second name elsewhere, where a plain file or folder is expected; \
         it is not followed: find out who put it there, and remove it",
        .path.display()
    )]
    Link {
        /// The path.
        path: PathBuf,
    },

    /// There is no user to run the server as.
    #[error("PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody` to run it; add one")]
    NoAccount,

    /// The port asked for belongs to another program.
    #[error("port {port} on 127.0.0.1 is taken by another program; choose another, or none to have a free one chosen")]
    PortTaken {
        /// The port.
        port: u16,
    },

    /// `initdb` failed.
    #[error("initdb could not create {}: {output}", .path.display())]
    Initdb {
        /// The data directory.
        path: PathBuf,
        /// The last lines that it printed.
        output: String,
    },

    /// The server ended while it was starting.
    #[error("PostgreSQL did not start; the last lines of its log {} are:\n{tail}", .log.display())]
    StartFailed {
        /// Its log.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },

    /// The server runs and accepts no connections yet. It is left running, because recovery after a crash takes as
    /// long as it takes: start again to go on waiting.
    #[error(
        "PostgreSQL is still starting after {waited:?}; it goes on, try again; the last lines of its log {} are:\n{tail}",
        .log.display()
    )]
    StillStarting {
        /// How long it was waited for.
        waited: Duration,
        /// Its log.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },

    /// The server did not end in time.
    #[error("PostgreSQL (process {pid}) is still stopping after {waited:?}; its log is {}", .log.display())]
    StillStopping {
        /// The process.
        pid: u32,
        /// How long it was waited for.
        waited: Duration,
        /// Its log.
        log: PathBuf,
    },

    /// The server runs, and a statement of the set-up failed.
    #[error("could not {what} on the embedded PostgreSQL; its log is {}", .log.display())]
    Sql {
        /// What was being done.
        what: &'static str,
        /// Its log.
        log: PathBuf,
        /// The driver's error.
        source: sqlx::Error,
    },

    /// A file operation or a program failed.
    #[error("could not {what} {}", .path.display())]
    Io {
        /// What was being done.
        what: &'static str,
        /// The path concerned.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The download failed. Nothing incomplete is left where it would be found.
    #[cfg(feature = "download")]
    #[error(
        "could not download PostgreSQL {version}; install it with the system's package manager, or name an archive of it \
         with --pg-archive"
    )]
    Download {
        /// The version asked for.
        version: String,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Wraps a system error with what was being done and where: `map_err(Error::io("read", path))`.
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { what, path, source }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
