//! Accepting connections, bounding each of them, and letting them finish.
//!
//! The danger at the front door is whoever holds it open: a client that sends one byte a minute, a thousand idle
//! connections, a header without end. Each has a bound here; how many there may be is decided in `admission.rs`. The danger at the end is
//! work cut in half: [`Listener::serve`] stops accepting, lets every request under way finish within [`DRAIN`], and only then
//! gives up on the rest. A connection that is merely kept alive stays for a moment ([`LINGER`]).

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

/// Connections open at once. A long poll holds its connection all the time, so this is also the number of waiting clients; each
/// costs a few tens of kilobytes.
/// Where the process may open fewer files than that, it is as many as leave room for the others.
pub const MAX_CONNECTIONS: usize = 20_000;

/// Of ten places a peer may have nine unless it is configured otherwise: everybody may come through one load balancer, or from this
/// machine, and still one peer alone cannot take all places.
const PER_PEER_OF_TEN: usize = 9;

/// Connections to the address for health and metrics: some probers and scrapers.
const HEALTH_CONNECTIONS: usize = 100;

/// Files that connections leave to everything else: the database's connections, a few dozen as a rule, and a few of the
/// process's own. Without them a crowd of clients would cut the server off from its database.
const OTHER_FILES: usize = 256;

/// How long a client may take to send its headers, and how long a kept-alive connection may sit between two requests.
const HEADERS_WITHIN: Duration = Duration::from_secs(60);

/// The same for a connection in the reserve, which is there for one short request.
const RESERVED_HEADERS_WITHIN: Duration = Duration::from_secs(5);

/// The most headers, and the most bytes of them, that a request may have.
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 32 * 1024;

/// What a connection buffers of what arrives before it is read. The library's own bound is six times that.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// How long a client may take to accept anything of its answer. Who reads nothing holds the answer in memory.
#[cfg(target_os = "linux")]
const READ_WITHIN: Duration = Duration::from_secs(60);

/// How long a connection that is kept alive may sit idle once the server stops. A client that sends a request in the moment in which
/// its connection is closed does not know whether it arrived, and some give up; what arrives within this time is answered, and the
/// answer says that the connection ends.
const LINGER: Duration = Duration::from_secs(1);

/// How long requests under way may take to finish once the server stops. Supervisors usually kill after 30 s; this leaves
/// time to close the database after it.
const DRAIN: Duration = Duration::from_secs(20);

/// How long to wait when the system is out of file descriptors or memory, before accepting again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a connection is answered by.
#[derive(Clone)]
pub struct Routes {
    /// Everything.
    pub all: Router,
    /// What is left when there are too many connections: health and metrics.
    pub reserved: Router,
}

/// A bound address.
pub struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
    admission: Admission,
}

impl Listener {
    /// Takes the address. Connections wait in the kernel until [`Listener::serve`]. `per_peer` bounds the connections of one peer
    /// address; `None` is nine tenths of all.
    pub async fn bind(address: SocketAddr, per_peer: Option<usize>) -> Result<Self, Error> {
        Self::with(address, limits(per_peer)).await
    }

    /// Takes an address for health and metrics.
    pub async fn bind_health(address: SocketAddr) -> Result<Self, Error> {
        Self::with(address, Limits { all: HEALTH_CONNECTIONS, per_peer: HEALTH_CONNECTIONS }).await
    }

    /// Takes the address, for so many connections.
    pub async fn with(address: SocketAddr, limits: Limits) -> Result<Self, Error> {
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => Error::PortInUse { address },
            _ => Error::Bind { address, source },
        };
        let tcp = TcpListener::bind(address).await.map_err(refused)?;
        let address = tcp.local_addr().map_err(refused)?;
        Ok(Self { tcp, address, admission: Admission::new(limits) })
    }

    /// Takes over an address that is bound already, by this process or by its parent. Must be called within a tokio runtime.
    /// `per_peer` as for [`Listener::bind`].
    pub fn from_std(tcp: std::net::TcpListener, per_peer: Option<usize>) -> io::Result<Self> {
        tcp.set_nonblocking(true)?;
        let address = tcp.local_addr()?;
        Ok(Self { tcp: TcpListener::from_std(tcp)?, address, admission: Admission::new(limits(per_peer)) })
    }

    /// Gives the address away, still bound. Nothing has been accepted.
    pub fn into_std(self) -> io::Result<std::net::TcpListener> {
        self.tcp.into_std()
    }

    /// The address really bound; the port differs from the one asked for if that was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `routes` until `stop` resolves, then closes the address and drains. Returns how many connections had to be cut.
    ///
    /// # Cancel safety
    /// Dropping it closes the address and every connection at once.
    pub async fn serve(self, routes: Routes, stop: impl Future<Output = ()>) -> usize {
        let open = self.serve_for_now(routes, stop).await;
        drop(self);
        open.drain().await
    }

    /// Serves `routes` until `stop` resolves, and keeps the address for other routes: new connections wait in the kernel. What
    /// is still open is to be [drained](Connections::drain).
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
                    // Without a place the stream is dropped, and with it the connection.
                    let Some(slot) = self.admission.admit(peer.ip()) else { continue };
                    let routes = if slot.is_reserved() { &routes.reserved } else { &routes.all };
                    connections.spawn(connection(stream, slot, routes.clone(), stopped.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        stopping.send_replace(true);
        Connections(connections)
    }
}

