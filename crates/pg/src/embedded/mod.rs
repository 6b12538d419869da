//! A private PostgreSQL server, without setup.
//!
//! [`Installation`] finds the server's programs, [`Cluster`] creates a data directory and runs a server on it. The
//! server is private to its user: it listens on loopback only, on a free port, requires a generated password, and runs
//! as an ordinary user even if the caller is root (PostgreSQL refuses to run as root).
//!
//! The dangers are those of a shared machine that may lose power: an incomplete data directory, a pid file that names
//! another process, a port that was just taken, a directory with other files. None of them needs manual work:
//! [`Cluster::start`] succeeds, or its error names the path, port or program and the fix. It never deletes a directory
//! that it did not create.
//!
//! A server outlives its [`Cluster`] value: dropping the value stops nothing, because a crashing process must not stop
//! the database in the middle of a write. Call [`Cluster::stop`]; after a crash the next `start` attaches to the
//! running server.

mod account;
mod cluster;
mod directory;
#[cfg(feature = "download")]
mod download;
mod ending;
mod error;
mod files;
mod folders;
mod home;
mod installation;
mod launch;
mod postmaster;
mod settings;
mod sockets;
mod taking;
mod trust;

pub use account::Account;
pub use cluster::Cluster;
pub use directory::{Directory, Running};
#[cfg(feature = "download")]
pub use download::{Download, Progress, download, obtain};
pub use error::Error;
pub use home::data_major;
pub use installation::{Installation, Version, Wanted};
pub use settings::Settings;
#[cfg(feature = "testing")]
pub(crate) use {
    account::caller_uid,
    home::random_hex,
    postmaster::{Signal, running, signal},
};

/// The result of an operation on an embedded server.
pub type Result<T, E = Error> = std::result::Result<T, E>;
