//! The HTTP server of the process, and how products are mounted.
//!
//! A product has a [`Router`] for its paths and [`Check`]s for its health, and passes both to [`App::mount`]. The
//! server adds health and metrics endpoints, JSON errors, limits and request metrics. It guarantees that no route of a
//! product is called before the database is migrated.

mod admission;
mod attempts;
mod authenticate;
mod certificate;
mod connection;
mod cookie;
mod document;
mod exposition;
mod front;
mod guard;
mod handshake;
mod health;
mod in_progress;
mod listen;
mod login;
mod metrics;
mod reply;
mod tls;

use std::{sync::Arc, time::Instant};

use axum::{
    Router,
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::Method,
    middleware::{Next, from_fn_with_state, map_response},
    response::Response,
    routing::get,
};

use reveille_web::{Need, Needs, RequestId, Role, Scope, TraceContext, is_collected, proceed};

pub use admission::Limits;
pub use authenticate::Authentication;
pub use document::{document, head};
pub use exposition::{LABEL_MAX, MetricFamily};
pub use front::CONSOLE;
use guard::Guard;
pub use handshake::Peer;
pub use health::{Check, Health, Verdict};
pub use in_progress::{InProgress, REQUESTS_PER_CLIENT};
pub use listen::{Connections, Listener, MAX_CONNECTIONS, Routes};
pub use login::required as login_required;
pub(crate) use metrics::otlp_spans;
pub use metrics::{METRICS, Metrics, ScrapeSource};
pub use tls::{Tls, TlsFiles};
use tracing::Instrument as _;

use crate::telemetry;

/// The default limit of a request body. A body is held in memory; the total of all bodies is bounded in the crate
/// `web`.
const MAX_BODY_BYTES: usize = 10 * 1024 * 1024;

/// The target of the access log, a line per request at level debug.
const ACCESS: &str = "reveille::access";

/// What a client needs for the server's own routes.
const NEEDS: &[(&str, &str, Need)] = &[
    ("GET", "/", Need::Open),
    ("GET", "/docs", Need::Open),
    ("GET", "/docs/{document}", Need::Open),
    ("GET", "/health", Need::Open),
    ("GET", "/health/ready", Need::Open),
    ("GET", "/health/live", Need::Open),
    ("GET", "/metrics", Need::Role(Role::Viewer, Scope::Everything)),
    ("GET", "/metrics/prometheus", Need::Role(Role::Viewer, Scope::Everything)),
];

/// The server under construction.
pub struct App {
    products: Router,
    checks: Vec<Arc<dyn Check>>,
    metrics: Metrics,
    max_body_bytes: usize,
    guard: Guard,
    authentication: Authentication,
}

impl App {
    /// A server with only its own endpoints.
    pub fn new(metrics: Metrics) -> Self {
        let (products, checks, guard) = (Router::new(), Vec::new(), Guard::new(&[]));
        let authentication = Authentication::default();
        Self { products, checks, metrics, max_body_bytes: MAX_BODY_BYTES, guard, authentication }
    }

    /// Verifies the credentials of requests; by default there are none, and every client may do everything.
    pub fn authentication(self, authentication: Authentication) -> Self {
        Self { authentication, ..self }
    }

    /// Accepts requests for these host names, in addition to `localhost` and IP addresses.
    pub fn allowed_hosts(self, names: &[String]) -> Self {
        Self { guard: Guard::new(names), ..self }
    }

    /// Sets the limit of a request body.
    pub fn max_body(self, bytes: usize) -> Self {
        Self { max_body_bytes: bytes, ..self }
    }

    /// Adds a product: its routes, and the checks of its health.
    ///
    /// # Panics
    /// If two products have the same route, which is a programming error.
    pub fn mount(mut self, routes: Router, checks: impl IntoIterator<Item = Arc<dyn Check>>) -> Self {
        self.products = self.products.merge(routes);
        self.checks.extend(checks);
        self
    }

