//! The memory of unread that wait to be read.
//!
//! A client that asks for much and reads nothing holds its answer in the memory of the server until its connection is given up. Unread
//! are bounded together ([`UNREAD_BYTES`]): beyond it those that have waited longest are dropped with their connections, and until that
//! has made room no further request is let in. An answer is counted until its last byte is handed to the kernel.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::ApiError;

/// Bytes of unread that wait to be read, all together.
const UNREAD_BYTES: usize = 256 << 20;

/// A smaller answer is not counted: a connection takes as much anyway.
const COUNTED_FROM: u64 = 64 * 1024;

/// An answer that has waited for less is not dropped: it may be on the way.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// Ends the connection of a request. The server puts one into the extensions of each request.
#[derive(Clone, Debug, Default)]
pub struct Hangup(Arc<Notify>);

impl Hangup {
    /// Ends the connection.
    pub fn hang_up(&self) {
        self.0.notify_one();
    }

    /// Resolves when the connection is to be ended.
    pub async fn requested(&self) {
        self.0.notified().await;
    }
}

/// All unread that wait to be read. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unread(Arc<Mutex<All>>);

/// As many as connections at most.
#[derive(Debug, Default)]
struct All {
    next: u64,
    bytes: usize,
    /// In the order in which they began to wait.
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    bytes: usize,
    hangup: Hangup,
}

impl Unread {
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an answer until what is returned is dropped.
    fn count(&self, bytes: usize, hangup: Hangup) -> Held {
        let mut all = self.all();
        all.next += 1;
        let id = all.next;
        all.bytes += bytes;
        all.waiting.insert(id, Waiting { since: Instant::now(), bytes, hangup });
        Held { unread: self.clone(), id }
    }

    /// Whether there is room for further unread, after those that have waited for too long were dropped.
    fn has_room(&self) -> bool {
        let all = self.all();
        let mut beyond = all.bytes.saturating_sub(UNREAD_BYTES);
        let has_room = beyond == 0;
        for waiting in all.waiting.values().take_while(|waiting| waiting.since.elapsed() >= READ_WITHIN) {
            if beyond == 0 {
                break;
            }
            // It stays counted until its connection has let go of it.
            waiting.hangup.hang_up();
            beyond = beyond.saturating_sub(waiting.bytes);
        }
        has_room
    }
}

/// An answer that is counted.
#[derive(Debug)]
struct Held {
    unread: Unread,
    id: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut all = self.unread.all();
        if let Some(waiting) = all.waiting.remove(&self.id) {
            all.bytes -= waiting.bytes;
        }
    }
}

/// Lets a request in if there is room for its answer, and counts that.
pub(crate) async fn bound(State(unread): State<Unread>, request: Request, next: Next) -> Response {
    if !unread.has_room() {
        return ApiError::unavailable("too many unread wait to be read; try again with this connection")
            .into_response();
    }
    let hangup = request.extensions().get::<Hangup>().cloned().unwrap_or_default();
    let response = next.run(request).await;
    match response.body().size_hint().exact() {
        Some(bytes) if bytes >= COUNTED_FROM => {
            let held = Arc::new(unread.count(usize::try_from(bytes).unwrap_or(usize::MAX), hangup));
            response.map(|inner| Body::new(Counted { inner, held }))
        }
        _ => response,
    }
}

/// The body of an answer that is counted.
struct Counted {
    inner: Body,
    held: Arc<Held>,
}

/// A part of it, which counts as long as it is anywhere.
struct Part {
    bytes: Bytes,
    _held: Arc<Held>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        let held = Arc::clone(&self.held);
        let part = |bytes: Bytes| Bytes::from_owner(Part { bytes, _held: held });
        Pin::new(&mut self.inner).poll_frame(cx).map_ok(|frame| frame.map_data(part))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn asked_to_hang_up(hangup: &Hangup) -> bool {
        tokio::time::timeout(Duration::from_millis(1), hangup.requested()).await.is_ok()
    }

    /// Beyond the bound the unread that have waited longest are dropped, as many as it takes, and requests are let in again when they are gone.
    /// Time is paused and moved by hand.
    #[tokio::test(start_paused = true)]
    async fn the_longest_unread_answers_are_dropped() {
        let unread = Unread::default();
        let hangups: Vec<Hangup> = (0..5).map(|_| Hangup::default()).collect();
        let mut held = Vec::new();
        for hangup in &hangups {
            held.push(unread.count(UNREAD_BYTES / 4 + 1, hangup.clone()));
        }
        assert!(!unread.has_room());
        for hangup in &hangups {
            assert!(!asked_to_hang_up(hangup).await, "it may be on the way");
        }
        tokio::time::advance(READ_WITHIN).await;
        assert!(!unread.has_room());
        for (index, hangup) in hangups.iter().enumerate() {
            assert_eq!(asked_to_hang_up(hangup).await, index < 2, "{index}");
        }
        held.drain(..2);
        assert!(unread.has_room());
        held.clear();
        assert_eq!(unread.all().bytes, 0);
    }

    /// An answer counts until its last byte is gone, also when its body is not there any more.
    #[tokio::test]
    async fn an_answer_counts_until_its_bytes_are_gone() {
        let unread = Unread::default();
        let held = Arc::new(unread.count(5, Hangup::default()));
        let mut body = Counted { inner: Body::from("hello"), held };
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let bytes = frame.expect("a frame").expect("no error").into_data().expect("data");
        drop(body);
        assert_eq!((&bytes[..], unread.all().bytes), (&b"hello"[..], 5));
        drop(bytes);
        assert_eq!(unread.all().bytes, 0);
    }
}
