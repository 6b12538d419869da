//! Requests that are meant to exhaust the server. The attacks that need many megabytes or minutes are in `bench/src/attack`.

use std::{io::Write as _, net::SocketAddr};

use flate2::{Compression, write::GzEncoder};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{
    http::{exchange, get, parse, send},
    process::PATIENCE,
    queue::fixture::Server,
};

/// A bound with a wide margin: the process itself has a few dozen megabytes, docs/security.md promises less than 1 GB.
const RESIDENT_MAX: u64 = 768 << 20;

/// A body of `bytes` zeros that takes a thousandth of that on its way.
fn inflating(bytes: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![b' '; 1 << 20];
    for _ in 0..bytes >> 20 {
        encoder.write_all(&zeros).expect("memory");
    }
    encoder.finish().expect("memory")
}

/// Asks for a response and reads only its beginning; the connection stays open.
async fn half_read(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut beginning = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut beginning)).await.expect("in time").expect("an answer");
    stream
}

/// Bodies that inflate, headers without end, and clients that do not read large responses must be bounded in memory,
/// and health must be answered meanwhile.
#[tokio::test]
async fn requests_do_not_exhaust_memory() {
    let server = Server::start().await;
    let address = server.address;
    let bomb = inflating(256 << 20);
    let headers = ["content-type: application/json", "content-encoding: gzip"];
    let push = || send(address, "POST", "/api/v1/push", &headers, &bomb);
    let (a, b, c, d) = tokio::join!(push(), push(), push(), push());
    for answer in [a, b, c, d] {
        assert!(matches!(answer.status, 413 | 503), "{answer:?}");
    }

    for head in [
        format!("GET /health HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "a".repeat(64 * 1024)),
        format!("GET /health HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: a\r\n".repeat(101)),
        format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(128 * 1024)),
    ] {
        // A server that closes the connection while the client still sends may reset it.
        if let Ok(answer) = exchange(address, &head).await
            && !answer.is_empty()
        {
            assert!(matches!(parse(&answer).status, 400 | 414 | 431), "{answer}");
        }
    }

    let payload = "x".repeat(1 << 20);
    for _ in 0..8 {
        let push = json!({"items": [{"queue": "large", "payload": payload}]});
        assert_eq!(server.post("push", &push).await.status, 201);
    }
    let mut unread = Vec::new();
    for _ in 0..60 {
        unread.push(half_read(address, "/api/v1/messages?queue=large&limit=8").await);
    }
    assert_eq!(get(address, "/health/live").await.status, 200);
    let peak = server.reveille.peak().unwrap_or(0);
    assert!(peak < RESIDENT_MAX, "{} MB", peak >> 20);
}
