//! One connection: its handshake, its limits, its requests, and its end.

use std::{
    convert::Infallible,
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
    rt::{Read, Write},
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
#[cfg(target_os = "linux")]
use socket2::SockRef;
use tokio::{
    net::TcpStream,
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    admission::{Busy, Slot},
    handshake::{self, Handshakes, Peer},
};

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

/// The header of every answer over TLS: the browser never uses this host without it, for a year.
const ALWAYS_TLS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Serves a new connection, after its handshake if there is TLS. During the handshake it counts as idle.
pub(super) async fn serve(
    address: SocketAddr,
    stream: TcpStream,
    slot: Arc<Slot>,
    handshakes: Option<Handshakes>,
    routes: Router,
    mut stopped: watch::Receiver<bool>,
) {
    set_socket_options(&stream);
    let address = address.ip().to_canonical();
    let Some(handshakes) = handshakes else {
        let peer = Peer { address, secure: false, certificate: None };
        // Boxed, so that a connection without TLS does not take the memory of one with it.
        return Box::pin(connection(TokioIo::new(stream), peer, slot, routes, stopped)).await;
    };
    let stop = async {
        let _ = stopped.wait_for(|stopped| *stopped).await;
        sleep(LINGER).await;
    };
    let shaken = tokio::select! {
        shaken = Box::pin(handshakes.shake(stream)) => shaken,
        () = slot.closed() => None,
        () = stop => None,
    };
    if let Some(stream) = shaken {
        let peer = handshake::peer(address, &stream);
        Box::pin(connection(TokioIo::new(stream), peer, slot, routes, stopped)).await;
    }
}

/// Serves one connection until it ends, or is closed because another one needs its slot. After `stopped`, it is closed
/// when its request in progress has its response, or after [`LINGER`] if it is idle.
async fn connection(
    stream: impl Read + Write + Unpin,
    peer: Peer,
    slot: Arc<Slot>,
    routes: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let (routes, stopping, counted) = (TowerToHyperService::new(routes), stopped.clone(), Arc::clone(&slot));
    let hangup = reveille_web::Hangup::default();
    let hung_up = hangup.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let busy = counted.request();
        request.extensions_mut().insert(hangup.clone());
        let always_tls = peer.secure && !is_for_localhost(&request);
        request.extensions_mut().insert(peer.clone());
        let (answering, stopping) = (routes.call(request), stopping.clone());
        async move {
            let mut answer = answering.await?;
            if *stopping.borrow() {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            if always_tls {
                answer.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, ALWAYS_TLS);
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
            .serve_connection(stream, service)
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

/// Whether the client calls the server `localhost`. Other servers of its machine have that name, too, on other ports,
/// and a browser would demand TLS of all of them.
fn is_for_localhost(request: &Request<Incoming>) -> bool {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    host.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("localhost"))
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
    use tokio::net::TcpListener;

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
}
