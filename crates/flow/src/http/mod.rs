//! The HTTP API: templates, tasks, and workers in any language.
//!
//! A request that is not valid is answered with 4xx and a message that names the parameter, what is allowed and what
//! was sent; nothing was changed. 5xx means "not done, or safe to send again". Workers report in lists, and each item
//! has an outcome of its own: an invalid item does not affect the others. A waiting claim is a future: if the client
//! closes the connection, the claim is dropped and the steps claimed for it are released.

mod access;
mod analytics;
mod batch_item;
mod bulk;
mod claim;
mod dlq;
mod error;
mod event;
mod fork;
mod limit;
mod namespace;
mod openapi;
mod orchestration;

mod report;
mod schedule;
mod schema;
mod scope;
mod step;
mod submit;
mod task;
mod task_events;
mod template;
mod waiting;
mod workers;

use axum::middleware::from_fn_with_state;
use reveille_web::{Api, ApiError, Needs, Principal, Query, strict};
use serde::{Deserialize, Deserializer};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::flow::Flow;
use crate::name;
use crate::operate::Operator;
use crate::template::NAME_MAX;

/// The path prefix of every route.
const BASE: &str = "/v1";

/// The default and the maximum page size of lists.
const PAGE: u64 = 100;
const PAGE_MAX: u64 = 1_000;

/// The longest wait, in milliseconds. Most proxies give up earlier.
const WAIT_MS_MAX: u64 = 600_000;

/// The routes of flow under `/v1`, with their OpenAPI document.
pub fn api(flow: Flow) -> Api {
    let api = OpenApiRouter::new()
        .routes(routes!(template::list, template::register))
        .routes(routes!(template::get))
        .routes(routes!(submit::submit))
        .merge(task::routes())
        .routes(routes!(bulk::bulk))
        .routes(routes!(fork::fork))
        .merge(step::routes())
        .merge(task_events::routes())
        .merge(waiting::routes())
        .routes(routes!(workers::list))
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
    let routes = strict(routes).route_layer(from_fn_with_state(flow.clone(), scope::of_task));
    Api::new(routes.with_state(flow), Needs::new(access::NEEDS))
}

/// The page size: the parameter `limit`, 100 by default.
fn page(query: &Query) -> Result<usize, ApiError> {
    Ok(query.number("limit", 1..=PAGE_MAX)?.unwrap_or(PAGE) as usize)
}

/// The page size of lists that belong to one task: 1 000 by default.
fn long_page(query: &Query) -> Result<usize, ApiError> {
    Ok(query.number("limit", 1..=PAGE_MAX)?.unwrap_or(PAGE_MAX) as usize)
}

/// The value of a text parameter, checked as a name.
fn label(query: &Query, what: &'static str) -> Result<Option<String>, ApiError> {
    let Some(text) = query.text(what) else { return Ok(None) };
    name::check(what, text)?;
    Ok(Some(text.to_owned()))
}

/// The author of a manual operation: the client, if it has authenticated; otherwise the name that the request gives.
fn operator(principal: &Principal, by: String, reason: Option<String>) -> Operator {
    Operator { name: author(principal, by), reason }
}

/// The name of the client, if it has authenticated, otherwise `by`.
fn author(principal: &Principal, by: String) -> String {
    let name = principal.producer().map(|name| name.chars().take(NAME_MAX).collect());
    name.unwrap_or(by)
}

/// Parses a UUID.
fn uuid(what: &str, text: &str) -> Result<Uuid, ApiError> {
    Uuid::try_parse(text)
        .map_err(|_| ApiError::bad_request(format!("invalid parameter `{what}`: must be a UUID, got {text:?}")))
}

/// Deserializes a field that may be null, and tells null from a missing field.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}
