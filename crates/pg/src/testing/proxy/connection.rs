//! One connection through the proxy.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Notify, oneshot};

use super::wire::{Progress, Replies, is_encryption_request, pretend_version};
use super::{Traffic, When};

/// How much is carried at a time.
const CHUNK: usize = 16 * 1024;

/// The state of one connection that others may change.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// No bytes are carried any more, and neither end learns of it.
    dead: AtomicBool,
    closing: Notify,
    /// Set when a request was sent to the server whose reply the client will not receive.
    withheld: Mutex<Option<oneshot::Sender<()>>>,
    replies: Mutex<Replies>,
}

impl Connection {
    /// Makes it half-open: both ends stay connected and hear nothing.
    pub(super) fn kill(&self) {
        self.dead.store(true, Ordering::Release);
    }

    /// Ends it for both ends.
    pub(super) fn close(&self) {
        self.closing.notify_one();
    }

    /// Carries bytes until one end closes, or it is cut.
    pub(super) async fn carry(&self, client: TcpStream, server: &(String, u16), traffic: &Traffic) {
        let _ = client.set_nodelay(true);
        let connecting = async {
            let (host, port) = server;
            if host.starts_with('/') {
                let server = UnixStream::connect(format!("{host}/.s.PGSQL.{port}")).await.ok()?;
                return Some(boxed(server.into_split()));
            }
            let server = TcpStream::connect((host.as_str(), *port)).await.ok()?;
            let _ = server.set_nodelay(true);
            Some(boxed(server.into_split()))
        };
        let server = tokio::select! {
            server = connecting => server,
            () = self.closing.notified() => None,
        };
        let Some(server) = server else { return };
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server);
        tokio::select! {
            () = self.requests(from_client, to_server, traffic) => {}
            () = self.replies(from_server, to_client, traffic) => {}
            () = self.closing.notified() => {}
        }
    }

    async fn requests(&self, mut client: OwnedReadHalf, mut server: Write, traffic: &Traffic) {
        let mut buffer = vec![0; CHUNK];
        // What was sent before, as far as a marker may begin in it.
        let mut before = Vec::new();
        let mut first = true;
        while let Ok(length @ 1..) = client.read(&mut buffer).await {
            let chunk = &buffer[..length];
            if self.dead.load(Ordering::Acquire) {
                continue;
            }
            if std::mem::take(&mut first) && is_encryption_request(chunk) {
                lock(&self.replies).expect_one_byte();
            }
            before.extend_from_slice(chunk);
            if let Some(armed) = traffic.take_armed(&before) {
                if armed.when == When::BeforeRequest {
                    let _ = armed.tell.send(());
                    return;
                }
                lock(&self.replies).watch();
                *lock(&self.withheld) = Some(armed.tell);
            }
            let keep = traffic.longest_marker().min(before.len());
            before.drain(..before.len() - keep);
            if server.write_all(chunk).await.is_err() {
                return;
            }
        }
    }

    async fn replies(&self, mut server: Read, mut client: OwnedWriteHalf, traffic: &Traffic) {
        let mut buffer = vec![0; CHUNK];
        // What the client does not hear until it is known whether it ever will.
        let mut held = Vec::new();
        while let Ok(length @ 1..) = server.read(&mut buffer).await {
            held.extend_from_slice(&buffer[..length]);
            let progress = lock(&self.replies).read(&buffer[..length]);
            if progress == Progress::Finished
                && let Some(tell) = lock(&self.withheld).take()
            {
                let _ = tell.send(());
                return;
            }
            if self.dead.load(Ordering::Acquire) {
                held.clear();
            } else if lock(&self.withheld).is_none() || progress == Progress::Prepared {
                if let Some(major) = traffic.pretended_version()
                    && !pretend_version(&mut held, major)
                {
                    continue;
                }
                if client.write_all(&held).await.is_err() {
                    return;
                }
                held.clear();
            }
        }
        // The end of a dead connection is not heard either: it stays open until the client gives up.
        if self.dead.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
    }
}

/// The two directions to a server, by TCP or by its socket.
type Read = Box<dyn AsyncRead + Send + Unpin>;
type Write = Box<dyn AsyncWrite + Send + Unpin>;

fn boxed(
    (read, write): (impl AsyncRead + Send + Unpin + 'static, impl AsyncWrite + Send + Unpin + 'static),
) -> (Read, Write) {
    (Box::new(read), Box::new(write))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
