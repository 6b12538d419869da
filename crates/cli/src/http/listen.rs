//! Accepts connections, and drains them on shutdown.
//!
//! Slow clients, idle connections and endless headers are bounded in `connection.rs`, the number of connections in
//! `admission.rs`. On shutdown [`Listener::serve`] stops accepting, lets every request in progress finish within
//! [`DRAIN`], and then closes the rest. An idle keep-alive connection stays open for a short time (`LINGER`).

use std::{future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    admission::{Admission, Limits},
    connection,
    handshake::Handshakes,
    tls::Tls,
};
use crate::error::Error;

/// Maximum number of open connections. A long poll keeps its connection, so this is also the number of waiting clients;
/// each costs a few tens of kilobytes. If the process may open fewer files, the limit is lower.
pub const MAX_CONNECTIONS: usize = 20_000;

/// The default limit of one peer, in tenths of all connections. It is high, because all clients may connect through one
/// load balancer, and below ten, so that no peer can take all connections.
const PER_PEER_OF_TEN: usize = 9;

/// Maximum number of connections to the address for health and metrics: enough for several probes and scrapers.
const HEALTH_CONNECTIONS: usize = 100;

/// File descriptors reserved for other uses: the connections to the database, usually a few dozen, and some of the
/// process itself. Without them many clients would cut the server off from its database.
const OTHER_FILES: usize = 256;

/// How long requests in progress may take once the server stops. Supervisors usually kill after 30 s; this leaves time
/// to close the connections to the database.
const DRAIN: Duration = Duration::from_secs(20);

/// The pause before accepting again when the system is out of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The routes that connections can reach.
#[derive(Clone)]
pub struct Routes {
    /// All routes.
    pub all: Router,
    /// The routes of a connection in the reserve: health and metrics.
    pub reserved: Router,
}

/// A bound address.
pub struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
    admission: Admission,
    handshakes: Option<Handshakes>,
}

impl Listener {
    /// Binds the address. Connections wait in the kernel until [`Listener::serve`]. `per_peer` bounds the connections
    /// of one peer address; `None` is nine tenths of all.
    pub async fn bind(address: SocketAddr, per_peer: Option<usize>) -> Result<Self, Error> {
        Self::with(address, limits(per_peer)).await
    }

    /// Binds an address for health and metrics.
    pub async fn bind_health(address: SocketAddr) -> Result<Self, Error> {
        Self::with(address, Limits { all: HEALTH_CONNECTIONS, per_peer: HEALTH_CONNECTIONS }).await
    }

    /// Binds the address with the given limits.
    pub async fn with(address: SocketAddr, limits: Limits) -> Result<Self, Error> {
        let bind_error = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => Error::PortInUse { address },
            _ => Error::Bind { address, source },
        };
        let tcp = TcpListener::bind(address).await.map_err(bind_error)?;
        let address = tcp.local_addr().map_err(bind_error)?;
        Ok(Self { tcp, address, admission: Admission::new(limits), handshakes: None })
    }

    /// Uses an address that is already bound, by this process or by its parent. Must be called within a tokio runtime.
    /// `per_peer` as for [`Listener::bind`].
    pub fn from_std(tcp: std::net::TcpListener, per_peer: Option<usize>) -> io::Result<Self> {
        tcp.set_nonblocking(true)?;
        let address = tcp.local_addr()?;
        let admission = Admission::new(limits(per_peer));
        Ok(Self { tcp: TcpListener::from_std(tcp)?, address, admission, handshakes: None })
    }

    /// Serves with TLS only, if it is configured.
    pub fn secured(self, tls: Option<Tls>) -> Self {
        Self { handshakes: tls.map(Handshakes::new), ..self }
    }

    /// Whether it serves with TLS.
    pub fn is_secure(&self) -> bool {
        self.handshakes.is_some()
    }

    /// The bound socket, for another process. No connection has been accepted.
    pub fn into_std(self) -> io::Result<std::net::TcpListener> {
        self.tcp.into_std()
    }

    /// The bound address; its port differs from the configured one if that was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `routes` until `stop` resolves, then closes the address and drains. Returns the number of connections
    /// that had to be closed early.
    ///
    /// # Cancel safety
    /// Dropping it closes the address and every connection at once.
    pub async fn serve(self, routes: Routes, stop: impl Future<Output = ()>) -> usize {
        let open = self.serve_for_now(routes, stop).await;
        drop(self);
        open.drain().await
    }

    /// Serves `routes` until `stop` resolves, and keeps the address bound: new connections wait in the kernel until it
    /// is served again. The caller has to [drain](Connections::drain) the open connections.
    ///
    /// # Cancel safety
    /// Dropping it closes every connection at once.
    pub async fn serve_for_now(&self, routes: Routes, stop: impl Future<Output = ()>) -> Connections {
        let (stopping, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                Some(_) = connections.join_next() => continue,
                accepted = accept(&self.tcp) => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    // Without a slot the stream is dropped, which closes the connection.
                    let Some(slot) = self.admission.admit(peer.ip()) else { continue };
                    let routes = if slot.is_reserved() { &routes.reserved } else { &routes.all };
                    let (slot, handshakes) = (Arc::new(slot), self.handshakes.clone());
                    let (routes, stopped) = (routes.clone(), stopped.clone());
                    connections.spawn(connection::serve(peer, stream, slot, handshakes, routes, stopped));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        stopping.send_replace(true);
        Connections(connections)
    }
}

