//! A client that keeps its connection open and fails over to another server.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::Answer;
use crate::process::PATIENCE;

/// The longest wait of a pop or a claim here.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// How long a request may take: such a wait and the usual limit.
const ANSWERED_WITHIN: Duration = LONGEST_WAIT.saturating_add(PATIENCE);

/// A client on one connection at a time.
pub(crate) struct FailoverClient {
    /// What every path begins with.
    base: &'static str,
    servers: Vec<SocketAddr>,
    at: usize,
    sender: Option<SendRequest<Full<Bytes>>>,
    /// The last response that counted as a failure.
    last_failure: Option<Answer>,
}

impl FailoverClient {
    /// A client that starts with this server, and goes to the next when one does not answer.
    pub(crate) fn new(base: &'static str, servers: &[SocketAddr], first: usize) -> FailoverClient {
        FailoverClient { base, servers: servers.to_vec(), at: first % servers.len(), sender: None, last_failure: None }
    }

    /// Sends a request. `None` if it was not answered or with a server error; the next request then goes to the next
    /// server.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> Option<Answer> {
        let asked = timeout(ANSWERED_WITHIN, self.exchange(method, path, body)).await;
        let answer = asked.unwrap_or_else(|_| panic!("{method} {path}: no answer within {ANSWERED_WITHIN:?}"));
        if answer.as_ref().is_some_and(|answer| answer.status < 500) {
            return answer;
        }
        self.last_failure = answer;
        self.sender = None;
        self.at = (self.at + 1) % self.servers.len();
        None
    }

    /// The response of the last failed request; `None` if the connection broke.
    pub(crate) fn last_failure(&self) -> Option<&Answer> {
        self.last_failure.as_ref()
    }

    async fn exchange(&mut self, method: &str, path: &str, body: Option<&Value>) -> Option<Answer> {
        let mut kept = self.sender.take();
        if let Some(sender) = &mut kept
            && sender.ready().await.is_err()
        {
            kept = None;
        }
        let mut sender = match kept {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        let request =
            Request::builder().method(method).uri(format!("{}/{path}", self.base)).header("host", "localhost");
        let (request, bytes) = match body {
            Some(body) => (request.header("content-type", "application/json"), Bytes::from(body.to_string())),
            None => (request, Bytes::new()),
        };
        let response = sender.send_request(request.body(Full::new(bytes)).expect("a request")).await.ok()?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        self.sender = Some(sender);
        Some(Answer { status, headers: String::new(), body: String::from_utf8_lossy(&body).into_owned() })
    }

    async fn connect(&self) -> Option<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.servers[self.at]).await.ok()?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        Some(sender)
    }
}
