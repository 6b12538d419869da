//! TLS handshakes, bounded in time and number.
//!
//! A handshake costs memory and a signature before the client has said who it is. At most [`AT_ONCE`] are in progress;
//! further connections wait unread. A client that sends nothing, or very slowly, must not keep others waiting: a
//! handshake has [`WITHIN`], and only [`SLOW_AFTER`] while others wait.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    sync::Semaphore,
    time::{Instant, sleep, timeout_at},
};
use tokio_rustls::server::TlsStream;

use super::{certificate, metrics, tls::Tls};

/// The most handshakes in progress. rustls keeps at most 64 kB of a message that is not complete: 64 MB together.
const AT_ONCE: usize = 1_000;

/// How long a handshake may take, including the time it waits for its turn.
const WITHIN: Duration = Duration::from_secs(10);

/// The same while others wait for their turn: several round trips on a slow link.
const SLOW_AFTER: Duration = Duration::from_secs(2);

/// The first byte of every TLS connection: the type of a handshake record.
const HANDSHAKE_RECORD: u8 = 22;

/// What a client gets that speaks HTTP without TLS.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 65\r\n\
    connection: close\r\n\r\n{\"error\":\"this address is served with TLS only: use https://...\"}";

/// The handshakes of one address.
#[derive(Clone)]
pub(super) struct Handshakes {
    tls: Tls,
    at_once: Arc<Semaphore>,
}

/// What is known about the other end of a connection. Every request has it as an extension.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Whether the connection is encrypted.
    pub secure: bool,
    /// The name in its certificate, which an accepted authority has signed; `None` if it sent none.
    pub certificate: Option<Arc<str>>,
}

impl Handshakes {
    pub(super) fn new(tls: Tls) -> Handshakes {
        Handshakes { tls, at_once: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Shakes hands. `None` if it failed, took too long, or the client does not speak TLS; then it has got an error.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub(super) async fn shake(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let deadline = Instant::now() + WITHIN;
        let _turn = timeout_at(deadline, self.at_once.acquire()).await.ok()?.ok()?;
        let result = tokio::select! {
            result = timeout_at(deadline, self.accept(stream)) => result,
            () = self.others_wait() => return failed("slow"),
        };
        match result {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                failed("refused")
            }
            Err(_) => failed("slow"),
        }
    }

    /// `None` if the client speaks HTTP without TLS.
    async fn accept(&self, mut stream: TcpStream) -> io::Result<Option<TlsStream<TcpStream>>> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE_RECORD {
            stream.write_all(PLAIN).await?;
            stream.shutdown().await?;
            return Ok(None);
        }
        self.tls.acceptor().accept(stream).await.map(Some)
    }

    /// Resolves when a handshake has taken [`SLOW_AFTER`] and others wait.
    async fn others_wait(&self) {
        loop {
            sleep(SLOW_AFTER).await;
            if self.at_once.available_permits() == 0 {
                return;
            }
        }
    }
}

fn failed<T>(reason: &'static str) -> Option<T> {
    metrics::handshake_failed(reason);
    None
}

/// The other end of an encrypted connection.
pub(super) fn peer(address: IpAddr, stream: &TlsStream<TcpStream>) -> Peer {
    let sent = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    Peer { address, secure: true, certificate: sent.and_then(certificate::name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length that is announced is that of the body.
    #[test]
    fn the_answer_without_tls_is_complete() {
        let text = std::str::from_utf8(PLAIN).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
        let parsed: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert!(parsed["error"].is_string());
    }
}
