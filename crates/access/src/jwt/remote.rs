//! Keys at a URL, such as those of an OpenID provider.
//!
//! Tokens must not make the server send requests: keys are fetched when the first token arrives, when they are
//! [`FRESH_FOR`] old, and for an unknown key at most once per [`AGAIN_AFTER`]. One request is in progress at a time. If
//! it fails, the keys that are known stay in use.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use parking_lot::RwLock;
use tokio::{sync::Mutex, time::Instant};

use super::{Keys, Rejected};

/// How long keys are used before they are fetched again, in the background.
const FRESH_FOR: Duration = Duration::from_secs(60 * 60);

/// The shortest time between two requests while there are keys.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The same while there are none: no token can be verified.
const FIRST_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// The body of a response, or why there is none.
pub type Fetched<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send + 'a>>;

/// A request of this crate to another server.
#[derive(Clone, Default)]
pub struct Outgoing {
    /// Its address.
    pub url: String,
    /// The body of a `POST`, as a form; `None`: it is a `GET`.
    pub form: Option<String>,
    /// The header `Authorization`.
    pub authorization: Option<String>,
}

/// Sends the requests of this crate, with a bound of time and size, and follows no redirects.
pub trait Fetch: Send + Sync {
    /// The body of the successful response.
    fn send(&self, request: Outgoing) -> Fetched<'_>;
}

/// Keys at a URL. Cheap to clone.
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    url: String,
    fetch: Arc<dyn Fetch>,
    known: RwLock<Known>,
    /// Held during a request.
    turn: Mutex<()>,
}

#[derive(Default)]
struct Known {
    keys: Option<Arc<Keys>>,
    /// When a request began last.
    asked: Option<Instant>,
    /// When the keys arrived.
    arrived: Option<Instant>,
}

impl Remote {
    /// The keys at `url`. Nothing is requested yet.
    pub fn new(url: String, fetch: Arc<dyn Fetch>) -> Remote {
        Remote(Arc::new(Inner { url, fetch, known: RwLock::default(), turn: Mutex::default() }))
    }

    /// The keys, from memory if they are known.
    pub(super) async fn keys(&self) -> Result<Arc<Keys>, Rejected> {
        let (keys, arrived) = {
            let known = self.0.known.read();
            (known.keys.clone(), known.arrived)
        };
        match keys {
            Some(keys) => {
                if arrived.is_some_and(|arrived| arrived.elapsed() > FRESH_FOR) {
                    let again = self.clone();
                    tokio::spawn(async move { again.refresh().await });
                }
                Ok(keys)
            }
            None => self.fetched(None).await,
        }
    }

    /// Keys after `old`, which lacks one.
    pub(super) async fn newer(&self, old: &Arc<Keys>) -> Result<Arc<Keys>, Rejected> {
        self.fetched(Some(Arc::clone(old))).await
    }

    /// The keys after a request, or the known ones if it is too early for another.
    async fn fetched(&self, old: Option<Arc<Keys>>) -> Result<Arc<Keys>, Rejected> {
        // In a task: a client that goes away must not end the request that others wait for.
        let this = self.clone();
        let task = tokio::spawn(async move {
            let is_new = |keys: &Arc<Keys>| old.as_ref().is_none_or(|old| !Arc::ptr_eq(old, keys));
            let known = this.0.known.read().keys.clone().filter(is_new);
            if known.is_none() {
                this.refresh().await;
            }
            this.0.known.read().keys.clone()
        });
        task.await.ok().flatten().ok_or(Rejected::KeysUnavailable)
    }

    /// Sends a request, unless there was one recently.
    async fn refresh(&self) {
        let inner = &self.0;
        let _turn = inner.turn.lock().await;
        {
            let mut known = inner.known.write();
            let pause = if known.keys.is_some() { AGAIN_AFTER } else { FIRST_AGAIN_AFTER };
            if known.asked.is_some_and(|asked| asked.elapsed() < pause) {
                return;
            }
            known.asked = Some(Instant::now());
        }
        let request = Outgoing { url: inner.url.clone(), ..Outgoing::default() };
        let fetched = inner.fetch.send(request).await;
        let keys = fetched.and_then(|text| Keys::json(&text).map_err(|error| error.to_string()));
        match keys {
            Ok(keys) => {
                let mut known = inner.known.write();
                known.keys = Some(Arc::new(keys));
                known.arrived = Some(Instant::now());
            }
            Err(error) => tracing::warn!(url = inner.url, error, "the keys of tokens cannot be fetched"),
        }
    }
}
