//! Reading a body: charged as it arrives, bounded in size and time.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::http::StatusCode;
use tokio::time::{Instant, timeout_at};

use crate::error::ApiError;
use crate::memory::{Arrival, Memory};

/// How long a body may take from its headers to its end. The largest one then needs 170 kB/s.
const BODY_WITHIN: Duration = Duration::from_secs(60);

/// How long the rest of a body that is too large is read and dropped before it is refused. A connection that closes while
/// its client still sends is reset, and the client may lose the answer.
const DISCARD_WITHIN: Duration = Duration::from_secs(2);

/// What a body holds without being charged: no more than a connection takes anyway.
const UNCHARGED_BYTES: usize = 4 * 1024;

/// A body that was compressed is charged twice: decompression keeps what it may refer back to.
const COMPRESSED_TIMES: usize = 2;

/// Says that a body is compressed. The header that says so is gone when a body is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compressed;

/// Reads a body to its end; what it holds is given back with the [`Arrival`]. `refuse` is asked once there is a first byte.
///
/// # Errors
/// If it is too large, too late, broken off, or if there is no memory for it.
pub(crate) async fn read(
    mut body: Body,
    memory: &Memory,
    compressed: bool,
    refuse: impl Fn() -> Option<ApiError>,
) -> Result<(Vec<u8>, Arrival), ApiError> {
    let (deadline, most) = (Instant::now() + BODY_WITHIN, memory.max_body_bytes());
    if body.size_hint().lower() > most as u64 {
        discard(body, most).await;
        return Err(too_large(most));
    }
    let times = if compressed { COMPRESSED_TIMES } else { 1 };
    let (mut arrival, mut bytes) = (memory.arrival(), Vec::new());
    loop {
        let next = timeout_at(deadline, poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)));
        let frame = tokio::select! {
            biased;
            frame = next => frame.map_err(|_| late())?,
            () = arrival.given_up() => return Err(slow()),
        };
        let Some(frame) = frame else {
            arrival.is_whole();
            return Ok((bytes, arrival));
        };
        let frame = frame.map_err(|error| ApiError::bad_request(format!("the body did not arrive whole: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.is_empty()
            && !data.is_empty()
            && let Some(refusal) = refuse()
        {
            return Err(refusal);
        }
        let needed = bytes.len() + data.len();
        if needed > most {
            drop((bytes, arrival));
            discard(body, most).await;
            return Err(too_large(most));
        }
        if needed > bytes.capacity() {
            // A body that arrives at once takes what it needs, any other grows by doubling.
            let capacity = if bytes.is_empty() { needed } else { needed.max(bytes.capacity() * 2).min(most) };
            let uncharged = bytes.capacity().max(UNCHARGED_BYTES);
            if capacity > uncharged {
                arrival.charge((capacity - uncharged) * times).await?;
            }
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(&data);
        arrival.progress(data.len());
    }
}

/// Reads a body to its end and keeps nothing of it: at most twice the limit, and for at most two seconds.
async fn discard(mut body: Body, most: usize) {
    let deadline = Instant::now() + DISCARD_WITHIN;
    let mut left = most.saturating_mul(2);
    while let Ok(Some(Ok(frame))) = timeout_at(deadline, poll_fn(|cx| Pin::new(&mut body).poll_frame(cx))).await {
        let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, |data| data.len())) else { return };
        left = rest;
    }
}

fn too_large(most: usize) -> ApiError {
    let message = format!("the body is larger than this server takes: at most {most} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

fn late() -> ApiError {
    let message = format!("the body did not arrive within {} s", BODY_WITHIN.as_secs());
    ApiError::new(StatusCode::REQUEST_TIMEOUT, message)
}

fn slow() -> ApiError {
    ApiError::unavailable("the body arrived slowly while memory was short; try again with another connection")
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use axum::body::{Bytes, HttpBody};
    use axum::response::IntoResponse as _;

    use super::*;

    /// A body that sends some bytes and then never anything more.
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
            Err(refusal) => refusal.into_response().status().as_u16(),
        }
    }

    /// A body that does not arrive ends in 408 at the bound, and one that does is read whole.
    /// Time is paused, so that the bound passes at once.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_is_given_up() {
        let memory = Memory::new(1 << 20);
        let began = Instant::now();
        assert_eq!(status(Body::new(Stalled(None)), &memory).await, 408);
        assert_eq!(began.elapsed(), BODY_WITHIN);
        let (bytes, _) = read(Body::from("whole"), &memory, false, || None).await.expect("read");
        assert_eq!(bytes, b"whole");
    }

    /// The limit itself is read, a byte more is refused, whether it was announced or not, and whether it ends or not.
    /// Time is paused, so that the rest of a body that does not end is given up at once.
    #[tokio::test(start_paused = true)]
    async fn a_body_larger_than_the_limit_is_refused() {
        let memory = Memory::new(1_000);
        for (bytes, expected) in [(1_000, 200), (1_001, 413)] {
            assert_eq!(status(Body::from("x".repeat(bytes)), &memory).await, expected);
        }
        assert_eq!(status(stalled(1_001), &memory).await, 413);
    }

    /// Senders that stop in the middle of their bodies must not keep others out: when there is no room, they are given up.
    /// Time is paused; bodies that stall take all the room, then another one arrives.
    #[tokio::test(start_paused = true)]
    async fn stalled_senders_are_given_up_when_memory_is_short() {
        let memory = Memory::new(10 << 20);
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let memory = memory.clone();
            waiting.spawn(async move { status(stalled(10 << 20), &memory).await });
        }
        // Those that find no room wait for it, and by then the others count as slow.
        let mut ended = Vec::new();
        while ended.len() < 8 {
            ended.push(waiting.join_next().await.expect("some are left").expect("no panic"));
        }
        assert!(ended.iter().all(|status| *status == 503), "{ended:?}");
        tokio::time::sleep(Duration::from_secs(12)).await;
        assert_eq!(status(Body::from("x".repeat(10 << 20)), &memory).await, 200);
    }

    /// A body of which nothing arrives holds nothing: a thousand of the largest leave all the room to others.
    #[tokio::test]
    async fn a_body_that_is_announced_holds_nothing() {
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
        assert!(silent.try_join_next().is_none(), "no sender was given up");
    }
}
