//! How many requests of one client may be in progress.
//!
//! Waiting requests cost memory, and the server accepts a bounded number of them. Without a bound per client, one
//! broken program could take all, whatever addresses it comes from. Requests with the same credentials are those of one client.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use reveille_web::{Credentials, Principal};

type Client = (Credentials, String);

/// The requests in progress by client. Cheap to clone.
#[derive(Clone, Debug)]
pub struct InProgress {
    max: usize,
    clients: Arc<Mutex<HashMap<Client, usize>>>,
}

/// The default limit of one client: half of all connections.
pub const REQUESTS_PER_CLIENT: usize = super::MAX_CONNECTIONS / 2;

impl Default for InProgress {
    fn default() -> Self {
        InProgress::new(REQUESTS_PER_CLIENT)
    }
}

impl InProgress {
    /// At most `max` requests per client.
    pub fn new(max: usize) -> InProgress {
        InProgress { max, clients: Arc::default() }
    }

    /// The limit.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// Counts a request until the returned value is dropped. `None`: the client has too many. Requests without
    /// credentials are not counted here; connections bound them.
    pub(super) fn begin(&self, principal: &Principal) -> Option<Counted> {
        if matches!(principal.credentials(), Credentials::Open | Credentials::Missing) {
            return Some(Counted(None));
        }
        let client = (principal.credentials(), principal.name().to_owned());
        let mut clients = self.clients.lock();
        let count = clients.entry(client.clone()).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(Counted(Some((self.clone(), client))))
    }
}

/// A counted request.
pub(super) struct Counted(Option<(InProgress, Client)>);

impl Counted {
    /// Counts until the response has been read or dropped.
    pub(super) fn until_read(self, body: Body) -> Body {
        match self.0 {
            None => body,
            Some(_) => Body::new(CountedBody { body, _counted: self }),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some((in_progress, client)) = self.0.take() else { return };
        let mut clients = in_progress.clients.lock();
        if let Some(count) = clients.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&client);
            }
        }
    }
}

struct CountedBody {
    body: Body,
    _counted: Counted,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client has its number of requests; the end of one makes room, whatever others do, and nothing is kept.
    #[test]
    fn requests_of_a_client_are_bounded() {
        let in_progress = InProgress::new(2);
        let client = |name: &str| Principal::new(name, Credentials::Token, Vec::new(), false);
        let (one, two) = (in_progress.begin(&client("ann")), in_progress.begin(&client("ann")));
        assert!(one.is_some() && two.is_some() && in_progress.begin(&client("ann")).is_none());
        let other = in_progress.begin(&client("ben"));
        assert!(other.is_some());
        let body = one.expect("counted").until_read(Body::from("x"));
        assert!(in_progress.begin(&client("ann")).is_none(), "its response has not been read");
        drop(body);
        assert!(in_progress.begin(&client("ann")).is_some());
        drop((two, other));
        assert!(in_progress.clients.lock().is_empty());
        assert!(in_progress.begin(&Principal::anyone()).is_some());
    }
}
