//! A small HTTP/1.1 client.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

use crate::process::PATIENCE;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: String,
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Sends a request without a body on a connection of its own.
pub(crate) async fn request(address: SocketAddr, method: &str, path: &str) -> Answer {
    let text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let text = timeout(PATIENCE, exchange(address, &text)).await.expect("an answer in time").expect("an answer");
    parse(&text)
}

/// Sends a request with a body, and headers of its own, on a connection of its own.
pub(crate) async fn send(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
    try_send(address, method, path, headers, body).await.expect("an answer")
}

/// The same; `None` if the connection ended before there was an answer.
pub(crate) async fn try_send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &[u8],
) -> Option<Answer> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n").into_bytes();
    for header in headers {
        text.extend(format!("{header}\r\n").into_bytes());
    }
    text.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
    text.extend(body);
    let answer = timeout(PATIENCE, exchange(address, &text)).await.expect("an answer in time").ok()?;
    (!answer.is_empty()).then(|| parse(&answer))
}

/// `GET path`.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    request(address, "GET", path).await
}

/// Requests `path` until `wanted` accepts the response.
pub(crate) async fn eventually(address: SocketAddr, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = get(address, path).await;
        if wanted(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "never answered as wanted, at last {answer:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Waits until the address accepts connections.
#[allow(dead_code, reason = "for the tests of the console")]
pub(crate) async fn eventually_connected(address: SocketAddr) {
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(address).await.is_err() {
        assert!(Instant::now() < deadline, "nothing listens on {address}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Sends `text` and reads until the server closes.
pub(crate) async fn exchange(address: SocketAddr, text: impl AsRef<[u8]>) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(text.as_ref()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Parses a response with a plain body.
pub(crate) fn parse(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("not an answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer {
        status: status.unwrap_or_else(|| panic!("no status: {head}")),
        headers: head.to_lowercase(),
        body: body.to_owned(),
    }
}

/// Checks an error response: its status, and a part of its message.
pub(crate) fn assert_refused(answer: &Answer, status: u16, message: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(answer.headers.contains("content-type: application/json"), "{answer:?}");
    let error = answer.json()["error"].as_str().map(str::to_owned).unwrap_or_default();
    assert!(error.contains(message), "{message:?} is not in {error:?}");
}
