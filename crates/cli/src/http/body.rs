//! A request's body, with a bound on how long it may take to arrive.
//!
//! The size of a body is bounded where it is read; without a bound on time, a client that announces a body and sends nothing
//! holds its request for ever. A request whose body nobody reads is not affected: a long poll may wait as long as it likes.
//!
//! The bodies of all requests together are bounded, too ([`Room`]): many large ones at once are answered with "later" instead
//! of taking the memory of the process.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{Request, State},
    http::header,
    middleware::Next,
    response::Response,
};
use tokio::{
    sync::Semaphore,
    time::{Sleep, sleep},
};

use super::reply;

/// Bytes of bodies that all requests under way may have together: room for 25 of the largest, or for tens of thousands of
/// usual ones.
const ALL_BODIES_BYTES: usize = 256 * 1024 * 1024;

/// The memory that is left for bodies. Cheap to clone.
#[derive(Clone)]
pub(super) struct Room {
    left: Arc<Semaphore>,
    /// What one body takes at most.
    largest: u32,
}

impl Room {
    pub(super) fn new(max_body_bytes: usize) -> Self {
        let largest = max_body_bytes.min(ALL_BODIES_BYTES);
        let largest = u32::try_from(largest).expect("all bodies together are far below 4 GB");
        Self { left: Arc::new(Semaphore::new(ALL_BODIES_BYTES)), largest }
    }
}

/// Lets a request in if there is room for its body, which it keeps until it is answered: what was read of it lives on in the
/// product. A body that does not say how long it is, or will be when it is decompressed, counts as one of the largest.
pub(super) async fn admit(State(room): State<Room>, request: Request, next: Next) -> Response {
    let compressed = request.headers().contains_key(header::CONTENT_ENCODING);
    let said = request.body().size_hint().upper().filter(|_| !compressed);
    let bytes = said.and_then(|said| u32::try_from(said).ok()).map_or(room.largest, |said| said.min(room.largest));
    let Ok(_place) = room.left.try_acquire_many(bytes) else {
        return reply::later("too many large requests at once; try again");
    };
    next.run(request).await
}

/// How long a body may take from its headers to its end. The largest one then needs 170 kB/s.
const BODY_WITHIN: Duration = Duration::from_secs(60);

/// The client did not send its body in time.
#[derive(Debug, thiserror::Error)]
#[error("the body did not arrive within {} s", BODY_WITHIN.as_secs())]
struct Late;

/// Bounds the time of a request's body, if it has one.
pub(super) fn bound(request: Request) -> Request {
    if request.body().is_end_stream() {
        return request;
    }
    request.map(|inner| Body::new(Bounded { inner, deadline: Box::pin(sleep(BODY_WITHIN)) }))
}

struct Bounded {
    inner: Body,
    deadline: Pin<Box<Sleep>>,
}

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        ready!(self.deadline.as_mut().poll(cx));
        Poll::Ready(Some(Err(axum::Error::new(Late))))
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
    use axum::body::to_bytes;
    use tokio::time::Instant;

    use super::*;

    /// A body of which nothing ever arrives.
    struct Silent;

    impl HttpBody for Silent {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
            Poll::Pending
        }
    }

    /// A body that does not arrive ends in an error at the bound, and one that does is read whole.
    /// Time is paused, so that the bound passes at once.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_is_given_up() {
        let began = Instant::now();
        let silent = bound(Request::new(Body::new(Silent))).into_body();
        assert!(to_bytes(silent, usize::MAX).await.is_err());
        assert_eq!(began.elapsed(), BODY_WITHIN);

        let quick = bound(Request::new(Body::from("whole"))).into_body();
        assert_eq!(to_bytes(quick, usize::MAX).await.expect("read"), "whole");
    }
}
