//! Task graphs over HTTP: templates, tasks, and workers in any language.
//!
//! A request either means something or is refused with 4xx and a sentence that names the part that does not; then nothing was changed. 5xx means "not done, or harmless when sent
//! again". What workers say comes in lists, and each element has an answer of its own: one that is wrong is no matter of the others. A waiting claim is a future: whoever closes the
//! connection drops it, and what was claimed for it goes back.

mod analytics;
mod batch_item;
mod bulk;
mod claim;
mod dlq;
mod error;
mod event;

mod limit;
mod namespace;
mod openapi;
mod orchestration;

mod report;
mod schedule;
mod schema;
mod step;
mod submit;
mod task;
mod task_events;
mod template;

use serde::{Deserialize, Deserializer};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;
use web::{Face, Query, Refusal, strict};

use crate::flow::Flow;
use crate::name;

/// Where everything is.
const BASE: &str = "/v1";

/// Elements of a list that does not say how many, and the most.
const PAGE: u64 = 100;
const PAGE_MAX: u64 = 1_000;

/// The longest wait, in milliseconds. Proxies in between rarely wait as long.
const WAIT_MS_MAX: u64 = 600_000;

/// The routes of flow, under `/v1`, and what describes them.
pub fn face(flow: Flow) -> Face {
    let api = OpenApiRouter::new()
        .routes(routes!(template::list, template::register))
        .routes(routes!(template::get))
        .routes(routes!(submit::submit))
        .merge(task::routes())
        .routes(routes!(bulk::bulk))
        .merge(step::routes())
        .merge(task_events::routes())
        .routes(routes!(claim::claim))
        .routes(routes!(report::heartbeat))
        .routes(routes!(report::complete))
        .routes(routes!(report::fail))
        .routes(routes!(report::checkpoint))
        .routes(routes!(report::release))
        .routes(routes!(event::list))
        .merge(dlq::routes())
        .merge(limit::routes())
        .merge(namespace::routes())
        .merge(orchestration::routes())
        .merge(schedule::routes())
        .merge(analytics::routes());
    let mut routes = OpenApiRouter::with_openapi(openapi::head()).nest(BASE, api);
    openapi::widen(routes.get_openapi_mut());
    Face::of(strict(routes).with_state(flow))
}

/// How much of a list is asked for: `limit`.
fn page(query: &Query) -> Result<usize, Refusal> {
    Ok(query.number("limit", 1..=PAGE_MAX)?.unwrap_or(PAGE) as usize)
}

/// The same, of what belongs to one task.
fn long_page(query: &Query) -> Result<usize, Refusal> {
    Ok(query.number("limit", 1..=PAGE_MAX)?.unwrap_or(PAGE_MAX) as usize)
}

/// A name that a list is asked by.
fn label(query: &Query, what: &'static str) -> Result<Option<String>, Refusal> {
    let Some(text) = query.text(what) else { return Ok(None) };
    name::check(what, text)?;
    Ok(Some(text.to_owned()))
}

/// An id.
fn uuid(what: &str, text: &str) -> Result<Uuid, Refusal> {
    Uuid::try_parse(text).map_err(|_| Refusal::bad(format!("{what}: {text:?} is not a UUID")))
}

/// A field that is there, null among what it may be.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}
