//! An HTTP connection to `reveille serve`, as existing clients use it.

use std::net::SocketAddr;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::Result;

/// A connection. Closed when dropped.
pub(crate) struct Connection {
    host: SocketAddr,
    requests: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(host: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        let (requests, driver) = handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(async move {
            // A request in progress returns the error.
            let _ = driver.await;
        });
        Ok(Connection { host, requests, driver })
    }

    /// Sends a request and returns the body of the response; `None`: no content.
    pub(crate) async fn ask(&mut self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Option<Bytes>> {
        let request = Request::builder().method(method).uri(path).header("host", self.host.to_string());
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(Full::new(body.into()))?,
            None => request.body(Full::default())?,
        };
        self.requests.ready().await?;
        let response = self.requests.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        match status {
            StatusCode::NO_CONTENT => Ok(None),
            status if status.is_success() => Ok(Some(body)),
            status => Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&body)).into()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
