//! HTTP requests that are sent as they are, without checks of an HTTP library.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::Result;

/// How long to wait for a response.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A response.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// Bytes that arrived, headers included.
    pub(super) bytes: usize,
}

impl Answer {
    /// Status and the beginning of the text, for the report.
    pub(super) fn brief(&self) -> String {
        let text: String = String::from_utf8_lossy(&self.body).chars().take(120).collect();
        format!("{} {text}", self.status)
    }
}

/// The head of a request.
pub(super) fn head(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    length: Option<usize>,
) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        head += &format!("host: {address}\r\n");
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if let Some(length) = length {
        head += &format!("content-length: {length}\r\n");
    }
    head + "connection: close\r\n\r\n"
}

/// Sends a request on a new connection and reads the whole response.
pub(super) async fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<Answer> {
    let length = (!body.is_empty() || method != "GET").then_some(body.len());
    let head = head(address, method, path, headers, length);
    let mut stream = TcpStream::connect(address).await?;
    let answered = timeout(ANSWER_WITHIN, async {
        stream.write_all(head.as_bytes()).await?;
        // A server that rejects a body need not read it: then writing fails, and the response can be read.
        let _ = stream.write_all(body).await;
        answer(&mut stream).await
    });
    answered.await.map_err(|_| "no response in time")?
}

/// Reads a response that ends when the connection is closed.
pub(super) async fn answer(stream: &mut TcpStream) -> Result<Answer> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut piece).await {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
            // The connection broke after the response, which has been read.
            Err(_) if !bytes.is_empty() => break,
            Err(error) => return Err(error.into()),
        }
    }
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").ok_or("a response without a head")?;
    let status = std::str::from_utf8(&bytes[..end])?.split(' ').nth(1).ok_or("a response without a status")?.parse()?;
    let length = bytes.len();
    Ok(Answer { status, body: bytes.split_off(end + 4), bytes: length })
}

/// Counts the outcomes of concurrent requests: `201×990, 503×10`.
pub(super) async fn tally(mut requests: JoinSet<Result<u16>>) -> String {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    while let Some(request) = requests.join_next().await {
        let outcome = match request {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(_)) | Err(_) => "cut".to_owned(),
        };
        *counts.entry(outcome).or_default() += 1;
    }
    counts.iter().map(|(outcome, count)| format!("{outcome}×{count}")).collect::<Vec<_>>().join(", ")
}