    /// The routes, and the health that they report, which is "starting" at first.
    pub fn build(self) -> (Routes, Arc<Health>) {
        let health = Arc::new(Health::new(self.checks));
        let own = own(&health, self.metrics);
        // Unknown paths, too: before the start the routes of the products are not known.
        let products =
            self.products.fallback(reply::not_found).layer(from_fn_with_state(Arc::clone(&health), only_when_started));
        let all = own
            .clone()
            .merge(front::routes(&health))
            .merge(login::routes(&self.authentication))
            .merge(products)
            .method_not_allowed_fallback(reply::method_not_allowed);
        let finish = |routes: Router| {
            routes
                .layer(map_response(reply::as_json))
                .layer(from_fn_with_state(self.authentication.clone(), authenticate::authenticate))
                .layer(from_fn_with_state(Some(self.guard.clone()), admit))
                .layer(DefaultBodyLimit::max(self.max_body_bytes))
        };
        let reserved = own.fallback(reply::too_many_connections);
        (Routes { all: finish(all), reserved: finish(reserved) }, health)
    }
}

/// What a client needs for the server's own routes.
pub fn needs() -> Needs {
    Needs::new(NEEDS)
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
        .with_state((metrics, Arc::clone(health)))
        .route_layer(from_fn_with_state(needs(), reveille_web::enforce));
    own.merge(scrape)
}

/// The routes of an address for health and metrics only. Any host name is accepted.
pub fn health_routes(health: &Arc<Health>, metrics: Metrics, authentication: Authentication) -> Routes {
    let own = own(health, metrics)
        .fallback(reply::not_found)
        .method_not_allowed_fallback(reply::method_not_allowed)
        .layer(from_fn_with_state(authentication, authenticate::authenticate))
        .layer(from_fn_with_state(None::<Guard>, admit));
    Routes { all: own.clone(), reserved: own }
}

/// Rejects requests to a product whose tables may not exist yet. Existing queue clients retry only if the text contains
/// the word "connection". A browser gets a page that loads itself again.
async fn only_when_started(State(health): State<Arc<Health>>, request: Request, next: Next) -> Response {
    match health.not_started() {
        // A screen that reads because something has changed must not look like a change.
        None if only_reads(&request) => Box::pin(reveille_pg::observing(proceed(next, request))).await,
        None => proceed(next, request).await,
        Some(_) if front::wants_html(request.headers()) => front::starting_page(&health.phase().1.unwrap_or_default()),
        Some(reason) => reply::unavailable(&format!("{reason}; retry on this connection")),
    }
}

/// Whether a request changes nothing. A pop is a `GET` that leases messages.
fn only_reads(request: &Request) -> bool {
    request.method() == Method::GET && !request.uri().path().contains("/pop")
}

/// Gives every request its id; counts, times and logs it by its route, never by its path, of which a client can invent
/// any number and which has names of others; and rejects cross-origin requests of web pages. One layer does it all,
/// because each layer takes memory per waiting client.
async fn admit(State(guard): State<Option<Guard>>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let started = is_collected().then(telemetry::nanoseconds);
    let id = RequestId::of(request.headers());
    let context = started.and_then(|_| TraceContext::of(request.headers()));
    request.extensions_mut().insert(id.clone());
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched".into(), |it| it.as_str().to_owned());
    let method = metrics::method(request.method());
    // Every line that is logged for the request has the id, whatever level is logged.
    let span = tracing::error_span!("request", id = %id);
    let rejection = guard.and_then(|guard| guard.reject(&request));
    let mut response = match rejection {
        Some(rejection) => rejection,
        None => proceed(next, request).instrument(span.clone()).await,
    };
    response.headers_mut().insert(RequestId::HEADER, id.to_header());
    let (status, took) = (response.status(), began.elapsed());
    span.in_scope(|| {
        tracing::debug!(target: ACCESS, method, %route, status = status.as_u16(), ms = took.as_millis() as u64, "request");
    });
    if let Some(started) = started {
        telemetry::request(started, context, &id, method, &route, status);
    }
    metrics::request(method, route, status, took);
    response
}
