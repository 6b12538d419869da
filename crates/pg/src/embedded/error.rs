//! Errors of a private server.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Version;

/// Why a server was not found, created, started or stopped.
///
/// Every message names the path, port or program and the fix. None contains a password or a URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No usable PostgreSQL. Install one, or allow a download.
    #[error(
        "no PostgreSQL {wanted} found (searched {}); install it with the system's package manager, \
         e.g. `apt-get install postgresql`, or name its folder of programs",
        list(.searched)
    )]
    NotFound {
        /// The accepted versions, e.g. `14 to 18`.
        wanted: String,
        /// The folders searched.
        searched: Vec<PathBuf>,
    },

    /// An explicitly given folder does not contain a usable PostgreSQL.
    #[error("{} is not a folder of PostgreSQL programs: {reason}", .bin.display())]
    NotAnInstallation {
        /// The folder.
        bin: PathBuf,
        /// What is missing or wrong.
        reason: String,
    },

    /// The data was written by a major version that is not installed or not requested. A major version cannot read the
    /// data files of another.
    #[error(
        "the data in {} was written by PostgreSQL {data}, but the available version is {found}; \
         install PostgreSQL {data} and name no other, or move the data with pg_dump and pg_restore, or choose another data directory",
        .data_dir.display()
    )]
    VersionMismatch {
        /// The data directory.
        data_dir: PathBuf,
        /// The major version that wrote it.
        data: u32,
        /// The version that is installed or was requested.
        found: Version,
    },

    /// The version of the data cannot be read. The data is left unchanged.
    #[error(
        "{} has no readable PG_VERSION, so it is damaged; restore it from a backup, or move it away to start empty",
        .data.display()
    )]
    Damaged {
        /// PostgreSQL's data directory.
        data: PathBuf,
    },

    /// A server may be running on the data, and this cannot be determined. Nothing was changed.
    #[error(
        "process {pid} in {} is a PostgreSQL server whose data directory cannot be determined; \
         stop it, or wait until it has ended",
        .pid_file.display()
    )]
    MayBeRunning {
        /// The process.
        pid: u32,
        /// The file that names it.
        pid_file: PathBuf,
    },

    /// The data directory contains other files. It is left unchanged.
    #[error("{} contains other files ({found}); choose an empty or a new directory", .path.display())]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
        /// One entry found in it.
        found: String,
    },

    /// PostgreSQL does not run as root, and the user that would run it cannot access a path.
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

    /// The server's user can replace a part of the path to the data directory, so root could be made to write to other
    /// files. Nothing was written.
    #[error(
        "user {user}, which runs PostgreSQL, can replace {} with a link that root would follow; \
         choose a data directory below folders that only root can change, such as /var/lib/reveille",
        .path.display()
    )]
    Untrusted {
        /// The entry that can be replaced.
        path: PathBuf,
        /// The user that runs the server.
        user: String,
    },

    /// A path in the server's directory is not a regular file or folder. It was not opened.
    #[error(
        "{} is a link, or has a second hard link, where a regular file or folder is expected; \
         it is not followed: find out where it comes from, and remove it",
        .path.display()
    )]
    Link {
        /// The path.
        path: PathBuf,
    },

    /// There is no user to run the server as.
    #[error("PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody`; add one")]
    NoAccount,

    /// The requested port is in use.
    #[error("port {port} on 127.0.0.1 is in use by another program; choose another port, or none to use a free one")]
    PortTaken {
        /// The port.
        port: u16,
    },

    /// `initdb` failed.
    #[error("initdb could not create {}: {output}", .path.display())]
    Initdb {
        /// The data directory.
        path: PathBuf,
        /// Its output.
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

    /// The server runs but does not accept connections yet. It keeps running, because crash recovery may take long:
    /// start again to continue waiting.
    #[error(
        "PostgreSQL is still starting after {waited:?}; try again later; the last lines of its log {} are:\n{tail}",
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

    /// The server did not stop in time.
    #[error("PostgreSQL (process {pid}) is still stopping after {waited:?}; its log is {}", .log.display())]
    StillStopping {
        /// The process.
        pid: u32,
        /// How long it was waited for.
        waited: Duration,
        /// Its log.
        log: PathBuf,
    },

    /// The server runs, but a setup statement failed.
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

    /// The download failed. No incomplete installation is left.
    #[cfg(feature = "download")]
    #[error(
        "could not download PostgreSQL {version}; install it with the system's package manager, or name an archive of it \
         with --pg-archive"
    )]
    Download {
        /// The requested version.
        version: String,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Wraps a system error with the operation and the path: `map_err(Error::io("read", path))`.
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::Io { what, path, source }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
