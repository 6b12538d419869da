//! Why a request failed, for people and for scripts.

use std::{error::Error as StdError, io, time::Duration};

use hyper::StatusCode;
use serde::Deserialize;

use super::Address;
use crate::exit;

/// Why a request failed. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing listens there, or the name does not exist.
    #[error("no server at {server}: start one with `reveille up`, or name one with --server (REVEILLE_URL)")]
    Unreachable {
        /// Its address.
        server: String,
        /// The system's reason.
        source: io::Error,
    },

    /// No encrypted connection.
    #[error(
        "no TLS connection to {server}: check the address; SSL_CERT_FILE names the certificate of a private authority"
    )]
    Tls {
        /// Its address.
        server: String,
        /// The reason.
        source: io::Error,
    },

    /// The connection ended, or does not speak HTTP.
    #[error("{server} gave no answer: check that a reveille server listens there")]
    NoAnswer {
        /// Its address.
        server: String,
        /// The reason.
        source: hyper::Error,
    },

    /// The response takes too long.
    #[error("{server} gave no answer within {within:?}: it may still do what was asked for")]
    Silent {
        /// Its address.
        server: String,
        /// The limit.
        within: Duration,
    },

    /// The connection ended within a response.
    #[error("the connection to {server} ended within its answer")]
    Cut {
        /// Its address.
        server: String,
        /// The reason.
        source: Box<dyn StdError + Send + Sync>,
    },

    /// Another program answered, such as a proxy.
    #[error(
        "{server} is not a reveille server, or a proxy in front of it answered: status {status}, content type {content_type}"
    )]
    Foreign {
        /// Its address.
        server: String,
        /// The status.
        status: StatusCode,
        /// The content type, which is not JSON.
        content_type: String,
    },

    /// A redirect, which is not followed.
    #[error("{server} redirects to {to}: if that is a reveille server, name it with --server (REVEILLE_URL)")]
    Redirect {
        /// Its address.
        server: String,
        /// The other address.
        to: String,
    },

    /// The server is stopping, overloaded, or without its database.
    #[error("the server is temporarily unavailable: {message}")]
    Unavailable {
        /// The server's message.
        message: String,
    },

    /// 401 or 403.
    #[error("refused: {message}{}", if *had_token { "" } else { "; no token was sent: set REVEILLE_TOKEN, or --token-file" })]
    Refused {
        /// The server's message.
        message: String,
        /// Whether a token was sent.
        had_token: bool,
    },

    /// 404.
    #[error("{message}")]
    NotFound {
        /// The server's message.
        message: String,
    },

    /// Another error of the server.
    #[error("{message}")]
    Rejected {
        /// The status.
        status: u16,
        /// The server's message.
        message: String,
        /// The whole response: some errors have more fields.
        body: String,
    },

    /// The response is not as expected.
    #[error("the answer of {server} cannot be read: it may have another version than this program")]
    Unreadable {
        /// Its address.
        server: String,
        /// The reason.
        source: serde_json::Error,
    },

    /// The response exceeds the limit.
    #[error("the answer is larger than {limit_mb} MB: ask for less, for example with --limit")]
    TooLarge {
        /// The limit.
        limit_mb: usize,
    },

    /// A name is too long for a URL.
    #[error("the request is too long, or has characters that no request may have: use shorter names")]
    TooLong,

    /// The token cannot be sent.
    #[error("invalid token in REVEILLE_TOKEN or --token-file: it must be one line of printable ASCII characters")]
    Token,

    /// The system has no certificates.
    #[error("no certificates of authorities on this system: install them (ca-certificates), or set SSL_CERT_FILE")]
    Authorities,
}

impl Error {
    pub(super) fn no_answer(address: &Address, source: hyper::Error) -> Error {
        Error::NoAnswer { server: address.to_string(), source }
    }

    /// The exit code of the command.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Unreachable { .. }
            | Error::Tls { .. }
            | Error::NoAnswer { .. }
            | Error::Silent { .. }
            | Error::Cut { .. }
            | Error::Foreign { .. }
            | Error::Redirect { .. }
            | Error::Unavailable { .. } => exit::UNREACHABLE,
            Error::Refused { .. } => exit::REFUSED,
            Error::NotFound { .. } => exit::NOT_FOUND,
            Error::Token | Error::Authorities => exit::USAGE,
            Error::Rejected { .. } | Error::Unreadable { .. } | Error::TooLarge { .. } | Error::TooLong => exit::FAILED,
        }
    }
}

/// The message of an error of the server: `{"error": "…"}`.
pub(super) fn message_of(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Failure {
        error: String,
    }
    serde_json::from_str::<Failure>(text).ok().map(|failure| failure.error)
}
