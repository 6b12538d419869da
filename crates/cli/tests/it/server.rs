//! The HTTP server from the side of a product: routes, readiness, health, shutdown.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{Router, body::Bytes, routing};
use reveille::http::{App, Check, Health, Listener, Metrics, Verdict};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{Semaphore, oneshot},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    http::{exchange, get, parse},
    process::PATIENCE,
};

/// Metrics are collected once per process, and tests may share one.
pub(crate) fn metrics() -> Metrics {
    static METRICS: OnceLock<Metrics> = OnceLock::new();
    METRICS.get_or_init(|| Metrics::install().expect("the first to collect")).clone()
}

/// A running server with one product.
struct Running {
    address: SocketAddr,
    health: Arc<Health>,
    stop: oneshot::Sender<()>,
    cut: JoinHandle<usize>,
}

async fn start(routes: Router, checks: Vec<Arc<dyn Check>>) -> Running {
    let (routes, health) = App::new(metrics()).mount(routes, checks).build();
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), None).await.expect("a free port");
    let address = listener.address();
    let (stop, stopped) = oneshot::channel();
    let cut = tokio::spawn(listener.serve(routes, async { stopped.await.unwrap_or_default() }));
    Running { address, health, stop, cut }
}

impl Running {
    /// Stops it; returns how many connections were closed by force.
    async fn stop(self) -> usize {
        let _ = self.stop.send(());
        timeout(PATIENCE, self.cut).await.expect("it ends").expect("it does not panic")
    }
}

/// A product that answers when a test allows it, and signals when a request begins and when its future is dropped.
#[derive(Clone)]
struct Slow {
    began: Arc<Semaphore>,
    go_on: Arc<Semaphore>,
    dropped: Arc<Semaphore>,
}

impl Slow {
    fn new() -> Self {
        let none = || Arc::new(Semaphore::new(0));
        Self { began: none(), go_on: none(), dropped: none() }
    }

    fn routes(&self) -> Router {
        let slow = self.clone();
        Router::new().route("/slow", routing::get(move || slow.answer()))
    }

    async fn answer(self) -> &'static str {
        struct OnDrop(Arc<Semaphore>);
        impl Drop for OnDrop {
            fn drop(&mut self) {
                self.0.add_permits(1);
            }
        }
        let _given_up = OnDrop(self.dropped);
        self.began.add_permits(1);
        let _ = self.go_on.acquire().await;
        "slow"
    }
}

/// Waits for a signal of the product.
async fn signal(semaphore: &Semaphore) {
    timeout(PATIENCE, semaphore.acquire()).await.expect("in time").expect("open").forget();
}

/// A product must not be reached before the process has started, and its health counts from then on.
/// Requests the route and the readiness in each state, with a check that the test can make fail.
#[tokio::test]
async fn a_product_is_reached_only_after_the_start_and_its_health_counts() {
    struct Switch(AtomicBool);
    impl Check for Switch {
        fn name(&self) -> &'static str {
            "product"
        }

        fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
            let broken = self.0.load(Ordering::Relaxed);
            Box::pin(async move { if broken { Verdict::Down("broken".into()) } else { Verdict::Good } })
        }
    }
    let switch = Arc::new(Switch(AtomicBool::new(true)));
    let routes = Router::new().route("/product", routing::get(|| async { "here" }));
    let server = start(routes, vec![Arc::clone(&switch) as Arc<dyn Check>]).await;

    server.health.starting("still making tables");
    let early = get(server.address, "/product").await;
    let refused = early.json()["error"].as_str().map(str::to_owned).unwrap_or_default();
    assert_eq!(early.status, 503);
    assert!(refused.starts_with("not ready: still making tables") && refused.contains("connection"), "{refused}");
    assert!(early.headers.contains("retry-after: 1"), "{early:?}");
    assert_eq!(get(server.address, "/health/live").await.status, 200);

    server.health.started();
    let answer = get(server.address, "/product").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "here"));
    let broken = get(server.address, "/health").await;
    assert_eq!((broken.status, &broken.json()["reasons"][0]), (503, &"product: broken".into()));

    switch.0.store(false, Ordering::Relaxed);
    crate::http::eventually(server.address, "/health", |answer| answer.status == 200).await;
    assert_eq!(server.stop().await, 0);
}

