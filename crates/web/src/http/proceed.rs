//! Passing a request on to the layers below a middleware.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use tower::Service as _;

/// The response of the layers below, once it is there.
pub struct Below(Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>);

/// Passes a request on.
///
/// The same as [`Next::run`] with less memory: that is a future of about a kilobyte, which a middleware holds for as
/// long as the request waits, twice if it is moved into another future. Thousands of requests wait in ten layers.
pub fn proceed(mut next: Next, request: Request) -> Below {
    Below(next.call(request))
}

impl Future for Below {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        self.0.as_mut().poll(context).map(|answered| match answered {
            Ok(response) => response,
            Err(never) => match never {},
        })
    }
}
