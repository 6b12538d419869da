//! The one HTTP server of the process, and how a product becomes part of it.
//!
//! A product brings a [`Router`] for its own paths and [`Check`]s for its own health, and hands both to
//! [`App::mount`]. The server adds what is the same for all: health and metrics endpoints, JSON errors, limits, request
//! metrics, and the promise that a product's routes are not reached before the database is migrated nor after the
//! process began to stop answering.

mod admission;
mod document;
mod exposition;
mod guard;
mod health;
mod listen;
mod metrics;
mod reply;

use std::{sync::Arc, time::Instant};

use axum::{
    Router,
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    middleware::{Next, from_fn_with_state, map_response},
    response::Response,
    routing::get,
};

pub use admission::Limits;
pub use document::{document, head};
pub use exposition::{LABEL_MAX, MetricFamily};
use guard::Guard;
pub use health::{Check, Health, Verdict};
pub use listen::{Connections, Listener, MAX_CONNECTIONS, Routes};
pub use metrics::{METRICS, Metrics, ScrapeSource};

/// The largest request body any route takes unless it, or the server, sets another limit. A body is held in memory while it is
/// read; all of them together are bounded where the products' routes are put together.
const MAX_BODY_BYTES: usize = 10 * 1024 * 1024;

/// The server under construction.
pub struct App {
    products: Router,
    checks: Vec<Arc<dyn Check>>,
    metrics: Metrics,
    max_body_bytes: usize,
    guard: Guard,
}

impl App {
    /// A server with only its own endpoints.
    pub fn new(metrics: Metrics) -> Self {
        let (products, checks, guard) = (Router::new(), Vec::new(), Guard::new(&[]));
        Self { products, checks, metrics, max_body_bytes: MAX_BODY_BYTES, guard }
    }

    /// Answers clients that call the server by one of these names, beside `localhost` and any IP address.
    pub fn allowed_hosts(self, names: &[String]) -> Self {
        Self { guard: Guard::new(names), ..self }
    }

    /// Takes bodies of up to so many bytes.
    pub fn max_body(self, bytes: usize) -> Self {
        Self { max_body_bytes: bytes, ..self }
    }

    /// Adds a product: its routes, and what has to be well for the process to call itself ready.
    ///
    /// # Panics
    /// When a route is already taken; two products claiming one path is a programming error.
    pub fn mount(mut self, routes: Router, checks: impl IntoIterator<Item = Arc<dyn Check>>) -> Self {
        self.products = self.products.merge(routes);
        self.checks.extend(checks);
        self
    }

    /// The finished routes, and the health they report, which starts as "starting".
    pub fn build(self) -> (Routes, Arc<Health>) {
        let health = Arc::new(Health::new(self.checks));
        let own = own(&health, self.metrics);
        // An unknown path, too: before the start, nobody knows what paths there are.
        let products =
            self.products.fallback(reply::not_found).layer(from_fn_with_state(Arc::clone(&health), only_when_started));
        let all = own.clone().merge(products).method_not_allowed_fallback(reply::method_not_allowed);
        let finish = |routes: Router| {
            routes
                .layer(map_response(reply::as_json))
                .layer(from_fn_with_state(Some(self.guard.clone()), admit))
                .layer(DefaultBodyLimit::max(self.max_body_bytes))
        };
        let reserved = own.fallback(reply::too_many_connections);
        (Routes { all: finish(all), reserved: finish(reserved) }, health)
    }
}

/// The server's own endpoints.
fn own(health: &Arc<Health>, metrics: Metrics) -> Router {
    let own = Router::new()
        .route("/health", get(health::ready))
        .route("/health/ready", get(health::ready))
        .route("/health/live", get(health::live))
        .with_state(Arc::clone(health));
    let scrape = Router::new()
        .route("/metrics", get(metrics::scrape))
        .route("/metrics/prometheus", get(metrics::scrape))
        .with_state((metrics, Arc::clone(health)));
    own.merge(scrape)
}

/// The routes of an address that shows health and metrics only. Clients may call it by any name.
pub fn health_routes(health: &Arc<Health>, metrics: Metrics) -> Routes {
    let own = own(health, metrics)
        .fallback(reply::not_found)
        .method_not_allowed_fallback(reply::method_not_allowed)
        .layer(from_fn_with_state(None::<Guard>, admit));
    Routes { all: own.clone(), reserved: own }
}

/// Keeps requests from a product whose tables may not exist yet. There are clients of the queue that give up for good unless
/// the text speaks of a connection.
async fn only_when_started(State(health): State<Arc<Health>>, request: Request, next: Next) -> Response {
    match health.not_started() {
        None => next.run(request).await,
        Some(reason) => reply::unavailable(&format!("{reason}; use this connection again in a moment")),
    }
}

/// Counts and times every request by its route, never by its path, which a client could make up without end; and lets no
/// request of a foreign web page through. One layer does both: each is memory of every client that waits.
async fn admit(State(guard): State<Option<Guard>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched".into(), |it| it.as_str().to_owned());
    let method = metrics::method(request.method());
    let refused = guard.and_then(|guard| guard.refused(&request));
    let response = match refused {
        Some(refused) => refused,
        None => next.run(request).await,
    };
    metrics::request(method, route, response.status(), began.elapsed());
    response
}
