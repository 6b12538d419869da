//! The HTTP API: instances, their histories, and operations on them.
//!
//! A request that is not valid is answered with 4xx and a message that names the parameter, what is allowed and what
//! was sent; nothing was changed. The server need not run orchestrations: a start or an event is a message, which a
//! runtime of any process acts on. A duroxide payload is a string: `input` and `data` of a request are JSON, and its
//! text becomes the payload, as typed orchestrations read it; `text` becomes the payload as it is.

mod access;
mod error;
mod figures;
mod instance;
mod message;
mod openapi;
mod prune;

use reveille_web::{Api, ApiError, Needs, Query, schema, strict, text};
use utoipa_axum::router::OpenApiRouter;

use crate::inspect::Instances;

/// The path prefix of every route.
const BASE: &str = "/v1/durable";

/// The longest wait, in milliseconds. Most proxies give up earlier.
const WAIT_MS_MAX: u64 = 600_000;
/// The default page size.
const PAGE: u64 = 100;

schema! {
    /// The name of an orchestration, an event or a queue, or another short text.
    DurableText, text("Any text").max_length(Some(TEXT_MAX))
}
schema! {
    /// The id of an instance.
    InstanceId, text("Any text").min_length(Some(1)).max_length(Some(crate::operate::ID_MAX))
}

/// The longest short text, in bytes.
const TEXT_MAX: usize = 1_000;

/// The routes of durable under `/v1/durable`, with their OpenAPI document.
pub fn api(instances: Instances) -> Api {
    let api = OpenApiRouter::new()
        .merge(instance::routes())
        .merge(message::routes())
        .merge(prune::routes())
        .merge(figures::routes());
    let routes = OpenApiRouter::with_openapi(openapi::head()).nest(BASE, api);
    Api::new(strict(routes).with_state(instances), Needs::new(access::NEEDS))
}

/// The page size: the parameter `limit`.
fn page(query: &Query, max: u64) -> Result<u64, ApiError> {
    Ok(query.number("limit", 1..=max)?.unwrap_or(PAGE))
}

/// A short text.
fn short(what: &str, text: &str) -> Result<String, ApiError> {
    if text.len() > TEXT_MAX {
        let length = text.len();
        let message = format!("invalid parameter `{what}`: must have at most {TEXT_MAX} bytes, got {length}");
        return Err(ApiError::bad_request(message));
    }
    Ok(text.to_owned())
}

/// A short text of the query.
fn label(query: &Query, what: &str) -> Result<Option<String>, ApiError> {
    query.text(what).map(|text| short(what, text)).transpose()
}