/// A request in progress when the server stops must be answered, while new connections are refused.
/// The product delays its response until the address is closed.
#[tokio::test]
async fn a_request_in_progress_is_answered_at_shutdown() {
    let slow = Slow::new();
    let server = start(slow.routes(), Vec::new()).await;
    server.health.started();
    let address = server.address;
    let request = tokio::spawn(async move { exchange(address, "GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await });
    signal(&slow.began).await;

    let ended = tokio::spawn(server.stop());
    // The address closes when the drain begins; until then connections are accepted.
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    slow.go_on.add_permits(1);
    let answer = parse(&timeout(PATIENCE, request).await.expect("answered").expect("no panic").expect("no reset"));
    assert_eq!((answer.status, answer.body.as_str()), (200, "slow"));
    assert!(answer.headers.contains("connection: close"), "{}", answer.headers);
    assert_eq!(ended.await.expect("no panic"), 0);
}

/// A disconnected client must be noticed at once, so that what was claimed for it can go to another.
/// The client closes its connection while the product delays its response; the product's future is dropped.
#[tokio::test]
async fn a_disconnected_client_is_noticed() {
    let slow = Slow::new();
    let server = start(slow.routes(), Vec::new()).await;
    server.health.started();
    let mut client = TcpStream::connect(server.address).await.expect("it listens");
    client.write_all(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
    signal(&slow.began).await;
    drop(client);
    signal(&slow.dropped).await;
    assert_eq!(server.stop().await, 0);
}

/// One connection must serve many requests, one after the other.
/// Two requests on one socket.
#[tokio::test]
async fn connections_are_kept_alive() {
    let server = start(Router::new(), Vec::new()).await;
    let mut client = TcpStream::connect(server.address).await.expect("it listens");
    for _ in 0..2 {
        client.write_all(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("sent");
        let mut buffer = [0; 1024];
        let count = timeout(PATIENCE, client.read(&mut buffer)).await.expect("in time").expect("answered");
        assert_eq!(parse(&String::from_utf8_lossy(&buffer[..count])).status, 200);
    }
    assert_eq!(server.stop().await, 0);
}

/// A request that arrives on an open connection while the server stops must be answered, with a response that closes
/// the connection. One connection sends a request after the address was closed; one never does and is closed as well.
#[tokio::test]
async fn a_request_on_a_kept_connection_is_answered_while_the_server_stops() {
    let server = start(Router::new(), Vec::new()).await;
    let address = server.address;
    let request = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut client = TcpStream::connect(address).await.expect("it listens");
        client.write_all(request).await.expect("sent");
        let mut buffer = [0; 1024];
        let count = timeout(PATIENCE, client.read(&mut buffer)).await.expect("in time").expect("answered");
        assert!(!String::from_utf8_lossy(&buffer[..count]).contains("connection: close"));
        kept.push(client);
    }
    let ended = tokio::spawn(server.stop());
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    kept[0].write_all(request).await.expect("sent");
    for (client, status) in kept.iter_mut().zip([Some(200), None]) {
        let mut answer = String::new();
        timeout(PATIENCE, client.read_to_string(&mut answer)).await.expect("closed in time").expect("no reset");
        assert_eq!((!answer.is_empty()).then(|| parse(&answer).status), status);
        assert_eq!(answer.to_lowercase().contains("connection: close"), status.is_some(), "{answer}");
    }
    assert_eq!(ended.await.expect("no panic"), 0);
}

/// A body larger than the limit must be rejected.
/// The product reads whole bodies; one of ten megabytes is read, one with a byte more is rejected.
#[tokio::test]
async fn an_oversized_body_is_refused() {
    let routes = Router::new().route("/read", routing::post(|body: Bytes| async move { body.len().to_string() }));
    let server = start(routes, Vec::new()).await;
    server.health.started();
    for (bytes, status) in [(10 << 20, 200), ((10 << 20) + 1, 413)] {
        let head =
            format!("POST /read HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {bytes}\r\n\r\n");
        let answer = parse(&exchange(server.address, &(head + &"x".repeat(bytes))).await.expect("answered"));
        assert_eq!(answer.status, status, "{bytes}");
        if status != 200 {
            assert!(answer.json()["error"].as_str().is_some_and(|it| !it.is_empty()), "{answer:?}");
        }
    }
    assert_eq!(server.stop().await, 0);
}

/// Errors of the web framework must have the form of every other error.
/// A product that expects JSON is sent another content type, and a body that is not the JSON it claims to be.
#[tokio::test]
async fn errors_of_the_framework_are_json() {
    let routes = Router::new().route("/read", routing::post(|_: axum::Json<serde_json::Value>| async { "read" }));
    let server = start(routes, Vec::new()).await;
    server.health.started();
    for (kind, status) in [("text/html", 415), ("application/json", 400)] {
        let text = format!(
            "POST /read HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: 3\r\n\r\n{{x}}"
        );
        let answer = parse(&exchange(server.address, &text).await.expect("answered"));
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.json()["error"].as_str().is_some_and(|it| !it.is_empty()), "{answer:?}");
    }
    assert_eq!(server.stop().await, 0);
}
