//! Limits of the server that apply before any product handles a request: host names, origins, content types, sizes,
//! connections.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use reveille_pg::testing::TestDb;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::http::{Answer, assert_refused, eventually, exchange, get, parse, send};
use crate::process::{PATIENCE, command, run};
use crate::queue::fixture::{Server, data};
use crate::serve::{ready, serve};

const JSON: &str = "content-type: application/json";

/// Sends a request with these headers.
async fn raw(address: SocketAddr, head: &str) -> Answer {
    let text = format!("{head}\r\nconnection: close\r\n\r\n");
    parse(&timeout(PATIENCE, exchange(address, &text)).await.expect("an answer in time").expect("an answer"))
}

/// A web page must not be able to act through a browser that can reach the server.
/// Sends what a browser sends for a page: a host name that resolves to this machine, the page's origin, an image; then
/// bodies of the content types that a page may send without a preflight request. The message is still there afterwards.
#[tokio::test]
async fn a_web_page_cannot_act() {
    let server = Server::with(&["--allowed-hosts", "queue.example,other.example"]).await;
    let address = server.address;
    server.push("prey", "p", &["1"]).await;
    let pop = "GET /api/v1/pop/queue/prey?autoAck=true HTTP/1.1";
    for headers in [
        "host: evil.example",
        "host: evil.example:6632",
        "host: localhost\r\norigin: http://evil.example",
        "host: localhost\r\norigin: null",
        "host: localhost\r\norigin: http://localhost:3000",
        "host: localhost\r\nsec-fetch-site: cross-site\r\nsec-fetch-dest: image",
        "host: localhost\r\nsec-fetch-site: same-site",
    ] {
        for first in [pop, "POST /api/v1/system/maintenance/pop HTTP/1.1", "GET /health HTTP/1.1"] {
            let answer = raw(address, &format!("{first}\r\n{headers}")).await;
            assert_eq!(answer.status, 403, "{headers}: {answer:?}");
            assert!(answer.json()["error"].is_string(), "{answer:?}");
        }
    }
    let item = br#"{"items":[{"queue":"planted"}]}"#;
    for headers in [&[][..], &["content-type: text/plain"], &["content-type: application/x-www-form-urlencoded"]] {
        let answer = send(address, "POST", "/api/v1/push", headers, item).await;
        assert_refused(&answer, 415, "application/json");
    }
    assert_eq!(server.get("resources/queues/planted").await.status, 404);
    for headers in [
        "host: queue.example\r\norigin: http://queue.example",
        "host: other.example:80",
        "host: 10.1.2.3:6632",
        "host: [::1]",
        "host: localhost\r\nsec-fetch-site: same-origin",
        "host: localhost\r\nsec-fetch-site: none",
    ] {
        let answer = raw(address, &format!("GET /health/live HTTP/1.1\r\n{headers}")).await;
        assert_eq!(answer.status, 200, "{headers}: {answer:?}");
    }
    assert_eq!(data(&server.pop("queue/prey").await), ["1"]);
}

/// An address that other machines can reach must be rejected unless a flag allows unauthenticated access.
/// Both commands that listen, on all addresses; then with the flag.
#[tokio::test]
async fn a_non_loopback_address_needs_a_flag() {
    let db = TestDb::new().await;
    for name in ["serve", "up"] {
        for listen in ["0.0.0.0:0", "[::]:0"] {
            let mut command = command(&[name, "--listen", listen]);
            command.env("DATABASE_URL", db.url()).env("REVEILLE_SCHEMA", db.schema().name());
            let ended = run(command).await;
            assert_eq!(ended.status.code(), Some(2), "{}", ended.output);
            assert!(
                ended.output.contains("--allow-unauthenticated") && ended.output.contains("no authentication"),
                "{}",
                ended.output
            );
        }
    }
    let (_reveille, address) = ready(serve(&db, &["--listen", "0.0.0.0:0", "--allow-unauthenticated"])).await;
    assert_eq!(get(([127, 0, 0, 1], address.port()).into(), "/health/live").await.status, 200);
}

