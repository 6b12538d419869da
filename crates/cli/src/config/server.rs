//! Settings of the HTTP server.

use std::{net::SocketAddr, time::Duration};

use clap::{Args, builder::BoolishValueParser};

use super::{address, duration, tls::TlsSettings};
use crate::{error::Error, http::Tls};

/// The default address: loopback only, because there is no authentication.
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
    /// Listen on a non-loopback address although there is no authentication: every client that can reach it has full
    /// access
    #[arg(long, env = "REVEILLE_ALLOW_UNAUTHENTICATED", value_parser = BoolishValueParser::new())]
    allow_unauthenticated: bool,
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
    /// On shutdown, keep serving this long with /health/ready at 503, so that a load balancer removes this server first
    #[arg(long, env = "REVEILLE_SHUTDOWN_DELAY", default_value = "0", value_parser = duration::parse, value_name = "TIME")]
    pub shutdown_delay: Duration,
    /// Maximum size of a request body, in megabytes
    #[arg(long, env = "REVEILLE_MAX_BODY_MB", default_value = "10", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=MAX_BODY_MB))]
    max_body_mb: u32,
    /// How many of the largest queues, consumer groups and namespaces have metrics of their own; the others are summed
    /// up
    #[arg(long, env = "REVEILLE_METRICS_TOP", default_value = "50", value_name = "N",
          value_parser = clap::value_parser!(u32).range(0..=MAX_METRICS_TOP))]
    pub metrics_top: u32,
    /// TLS.
    #[command(flatten)]
    tls: TlsSettings,
}

impl Server {
    /// The address to listen on.
    ///
    /// # Errors
    /// If it is not loopback and --allow-unauthenticated is not set.
    pub fn listen(&self) -> Result<SocketAddr, Error> {
        match self.allow_unauthenticated || self.listen.ip().to_canonical().is_loopback() {
            true => Ok(self.listen),
            false => Err(Error::Exposed { address: self.listen }),
        }
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
