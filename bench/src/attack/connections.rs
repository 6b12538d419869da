//! Connections on which nothing is sent, or very slowly.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::raw;
use super::victim::Victim;
use crate::Result;

/// How long the connections stay open.
const HELD: Duration = Duration::from_secs(5);
/// How long a connection may take to be accepted by the kernel before the attacker gives up on it.
const CONNECT_WITHIN: Duration = Duration::from_millis(200);

/// Thousands of connections on which nothing is sent.
pub(super) async fn silent(victim: &Victim) -> Result<String> {
    let held = open(victim, 3_000).await;
    sleep(HELD).await;
    let honest = victim.ask("GET", "/health/live", b"").await?;
    Ok(format!("held {}; another request meanwhile: {}", held.len(), honest.status))
}

/// Headers that arrive one byte at a time.
pub(super) async fn slow_headers(victim: &Victim) -> Result<String> {
    let mut held = open(victim, 500).await;
    let head = raw::head(victim.address(), "GET", "/api/v1/resources/queues", &[], None);
    for byte in head.as_bytes().iter().take(50) {
        for stream in &mut held {
            let _ = stream.write_all(&[*byte]).await;
        }
        sleep(HELD / 50).await;
    }
    let honest = victim.ask("GET", "/api/v1/resources/queues", b"").await?;
    Ok(format!("held {}; another request meanwhile: {}", held.len(), honest.status))
}

async fn open(victim: &Victim, count: usize) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for _ in 0..count {
        if let Ok(Ok(stream)) = timeout(CONNECT_WITHIN, TcpStream::connect(victim.address())).await {
            held.push(stream);
        }
    }
    held
}