/// Connections that take no further request. Dropping it cuts them.
pub struct Connections(JoinSet<()>);

impl Connections {
    /// Lets every request under way finish. Returns how many connections had to be cut.
    ///
    /// # Cancel safety
    /// Dropping it cuts what is left.
    pub async fn drain(mut self) -> usize {
        let all_done = async { while self.0.join_next().await.is_some() {} };
        if timeout(DRAIN, all_done).await.is_err() {
            tracing::warn!(connections = self.0.len(), "requests did not finish in time: cutting them");
        }
        self.0.len()
    }
}

/// How many connections may be open at once, and how many of one peer.
fn limits(per_peer: Option<usize>) -> Limits {
    let all = connections(open_files());
    Limits { all, per_peer: per_peer.unwrap_or((all * PER_PEER_OF_TEN).div_ceil(10)) }
}

/// How many connections may be open at once where a process may open so many files; `None` is no limit.
fn connections(open_files: Option<usize>) -> usize {
    // Half of a limit that is smaller than the reserve: some of each is better than all of one.
    let left = |files: usize| files.saturating_sub(OTHER_FILES).max(files / 2);
    open_files.map_or(MAX_CONNECTIONS, left).clamp(1, MAX_CONNECTIONS)
}

/// How many files this process may open, after asking for as many as it can use; `None` if there is no limit.
fn open_files() -> Option<usize> {
    let wanted = (MAX_CONNECTIONS + OTHER_FILES) as u64;
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current?;
    // What many systems give without being asked is a fraction of what they allow.
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
            // The client went away while it waited in the backlog; that is no fault of ours.
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) => {
            }
            Err(error) => return Err(error),
        }
    }
}

/// Serves one connection until it ends; until it is closed for another; or, once `stopped`, until its current request is answered, or
/// for a moment if it has none.
async fn connection(stream: TcpStream, slot: Slot, routes: Router, mut stopped: watch::Receiver<bool>) {
    bound(&stream);
    let slot = Arc::new(slot);
    let (routes, stopping, counted) = (TowerToHyperService::new(routes), stopped.clone(), Arc::clone(&slot));
    let hangup = web::Hangup::default();
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
        // A client that does not read its answer is cut when others need the memory.
        () = hung_up.requested() => return,
        () = slot.closed() => match slot.is_busy() {
            false => return,
            // A request came at the last moment: it is answered, and then the connection ends.
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

/// The body of an answer; its request is under way until it is dropped.
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

/// What the kernel does for a connection.
fn bound(stream: &TcpStream) {
    // Answers are written whole: waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(READ_WITHIN));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that reads nothing must not hold its answer for ever: the kernel ends its connection.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_client_that_reads_nothing_is_cut() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let _client = TcpStream::connect(tcp.local_addr().expect("an address")).await.expect("it listens");
        let (stream, _) = tcp.accept().await.expect("a client");
        bound(&stream);
        assert_eq!(SockRef::from(&stream).tcp_user_timeout().expect("told"), Some(READ_WITHIN));
    }

    /// Systems that give few files allow more to who asks.
    #[test]
    fn files_are_asked_for() {
        let files = open_files();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(files, limit.current.map(|current| current as usize));
        let most = limit.maximum.unwrap_or(u64::MAX).min((MAX_CONNECTIONS + OTHER_FILES) as u64);
        assert!(limit.current.is_none_or(|current| current >= most), "{limit:?}");
    }

    /// A usual limit leaves the reserve, a tiny one leaves half, and none leaves the server's own bound.
    #[test]
    fn connections_leave_files_for_the_rest() {
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
