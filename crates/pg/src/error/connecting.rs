//! Failures to get a connection: what they mean, and what to look at.

use std::io::ErrorKind;

use super::sqlstate::Kind;
use super::{Error, causes, classify, tally, unusable};
use crate::shortage::Shortage;

/// What PgBouncer says to a client that sends server settings when it connects, under a code that means anything.
const POOLER_REFUSES_SETTINGS: &str = "unsupported startup parameter";

impl Error {
    /// The error of an attempt to get a connection to `server`: whatever broke, nothing had been sent yet.
    pub(crate) fn connecting(server: &str, source: sqlx::Error) -> Error {
        tally::counted(Error::sorted_connecting(server, source))
    }

    fn sorted_connecting(server: &str, source: sqlx::Error) -> Error {
        let server = server.to_owned();
        match source {
            sqlx::Error::PoolTimedOut => Error::Exhausted,
            sqlx::Error::PoolClosed => Error::Closed,
            sqlx::Error::Tls(_) => Error::rejected(server, source),
            sqlx::Error::Configuration(_) => unusable(),
            // How the TLS library reports a certificate that it does not accept.
            sqlx::Error::Io(ref io) if io.kind() == ErrorKind::InvalidData => Error::rejected(server, source),
            sqlx::Error::Database(ref said) if said.message().contains(POOLER_REFUSES_SETTINGS) => {
                Error::config("pooler", "there is a pooler in between, which refuses server settings: set the option")
            }
            sqlx::Error::Database(ref said) if classify(&**said).kind == Kind::Permanent => {
                Error::rejected(server, source)
            }
            _ => {
                let code = source.as_database_error().and_then(|said| said.code());
                let shortage = code.as_deref().and_then(Shortage::of);
                Error::Unreachable { server, reason: why_unreachable(&source), shortage, source }
            }
        }
    }

    pub(super) fn rejected(server: String, source: sqlx::Error) -> Error {
        Error::Rejected { server, reason: why_rejected(&source), source }
    }

    /// The error of a server that has not answered in time.
    pub(crate) fn silent(server: &str) -> Error {
        Error::connecting(server, std::io::Error::from(ErrorKind::TimedOut).into())
    }

    /// The same failure to connect, for a second caller. The cause keeps its text only.
    pub(crate) fn repeated(&self) -> Error {
        let text = |source: &sqlx::Error| sqlx::Error::Protocol(causes(source));
        match self {
            Error::Unreachable { server, reason, shortage, source } => {
                let (server, source) = (server.clone(), text(source));
                Error::Unreachable { server, reason, shortage: *shortage, source }
            }
            Error::Rejected { server, reason, source } => {
                Error::Rejected { server: server.clone(), reason, source: text(source) }
            }
            Error::OldServer { server, found, oldest } => {
                Error::OldServer { server: server.clone(), found: *found, oldest: *oldest }
            }
            Error::NoPrimary { servers } => Error::NoPrimary { servers: servers.clone() },
            Error::Config { option, reason } => Error::config(option, reason),
            Error::Closed => Error::Closed,
            // No other failure comes from connecting.
            _ => Error::Exhausted,
        }
    }
}

fn why_unreachable(source: &sqlx::Error) -> &'static str {
    match source.as_database_error() {
        Some(said) => classify(said).reason,
        None => match source {
            sqlx::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
                "nothing listens there; is PostgreSQL running, and does the URL name the right host and port?"
            }
            sqlx::Error::Io(error) if error.kind() == ErrorKind::TimedOut => {
                "no answer in time; is the host right, and does a firewall or proxy in between drop packets?"
            }
            _ => "is it running, and does the URL name the right host and port?",
        },
    }
}

fn why_rejected(source: &sqlx::Error) -> &'static str {
    match source.as_database_error().and_then(|said| said.code()).as_deref() {
        Some("28P01") => "wrong user or password",
        Some("28000") => "there is no such user, or pg_hba.conf does not let them in from here",
        Some("3D000") => "there is no such database; create it or correct the URL",
        Some("42501") => "the role may not connect to this database",
        Some(_) => "check user, password and database",
        None => "no encryption that both sides accept; check sslmode and sslrootcert",
    }
}
