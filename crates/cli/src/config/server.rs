//! The HTTP server: where it listens, for whom, and what it takes.

use std::{net::SocketAddr, time::Duration};

use clap::{Args, builder::BoolishValueParser};

use super::{address, duration};
use crate::error::Error;

/// Where the server listens unless told otherwise: loopback only, because there is no authentication.
const DEFAULT_LISTEN: &str = "127.0.0.1:6632";

/// A body is held in memory. A request may use several times its body, and all requests together are bounded.
const MAX_BODY_MB: i64 = 128;

/// A time series per queue and group is kept by the scraper: more than this is a slip.
const MAX_METRICS_TOP: i64 = queue::COUNTED_MAX as i64;

/// Where and how the HTTP server listens.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct Server {
    /// Address and port to listen on
    #[arg(long, env = "REVEILLE_LISTEN", default_value = DEFAULT_LISTEN, value_parser = address::parse, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Listen on an address that other machines can reach, although there is no authentication: anyone who reaches it may do everything
    #[arg(long, env = "REVEILLE_ALLOW_UNAUTHENTICATED", value_parser = BoolishValueParser::new())]
    allow_unauthenticated: bool,
    /// Host names by which clients may call this server, beside localhost and any IP address; separated by commas, or * for any
    #[arg(long, env = "REVEILLE_ALLOWED_HOSTS", value_delimiter = ',', value_name = "NAMES")]
    pub allowed_hosts: Vec<String>,
    /// Address and port of a second server that answers health and metrics only, also when the first is busy; it may be reachable for others
    #[arg(long, env = "REVEILLE_HEALTH_LISTEN", value_parser = address::parse, value_name = "ADDRESS")]
    pub health_listen: Option<SocketAddr>,
    /// Connections that one peer address may have open [default: nine tenths of all connections]
    #[arg(long, env = "REVEILLE_MAX_CONNECTIONS_PER_PEER", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    max_connections_per_peer: Option<u32>,
    /// When told to stop, keep serving this long with /health/ready at 503, so that a load balancer looks away first
    #[arg(long, env = "REVEILLE_SHUTDOWN_DELAY", default_value = "0", value_parser = duration::parse, value_name = "TIME")]
    pub shutdown_delay: Duration,
    /// Largest body of a request, in megabytes
    #[arg(long, env = "REVEILLE_MAX_BODY_MB", default_value = "10", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=MAX_BODY_MB))]
    max_body_mb: u32,
    /// Queues, consumer groups and namespaces that have metrics of their own, each the largest; the others are summed up
    #[arg(long, env = "REVEILLE_METRICS_TOP", default_value = "50", value_name = "N",
          value_parser = clap::value_parser!(u32).range(0..=MAX_METRICS_TOP))]
    pub metrics_top: u32,
}

impl Server {
    /// The address to listen on.
    ///
    /// # Errors
    /// If other machines can reach it and the flag that allows this was not given.
    pub fn listen(&self) -> Result<SocketAddr, Error> {
        match self.allow_unauthenticated || self.listen.ip().to_canonical().is_loopback() {
            true => Ok(self.listen),
            false => Err(Error::Exposed { address: self.listen }),
        }
    }

    /// How many connections one peer may have; `None` if it was not said.
    pub fn max_connections_per_peer(&self) -> Option<usize> {
        self.max_connections_per_peer.map(|most| most as usize)
    }

    /// The largest body of a request, in bytes.
    pub fn max_body_bytes(&self) -> usize {
        (self.max_body_mb as usize) << 20
    }
}
