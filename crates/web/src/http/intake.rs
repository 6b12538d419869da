//! Reads a request body: charged as it arrives, bounded in size and time.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::StatusCode;
use tokio::time::{Instant, timeout_at};

use super::error::ApiError;
use super::memory::{Memory, Transfer};

/// How long a body may take from its headers to its end. The largest body then needs 170 kB/s.
const BODY_WITHIN: Duration = Duration::from_secs(60);

/// How long the rest of a body that is too large is read and dropped before the response. A connection that is closed
/// while its client still sends is reset, and the client may lose the response.
const DISCARD_WITHIN: Duration = Duration::from_secs(2);

/// Bytes of a body that are not charged: a connection takes as much anyway.
const UNCHARGED_BYTES: usize = 4 * 1024;

/// A compressed body is charged this many times its size: the decompressor keeps a window of its output.
const COMPRESSED_TIMES: usize = 2;

/// Marks a request with a compressed body: the decompression layer removes the header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compressed;

/// Reads a body to its end. Its memory stays charged until the [`Transfer`] is dropped. `reject` is called at the first
/// byte and can reject a body that is not empty.
///
/// # Errors
/// If the body is too large, too slow or incomplete, or if there is no memory for it.
pub(crate) async fn read(
    mut body: Body,
    memory: &Memory,
    compressed: bool,
    reject: impl Fn() -> Option<ApiError>,
) -> Result<(Vec<u8>, Transfer), ApiError> {
    let (deadline, max) = (Instant::now() + BODY_WITHIN, memory.max_body_bytes());
    if body.size_hint().lower() > max as u64 {
        discard(body, max).await;
        return Err(too_large(max));
    }
    let times = if compressed { COMPRESSED_TIMES } else { 1 };
    let (mut transfer, mut bytes) = (memory.transfer(), Vec::new());
    loop {
        let next = timeout_at(deadline, poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)));
        let frame = tokio::select! {
            biased;
            frame = next => frame.map_err(|_| late())?,
            () = transfer.aborted() => return Err(slow()),
        };
        let Some(frame) = frame else {
            transfer.complete();
            return Ok((bytes, transfer));
        };
        let frame = frame.map_err(|error| ApiError::bad_request(format!("incomplete body: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.is_empty()
            && !data.is_empty()
            && let Some(error) = reject()
        {
            return Err(error);
        }
        let needed = bytes.len() + data.len();
        if needed > max {
            drop((bytes, transfer));
            discard(body, max).await;
            return Err(too_large(max));
        }
        if needed > bytes.capacity() {
            // A body that arrives in one piece takes exactly its size; others grow by doubling.
            let capacity = if bytes.is_empty() { needed } else { needed.max(bytes.capacity() * 2).min(max) };
            let uncharged = bytes.capacity().max(UNCHARGED_BYTES);
            if capacity > uncharged {
                transfer.charge((capacity - uncharged) * times).await?;
            }
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(&data);
        transfer.progress(data.len());
    }
}

/// Reads and drops the rest of a body: at most twice the limit, and for at most [`DISCARD_WITHIN`].
async fn discard(mut body: Body, max: usize) {
    let deadline = Instant::now() + DISCARD_WITHIN;
    let mut left = max.saturating_mul(2);
    while let Ok(Some(Ok(frame))) = timeout_at(deadline, poll_fn(|cx| Pin::new(&mut body).poll_frame(cx))).await {
        let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, |data| data.len())) else { return };
        left = rest;
    }
}

fn too_large(max: usize) -> ApiError {
    let message = format!("the body is too large: at most {max} bytes are allowed");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

fn late() -> ApiError {
    let message = format!("the body did not arrive within {} s", BODY_WITHIN.as_secs());
    ApiError::new(StatusCode::REQUEST_TIMEOUT, message)
}

fn slow() -> ApiError {
    ApiError::unavailable("the body arrived too slowly while memory was short; retry on another connection")
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use axum::body::{Bytes, HttpBody};
    use axum::response::IntoResponse as _;

    use super::*;

    /// A body that yields some bytes and then stalls.
    struct Stalled(Option<Bytes>);

    impl HttpBody for Stalled {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
            self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(hyper::body::Frame::data(bytes)))))
        }
    }

    fn stalled(bytes: usize) -> Body {
        Body::new(Stalled(Some(vec![b' '; bytes].into())))
    }

    async fn status(body: Body, memory: &Memory) -> u16 {
        match read(body, memory, false, || None).await {
            Ok(_) => 200,
            Err(error) => error.into_response().status().as_u16(),
        }
    }

    /// A body that does not arrive ends in 408 after [`BODY_WITHIN`]; one that arrives is read to its end.
    /// Time is paused, so that the time passes at once.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_times_out() {
        let memory = Memory::new(1 << 20);
        let began = Instant::now();
        assert_eq!(status(Body::new(Stalled(None)), &memory).await, 408);
        assert_eq!(began.elapsed(), BODY_WITHIN);
        let (bytes, _) = read(Body::from("whole"), &memory, false, || None).await.expect("read");
        assert_eq!(bytes, b"whole");
    }

    /// A body of exactly the limit is accepted; one byte more is rejected, with or without a content length, even if
    /// the body does not end. Time is paused, so that the rest of a body that does not end is dropped at once.
    #[tokio::test(start_paused = true)]
    async fn a_body_larger_than_the_limit_is_rejected() {
        let memory = Memory::new(1_000);
        for (bytes, expected) in [(1_000, 200), (1_001, 413)] {
            assert_eq!(status(Body::from("x".repeat(bytes)), &memory).await, expected);
        }
        assert_eq!(status(stalled(1_001), &memory).await, 413);
    }

    /// Stalled bodies must not block others: when memory is short, they are aborted.
    /// Time is paused; stalled bodies take all memory, then another one arrives.
    #[tokio::test(start_paused = true)]
    async fn stalled_bodies_are_aborted_when_memory_is_short() {
        let memory = Memory::new(10 << 20);
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let memory = memory.clone();
            waiting.spawn(async move { status(stalled(10 << 20), &memory).await });
        }
        // The transfers without memory wait for it; by then the others count as slow.
        let mut ended = Vec::new();
        while ended.len() < 8 {
            ended.push(waiting.join_next().await.expect("some are left").expect("no panic"));
        }
        assert!(ended.iter().all(|status| *status == 503), "{ended:?}");
        tokio::time::sleep(Duration::from_secs(12)).await;
        assert_eq!(status(Body::from("x".repeat(10 << 20)), &memory).await, 200);
    }

    /// A body of which nothing arrives takes no memory: a thousand of the largest leave all of it to others.
    #[tokio::test]
    async fn an_announced_body_takes_no_memory() {
        let memory = Memory::new(10 << 20);
        let mut silent = tokio::task::JoinSet::new();
        for _ in 0..1_000 {
            let memory = memory.clone();
            silent.spawn(async move { status(Body::new(Stalled(None)), &memory).await });
        }
        tokio::task::yield_now().await;
        for _ in 0..30 {
            assert_eq!(status(Body::from("x".repeat(10 << 20)), &memory).await, 200);
        }
        assert!(silent.try_join_next().is_none(), "no body was aborted");
    }
}
