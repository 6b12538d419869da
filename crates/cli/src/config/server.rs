//! Settings of the HTTP server.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, builder::BoolishValueParser};
use reveille_access::AdminToken;

use super::{SecretUrl, address, duration, identity::Identity, tls::TlsSettings};
use crate::{
    client::{Address, Client},
    error::Error,
    http::{Authentication, InProgress, Tls},
};

/// The default address: loopback only, because a server is open by default.
const DEFAULT_LISTEN: &str = "127.0.0.1:6632";

/// A body is held in memory. A request may take several times its size, and the total of all requests is bounded.
const MAX_BODY_MB: i64 = 128;

/// The scraper stores a time series per queue and group: more than this is a mistake.
const MAX_METRICS_TOP: i64 = reveille_queue::COUNTED_MAX as i64;

/// The HTTP server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct Server {
    /// Address and port to listen on
    #[arg(long, env = "REVEILLE_LISTEN", default_value = DEFAULT_LISTEN, value_parser = address::parse, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Listen on a non-loopback address without authentication: every client that can reach it has full access
    #[arg(long, env = "REVEILLE_ALLOW_UNAUTHENTICATED", value_parser = BoolishValueParser::new())]
    allow_unauthenticated: bool,
    /// Reject requests without credentials; by default a server on a loopback address is open
    #[arg(long, env = "REVEILLE_REQUIRE_AUTHENTICATION", value_parser = BoolishValueParser::new())]
    require_authentication: bool,
    /// Token of the administrator, which creates the other tokens; at least 16 characters. Keep it in the variable or a
    /// file: other users of this machine can read a command line
    #[arg(
        long,
        env = "REVEILLE_ADMIN_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        conflicts_with = "admin_token_file"
    )]
    admin_token: Option<SecretUrl>,
    /// File with the token of the administrator
    #[arg(long, env = "REVEILLE_ADMIN_TOKEN_FILE", value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// Allowed host names in requests, in addition to localhost and IP addresses; separated by commas, or * for any
    #[arg(long, env = "REVEILLE_ALLOWED_HOSTS", value_delimiter = ',', value_name = "NAMES")]
    pub allowed_hosts: Vec<String>,
    /// Second address and port for health and metrics only, available even if the first is busy; need not be loopback
    #[arg(long, env = "REVEILLE_HEALTH_LISTEN", value_parser = address::parse, value_name = "ADDRESS")]
    pub health_listen: Option<SocketAddr>,
    /// Maximum number of connections of one peer address [default: nine tenths of all connections]
    #[arg(long, env = "REVEILLE_MAX_CONNECTIONS_PER_PEER", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    max_connections_per_peer: Option<u32>,
    /// Maximum number of requests of one client that are in progress, waiting ones included; a client is a token, or a
    /// user
    #[arg(long, env = "REVEILLE_MAX_REQUESTS_PER_CLIENT", default_value = "10000", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    max_requests_per_client: u32,
    /// On shutdown, keep serving this long with /health/ready at 503, so that a load balancer removes this server first
    #[arg(long, env = "REVEILLE_SHUTDOWN_DELAY", default_value = "0", value_parser = duration::parse, value_name = "TIME")]
    pub shutdown_delay: Duration,
    /// Maximum size of a request body, in megabytes
    #[arg(long, env = "REVEILLE_MAX_BODY_MB", default_value = "10", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=MAX_BODY_MB))]
    max_body_mb: u32,
    /// Collector of traces and metrics, by OTLP over HTTP with JSON: http://127.0.0.1:4318
    #[arg(long, env = "REVEILLE_OTLP_ENDPOINT", hide_env_values = true, value_name = "URL")]
    otlp_endpoint: Option<SecretUrl>,
    /// How many of the largest queues, consumer groups and namespaces have metrics of their own; the others are summed
    /// up
    #[arg(long, env = "REVEILLE_METRICS_TOP", default_value = "50", value_name = "N",
          value_parser = clap::value_parser!(u32).range(0..=MAX_METRICS_TOP))]
    pub metrics_top: u32,
    /// JSON Web Tokens and the OpenID provider.
    #[command(flatten)]
    identity: Identity,
    /// Leave out actions from the console, and reject requests with an effect that a browser sends
    #[arg(long, env = "REVEILLE_CONSOLE_READ_ONLY")]
    pub console_read_only: bool,
    /// TLS.
    #[command(flatten)]
    tls: TlsSettings,
}

impl Server {
    /// The address to listen on.
    ///
    /// # Errors
    /// If it is not loopback, and neither --require-authentication nor --allow-unauthenticated is set.
    pub fn listen(&self) -> Result<SocketAddr, Error> {
        match self.require_authentication || self.allow_unauthenticated || self.listen.ip().to_canonical().is_loopback()
        {
            true => Ok(self.listen),
            false => Err(Error::Exposed { address: self.listen }),
        }
    }

    /// How requests are authenticated, without the tokens of the database.
    ///
    /// # Errors
    /// If the admin token cannot be read or is too short.
    pub fn authentication(&self) -> Result<Authentication, Error> {
        let unusable = |reason| Error::AdminToken { reason };
        let text = match (&self.admin_token, &self.admin_token_file) {
            (Some(token), _) => Some(token.reveal().to_owned()),
            (None, Some(file)) => {
                let text = std::fs::read_to_string(file);
                let text = text.map_err(|error| unusable(format!("cannot read {}: {error}", file.display())))?;
                Some(text.trim().to_owned())
            }
            (None, None) => None,
        };
        let admin = text.map(|text| AdminToken::new(&text)).transpose().map_err(unusable)?;
        Ok(Authentication {
            required: self.require_authentication,
            admin,
            tokens: None,
            jwt: self.identity.jwt()?,
            oidc: self.identity.oidc()?,
            public_url: self.identity.public_url(),
            certificate_role: self.identity.certificate_role()?,
            in_progress: InProgress::new(self.max_requests_per_client as usize),
        })
    }

    /// A client of the collector; `None` if there is none.
    ///
    /// # Errors
    /// If the address is not valid.
    pub fn collector(&self) -> Result<Option<Client>, Error> {
        let Some(url) = self.otlp_endpoint.as_ref().filter(|url| !url.reveal().is_empty()) else { return Ok(None) };
        let address: Address = url.reveal().parse().map_err(|error| Error::Setting {
            key: "--otlp-endpoint (REVEILLE_OTLP_ENDPOINT)",
            source: Box::new(error),
        })?;
        Ok(Some(Client::new(address, None)?))
    }

    /// The connection limit of one peer; `None` for the default.
    pub fn max_connections_per_peer(&self) -> Option<usize> {
        self.max_connections_per_peer.map(|max| max as usize)
    }

    /// TLS, if it is configured. Reads the certificate.
    ///
    /// # Errors
    /// The setting that is missing, or whose file cannot be used.
    pub fn tls(&self) -> Result<Option<Tls>, Error> {
        self.tls.files()?.map(Tls::load).transpose()
    }

    /// The maximum size of a request body, in bytes.
    pub fn max_body_bytes(&self) -> usize {
        (self.max_body_mb as usize) << 20
    }
}