/// JSON that is nested so deeply that parsing it could crash a client must be rejected in every body, with the limit.
/// A hundred thousand levels to routes that keep payloads as text, routes that parse, and templates in both forms.
#[tokio::test]
async fn deeply_nested_bodies_are_refused() {
    let server = Server::start().await;
    let address = server.address;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (path, kind, body) in [
        ("/api/v1/push", JSON, format!(r#"{{"items":[{{"queue":"deep","payload":{deep}}}]}}"#)),
        (
            "/api/v1/transaction",
            JSON,
            format!(r#"{{"operations":[{{"type":"push","items":[{{"queue":"deep","payload":{deep}}}]}}]}}"#),
        ),
        ("/api/v1/ack", JSON, format!(r#"{{"error":{deep}}}"#)),
        ("/api/v1/traces", JSON, format!(r#"{{"data":{deep}}}"#)),
        ("/api/v1/configure", JSON, deep.clone()),
        ("/v1/tasks", JSON, format!(r#"{{"context":{deep}}}"#)),
        ("/v1/workers/complete", JSON, format!(r#"{{"steps":[{{"token":"x","result":{deep}}}]}}"#)),
        ("/v1/templates", "content-type: application/yaml", format!("input_schema: {deep}")),
        ("/v1/templates", JSON, format!(r#"{{"input_schema":{deep}}}"#)),
    ] {
        let answer = send(address, "POST", path, &[kind], body.as_bytes()).await;
        assert_refused(&answer, 400, "at most 100 levels");
    }
    let blocks = format!("name: t\nsteps: []\ninput_schema: {}a", "- ".repeat(100_000));
    let answer = send(address, "POST", "/v1/templates", &["content-type: application/yaml"], blocks.as_bytes()).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    let most = format!("{}{}", "[".repeat(97), "]".repeat(97));
    let body = format!(r#"{{"items":[{{"queue":"deep","payload":{most}}}]}}"#);
    assert_eq!(server.post_text("push", &body).await.status, 201);
    assert_eq!(server.pop("queue/deep").await["messages"][0]["data"].to_string(), most);
}

/// A push, an ack or a transaction with too many elements must be rejected with the limit, before all of them are in
/// memory.
#[tokio::test]
async fn lists_beyond_their_limit_are_refused() {
    let server = Server::start().await;
    let many = |element: &str| vec![element; 10_001].join(",");
    for (path, body) in [
        ("push", format!(r#"{{"items":[{}]}}"#, many(r#"{"queue":"q"}"#))),
        ("ack/batch", format!(r#"{{"acknowledgments":[{}]}}"#, many("{}"))),
        ("transaction", format!(r#"{{"operations":[{}]}}"#, many("{}"))),
        (
            "transaction",
            format!(
                r#"{{"operations":[{{"type":"push","items":[{}]}},{{"type":"push","items":[{{"queue":"q"}}]}}]}}"#,
                vec![r#"{"queue":"q"}"#; 10_000].join(",")
            ),
        ),
    ] {
        assert_refused(&server.post_text(path, &body).await, 400, "at most 10000");
    }
    assert_eq!(server.get("resources/queues/q").await.status, 404);
}

/// Clients that announce large bodies and send none of it must not take memory from others, and neither must waiting
/// workers, however their bodies were sent.
/// A hundred clients that announce, and a hundred workers whose claims came chunked; then the largest body is read.
#[tokio::test]
async fn announced_bodies_and_waiting_workers_take_no_memory() {
    const CLIENTS: usize = 100;
    let server = Server::start().await;
    let address = server.address;
    let head = format!("POST /api/v1/push HTTP/1.1\r\nhost: localhost\r\n{JSON}");
    let mut open = Vec::new();
    for _ in 0..CLIENTS {
        let mut silent = TcpStream::connect(address).await.expect("it listens");
        let announced = format!("{head}\r\ncontent-length: {}\r\n\r\n", 10 << 20);
        silent.write_all(announced.as_bytes()).await.expect("sent");
        open.push(silent);
        let mut worker = TcpStream::connect(address).await.expect("it listens");
        let claim = json!({"worker": "w", "namespaces": ["n"], "wait_ms": 600_000}).to_string();
        let pieces = format!("{:x}\r\n{claim}\r\n0\r\n\r\n", claim.len());
        let head =
            format!("POST /v1/workers/claim HTTP/1.1\r\nhost: localhost\r\n{JSON}\r\ntransfer-encoding: chunked");
        worker.write_all(format!("{head}\r\n\r\n{pieces}").as_bytes()).await.expect("sent");
        open.push(worker);
    }
    let line = format!("reveille_wake_waiters{{consumer=\"steps\"}} {CLIENTS}\n");
    eventually(address, "/metrics", |answer| answer.body.contains(&line)).await;
    let payload = "x".repeat((10 << 20) - 100);
    let body = format!(r#"{{"items":[{{"queue":"large","payload":"{payload}"}}]}}"#);
    let answer = send(address, "POST", "/api/v1/push", &[JSON], body.as_bytes()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

/// Whatever is sent concurrently, the server must stay below the memory that its documentation promises.
/// Bodies of ten megabytes: pushes of tiny items, plain and compressed, and contexts of tiny values; and contexts of as
/// many objects as are allowed.
#[tokio::test]
async fn memory_stays_under_the_documented_bound() {
    const PROMISED: u64 = 1 << 30;
    let server = Server::start().await;
    let address = server.address;
    let filled = |head: &str, element: &str, count: usize, tail: &str| {
        format!("{head}{}{tail}", vec![element; count].join(",")).into_bytes()
    };
    let tiny = filled(r#"{"items":["#, r#"{"queue":"q"}"#, 740_000, "]}");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &tiny).expect("packed");
    let packed = packed.finish().expect("packed");
    let task = r#"{"namespace":"n","name":"t","version":"1.0.0","context":["#;
    // Path, headers, body, their number, and the accepted statuses.
    type Kind = (&'static str, &'static [&'static str], Vec<u8>, usize, u16);
    let kinds: [Kind; 4] = [
        ("/api/v1/push", &[JSON], tiny, 4, 400),
        ("/api/v1/push", &[JSON, "content-encoding: gzip"], packed, 2, 400),
        ("/v1/tasks", &[JSON], filled(task, "0", 5_000_000, "]}"), 2, 413),
        ("/v1/tasks", &[JSON], filled(task, r#"{"a":0}"#, 100_000, "]}"), 2, 404),
    ];
    let mut sent = JoinSet::new();
    for (path, headers, body, count, expected) in kinds {
        let body = Arc::new(body);
        for _ in 0..count {
            let body = Arc::clone(&body);
            sent.spawn(async move {
                // On a slow machine memory may not become free in time, and a client that is rejected in the middle of
                // a body may not read the response.
                let status =
                    crate::http::try_send(address, "POST", path, headers, &body).await.map(|answer| answer.status);
                assert!(
                    [Some(expected), Some(503), None].contains(&status),
                    "{path} {headers:?}: {status:?}, not {expected}"
                );
            });
        }
    }
    sent.join_all().await;
    let peak = server.reveille.peak().unwrap_or(0);
    println!("peak: {} MB", peak >> 20);
    assert!(peak <= PROMISED, "{} MB", peak >> 20);
    assert_eq!(get(address, "/health").await.status, 200);
    server.push("q", "p", &["1"]).await;
}

/// A server that may open few files, with a second address for health.
fn small(db: &TestDb) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 128 && exec \"$0\" serve", env!("CARGO_BIN_EXE_reveille")]);
    shell.env("REVEILLE_LISTEN", "127.0.0.1:0").env("REVEILLE_SCHEMA", db.schema().name());
    shell.env("REVEILLE_HEALTH_LISTEN", "127.0.0.1:0").env("DATABASE_URL", db.url());
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    shell
}

/// Idle connections must not block other clients, and when all connections are busy, health must still be served.
/// Opens twice as many connections as the server allows, and leaves them idle; then waiting pops occupy all connections
/// of one peer.
#[tokio::test]
async fn idle_connections_do_not_block_other_clients() {
    let db = TestDb::new().await;
    let (reveille, address) = ready(small(&db)).await;
    let mut silent = Vec::new();
    for number in 0..116 {
        // The second half finds connections that have been idle for long enough.
        if number == 58 {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        silent.push(TcpStream::connect(address).await.expect("it listens"));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = Instant::now();
    assert_eq!(get(address, "/health/live").await.status, 200);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let warned = reveille.line("connection limit reached").await;
    assert!(warned.contains("limit=64"), "{warned}");

    // One peer may have nine tenths of the connections.
    let mut waiting = JoinSet::new();
    for number in 0..58 {
        let path = format!("/api/v1/pop/queue/q?wait=true&timeout=600000&consumerGroup=g{number}");
        waiting.spawn(async move {
            // Retried, as a client does: a connection that was opened late may be closed a little later.
            loop {
                let answer = get(address, &path).await;
                if answer.status != 503 {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }
    let health = reveille.line("health and metrics on").await;
    let health: SocketAddr = health.rsplit(' ').next().expect("an address").parse().expect("an address");
    let all = "reveille_wake_waiters{consumer=\"pop\"} 58\n";
    eventually(health, "/metrics", |answer| answer.body.contains(all)).await;
    assert_eq!(get(health, "/health").await.status, 200);
    assert_eq!(get(health, "/api/v1/resources/queues").await.status, 404);
    assert_eq!(get(address, "/health/live").await.status, 200);
    assert_refused(&get(address, "/api/v1/resources/queues").await, 503, "too many connections");
    assert!(waiting.try_join_next().is_none(), "no waiting client is closed for another");
}
