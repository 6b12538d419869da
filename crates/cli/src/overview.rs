//! What needs attention, and what is going on: `GET /v1/overview`, `GET /v1/wake`, `GET /v1/changes`.
//!
//! A person asks first whether everything is fine. The answer is made from statistics that are read from the database
//! only after something has happened ([`reveille_wake::Snapshot`]), and from counters in memory; [`history`] samples
//! the counters, so that there are rates for the last half hour without a query. The console's first page, its page
//! about the wake engine, and `reveille top` show these answers.

mod answer;
mod attention;
mod history;
mod waking;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{Stream, unfold};
use reveille_flow::Flow;
use reveille_queue::Queues;
use reveille_wake::{Changes, ServerWatch, Wake};
use reveille_web::{Api, Need, Needs, Role, Scope, strict};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use answer::Overview;
pub(crate) use history::History;
use waking::Waking;

/// How many queues, groups and namespaces are examined one by one.
const TOP: u32 = 50;

/// How often a silent stream sends a comment, so that proxies keep it open and a closed client is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What the answers are made from. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) wake: Wake,
    pub(crate) server: ServerWatch,
    pub(crate) queues: Queues,
    pub(crate) flow: Flow,
    pub(crate) orchestrations: reveille_durable::Watch,
    pub(crate) changes: Changes,
    pub(crate) history: Arc<History>,
}

/// The routes of this module.
pub(crate) fn api(sources: Sources) -> Api {
    let routes = OpenApiRouter::new().routes(routes!(overview)).routes(routes!(wake)).routes(routes!(changes));
    let viewer = Need::Role(Role::Viewer, Scope::Everything);
    let needs =
        Needs::new(&[("GET", "/v1/overview", viewer), ("GET", "/v1/wake", viewer), ("GET", "/v1/changes", viewer)]);
    Api::new(strict(routes).with_state(sources), needs)
}

/// What needs attention, what waits longest, and rates of the last half hour.
#[utoipa::path(
    get, path = "/v1/overview", tag = "overview",
    responses((status = 200, description = "The overview of this server", body = Overview)),
)]
async fn overview(State(sources): State<Sources>) -> Json<Overview> {
    Json(Overview::of(&sources).await)
}

/// Who waits for what, when the next poll is, how fast wake-ups are. Sends no query.
#[utoipa::path(
    get, path = "/v1/wake", tag = "overview",
    responses((status = 200, description = "The wake engine of this server", body = Waking)),
)]
async fn wake(State(sources): State<Sources>) -> Json<Waking> {
    Json(Waking::of(&sources))
}

/// Says that something has changed, as server-sent events: each `change` has the names of the products as its data. At
/// most one a second, none while nothing happens; it sends no query.
#[utoipa::path(
    get, path = "/v1/changes", tag = "overview",
    responses((status = 200, description = "Changes from now on", body = String, content_type = "text/event-stream")),
)]
async fn changes(State(sources): State<Sources>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let stream = unfold(sources.changes.subscribe(), async |mut changes| {
        let products = changes.next().await?;
        Some((Ok(Event::default().event("change").data(products.join(" "))), changes))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}
