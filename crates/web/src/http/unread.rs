//! The memory of responses that wait to be read.
//!
//! A client that requests much and reads nothing keeps its response in the server's memory until its connection is
//! closed. The total of such responses is bounded ([`UNREAD_BYTES`]): above it the connections with the oldest unread
//! responses are closed, and until that has freed enough memory, further requests are rejected. A response counts until
//! its last byte has been passed to the kernel.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::error::ApiError;
use super::proceed::proceed;

/// Bound on the bytes of all unread responses together.
const UNREAD_BYTES: usize = 256 << 20;

/// Smaller responses are not counted: a connection takes as much anyway.
const COUNTED_FROM: u64 = 64 * 1024;

/// A younger response is not dropped: it may still be in transfer.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// Closes the connection of a request. The server puts one into the extensions of each request.
#[derive(Clone, Debug, Default)]
pub struct Hangup(Arc<Notify>);

impl Hangup {
    /// Closes the connection.
    pub fn hang_up(&self) {
        self.0.notify_one();
    }

    /// Resolves when the connection has to be closed.
    pub async fn requested(&self) {
        self.0.notified().await;
    }
}

/// All unread responses. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unread(Arc<Mutex<Responses>>);

/// At most one per connection.
#[derive(Debug, Default)]
struct Responses {
    next_id: u64,
    bytes: usize,
    /// Ids ascend, so the oldest response is first.
    by_id: BTreeMap<u64, UnreadResponse>,
}

#[derive(Debug)]
struct UnreadResponse {
    since: Instant,
    bytes: usize,
    hangup: Hangup,
}

impl Unread {
    /// Counts a response until the returned guard is dropped.
    fn count(&self, bytes: usize, hangup: Hangup) -> CountGuard {
        let mut responses = self.0.lock();
        responses.next_id += 1;
        let id = responses.next_id;
        responses.bytes += bytes;
        responses.by_id.insert(id, UnreadResponse { since: Instant::now(), bytes, hangup });
        CountGuard { unread: self.clone(), id }
    }

    /// Whether further responses fit. If not, closes the connections with the oldest ones.
    fn has_room(&self) -> bool {
        let responses = self.0.lock();
        let mut excess = responses.bytes.saturating_sub(UNREAD_BYTES);
        let has_room = excess == 0;
        for response in responses.by_id.values().take_while(|response| response.since.elapsed() >= READ_WITHIN) {
            if excess == 0 {
                break;
            }
            // It stays counted until its connection has dropped it.
            response.hangup.hang_up();
            excess = excess.saturating_sub(response.bytes);
        }
        has_room
    }
}

/// Counts one response until it is dropped.
#[derive(Debug)]
struct CountGuard {
    unread: Unread,
    id: u64,
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        let mut responses = self.unread.0.lock();
        if let Some(response) = responses.by_id.remove(&self.id) {
            responses.bytes -= response.bytes;
        }
    }
}

/// Rejects a request if its response would not fit; otherwise counts the response.
pub(crate) async fn bound(State(unread): State<Unread>, request: Request, next: Next) -> Response {
    if !unread.has_room() {
        let message = "too many responses are waiting to be read by their clients; retry on this connection";
        return ApiError::unavailable(message).into_response();
    }
    let hangup = request.extensions().get::<Hangup>().cloned().unwrap_or_default();
    let response = proceed(next, request).await;
    match response.body().size_hint().exact() {
        Some(bytes) if bytes >= COUNTED_FROM => {
            let guard = Arc::new(unread.count(usize::try_from(bytes).unwrap_or(usize::MAX), hangup));
            response.map(|inner| Body::new(CountedBody { inner, guard }))
        }
        _ => response,
    }
}

/// The body of a counted response.
struct CountedBody {
    inner: Body,
    guard: Arc<CountGuard>,
}

/// A chunk of it. It keeps the response counted until the chunk itself is dropped.
struct Chunk {
    bytes: Bytes,
    _guard: Arc<CountGuard>,
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        let guard = Arc::clone(&self.guard);
        let chunk = |bytes: Bytes| Bytes::from_owner(Chunk { bytes, _guard: guard });
        Pin::new(&mut self.inner).poll_frame(cx).map_ok(|frame| frame.map_data(chunk))
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

    /// Above the bound the oldest responses are dropped, as many as needed, and requests are accepted again once they
    /// are gone. Time is paused and advanced explicitly.
    #[tokio::test(start_paused = true)]
    async fn the_oldest_unread_responses_are_dropped() {
        let unread = Unread::default();
        let hangups: Vec<Hangup> = (0..5).map(|_| Hangup::default()).collect();
        let mut guards = Vec::new();
        for hangup in &hangups {
            guards.push(unread.count(UNREAD_BYTES / 4 + 1, hangup.clone()));
        }
        assert!(!unread.has_room());
        for hangup in &hangups {
            assert!(!asked_to_hang_up(hangup).await, "it may be in transfer");
        }
        tokio::time::advance(READ_WITHIN).await;
        assert!(!unread.has_room());
        for (index, hangup) in hangups.iter().enumerate() {
            assert_eq!(asked_to_hang_up(hangup).await, index < 2, "{index}");
        }
        guards.drain(..2);
        assert!(unread.has_room());
        guards.clear();
        assert_eq!(unread.0.lock().bytes, 0);
    }

    /// A response counts until its last byte is dropped, even if its body was dropped earlier.
    #[tokio::test]
    async fn a_response_counts_until_its_bytes_are_dropped() {
        let unread = Unread::default();
        let guard = Arc::new(unread.count(5, Hangup::default()));
        let mut body = CountedBody { inner: Body::from("hello"), guard };
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let bytes = frame.expect("a frame").expect("no error").into_data().expect("data");
        drop(body);
        assert_eq!((&bytes[..], unread.0.lock().bytes), (&b"hello"[..], 5));
        drop(bytes);
        assert_eq!(unread.0.lock().bytes, 0);
    }
}