/// Connections of a listener that has stopped. Dropping this closes them.
pub struct Connections(JoinSet<()>);

impl Connections {
    /// Lets every request in progress finish. Returns the number of connections that had to be closed early.
    ///
    /// # Cancel safety
    /// Dropping the future closes the remaining connections.
    pub async fn drain(mut self) -> usize {
        let all_done = async { while self.0.join_next().await.is_some() {} };
        if timeout(DRAIN, all_done).await.is_err() {
            tracing::warn!(connections = self.0.len(), "requests did not finish in time: closing their connections");
        }
        self.0.len()
    }
}

/// The connection limits of this process.
fn limits(per_peer: Option<usize>) -> Limits {
    let all = connections(open_files());
    Limits { all, per_peer: per_peer.unwrap_or((all * PER_PEER_OF_TEN).div_ceil(10)) }
}

/// The connection limit of a process that may open `open_files` files; `None` means any number.
fn connections(open_files: Option<usize>) -> usize {
    // At least half of the files are for connections, also if fewer than the reserved number are left for other uses.
    let left = |files: usize| files.saturating_sub(OTHER_FILES).max(files / 2);
    open_files.map_or(MAX_CONNECTIONS, left).clamp(1, MAX_CONNECTIONS)
}

/// How many files this process may open, after raising the limit as far as needed; `None` if there is no limit.
fn open_files() -> Option<usize> {
    let wanted = (MAX_CONNECTIONS + OTHER_FILES) as u64;
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current?;
    // The soft limit of many systems is a fraction of the hard limit.
    let raised = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    let granted = raised > current
        && setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }).is_ok();
    usize::try_from(if granted { raised } else { current }).ok()
}

/// The next connection.
async fn accept(tcp: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    loop {
        match tcp.accept().await {
            Ok(accepted) => return Ok(accepted),
            // The client disconnected while it waited in the backlog.
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) => {
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The soft limit of open files is raised as far as needed and allowed.
    #[test]
    fn the_limit_of_open_files_is_raised() {
        let files = open_files();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(files, limit.current.map(|current| current as usize));
        let most = limit.maximum.unwrap_or(u64::MAX).min((MAX_CONNECTIONS + OTHER_FILES) as u64);
        assert!(limit.current.is_none_or(|current| current >= most), "{limit:?}");
    }

    /// A usual limit leaves the reserved number, a tiny one leaves half, and without a limit the server's own applies.
    #[test]
    fn connections_leave_file_descriptors_for_other_uses() {
        for (files, expected) in [
            (None, MAX_CONNECTIONS),
            (Some(1_048_576), MAX_CONNECTIONS),
            (Some(1024), 768),
            (Some(64), 32),
            (Some(0), 1),
        ] {
            assert_eq!(connections(files), expected, "{files:?}");
        }
    }
}
