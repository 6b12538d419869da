//! A private PostgreSQL server, with nothing prepared.
//!
//! [`Installation`] finds the server's programs, [`Cluster`] makes a data directory with them and runs a server on it.
//! The server belongs to whoever starts it: it listens on loopback only, on a free port, asks for a password that was
//! generated for it, and runs as an ordinary user even when the caller is root (PostgreSQL refuses root).
//!
//! The dangers removed here are those of a machine that other people use and that loses power: a data directory that
//! is half made, a pid file that names somebody else's process, a port that was free a moment ago, a directory that
//! belongs to something else. None of them needs a person: [`Cluster::start`] works, or says which path, port or
//! program is in the way and what to do. It never deletes a directory that it did not make.
//!
//! A server outlives its [`Cluster`] value: dropping one stops nothing, because a process that dies must not take the
//! database with it in the middle of a write. Call [`Cluster::stop`]; after a crash the next `start` finds the running
//! server and attaches to it.

mod account;
mod cluster;
mod directory;
#[cfg(feature = "download")]
mod download;
mod ending;
mod error;
mod files;
mod home;
mod installation;
mod launch;
mod places;
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
