//! Accepts connections, bounds each of them, and drains them on shutdown.
//!
//! Slow clients, idle connections and endless headers are bounded here, the number of connections in `admission.rs`. On
//! shutdown [`Listener::serve`] stops accepting, lets every request in progress finish within [`DRAIN`], and then
//! closes the rest. An idle keep-alive connection stays open for a short time ([`LINGER`]).

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    http::{HeaderValue, header},
};
use hyper::{
    Request,
    body::{Frame, Incoming, SizeHint},
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::admission::{Admission, Busy, Limits, Slot};
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

/// How long a client may take to send its headers, and how long a keep-alive connection may be idle.
const HEADERS_WITHIN: Duration = Duration::from_secs(60);

/// The same for a connection in the reserve, which serves one short request.
const RESERVED_HEADERS_WITHIN: Duration = Duration::from_secs(5);

/// The most headers, and the most bytes of them, that a request may have.
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 32 * 1024;

/// Size of a connection's read buffer. hyper's default is six times that.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// A client that accepts no byte of its response for this long is disconnected: the response is held in memory.
#[cfg(target_os = "linux")]
const READ_WITHIN: Duration = Duration::from_secs(60);

/// How long an idle keep-alive connection stays open once the server stops. A client that sends a request while its
/// connection is being closed cannot know whether the request arrived, and some clients fail then. A request within
/// this time gets a response with `Connection: close`.
const LINGER: Duration = Duration::from_secs(1);

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
        Ok(Self { tcp, address, admission: Admission::new(limits) })
    }

    /// Uses an address that is already bound, by this process or by its parent. Must be called within a tokio runtime.
    /// `per_peer` as for [`Listener::bind`].
    pub fn from_std(tcp: std::net::TcpListener, per_peer: Option<usize>) -> io::Result<Self> {
        tcp.set_nonblocking(true)?;
        let address = tcp.local_addr()?;
        Ok(Self { tcp: TcpListener::from_std(tcp)?, address, admission: Admission::new(limits(per_peer)) })
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
                    connections.spawn(connection(stream, slot, routes.clone(), stopped.clone()));
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

/// Serves one connection until it ends, or is closed because another one needs its slot. After `stopped`, it is closed
/// when its request in progress has its response, or after [`LINGER`] if it is idle.
async fn connection(stream: TcpStream, slot: Slot, routes: Router, mut stopped: watch::Receiver<bool>) {
    set_socket_options(&stream);
    let slot = Arc::new(slot);
    let (routes, stopping, counted) = (TowerToHyperService::new(routes), stopped.clone(), Arc::clone(&slot));
    let hangup = reveille_web::Hangup::default();
    let hung_up = hangup.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let busy = counted.request();
        request.extensions_mut().insert(hangup.clone());
        let (answering, stopping) = (routes.call(request), stopping.clone());
        async move {
            let mut answer = answering.await?;
            if *stopping.borrow() {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(answer.map(|inner| Counted { inner, _busy: busy }))
        }
    });
    let reserved = slot.is_reserved();
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(if reserved { RESERVED_HEADERS_WITHIN } else { HEADERS_WITHIN })
            .keep_alive(!reserved)
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEADER_BYTES)
            .max_buf_size(MAX_BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service)
    );
    let stop = async { stopped.wait_for(|stopped| *stopped).await.map(drop) };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        // A client that does not read its response is disconnected when others need the memory.
        () = hung_up.requested() => return,
        () = slot.closed() => match slot.is_busy() {
            false => return,
            // A request arrived meanwhile: it gets its response, then the connection is closed.
            true => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        },
        _ = stop => match timeout(LINGER, &mut connection).await {
            Ok(ended) => ended,
            Err(_) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        },
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended early");
    }
}

/// The body of a response. The request counts as in progress until the body is dropped.
struct Counted {
    inner: Body,
    _busy: Busy,
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Sets the socket options of a connection.
fn set_socket_options(stream: &TcpStream) {
    // Responses are written in one piece: waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(READ_WITHIN));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that reads nothing must not keep its response in memory: the kernel closes its connection.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_client_that_reads_nothing_is_disconnected() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let _client = TcpStream::connect(tcp.local_addr().expect("an address")).await.expect("it listens");
        let (stream, _) = tcp.accept().await.expect("a client");
        set_socket_options(&stream);
        assert_eq!(SockRef::from(&stream).tcp_user_timeout().expect("a timeout"), Some(READ_WITHIN));
    }

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
