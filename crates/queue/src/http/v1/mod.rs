//! The routes under `/v1`: what the console and the command line need beyond the clients' routes.
//!
//! Lists continue after their last element and count nothing outside of their page. Actions on many things work in
//! steps, so that a client shows progress and may stop.

mod bulk;
mod dead_letters;
mod message;
mod messages;
mod partitions;
mod pause;
mod queues;

use reveille_web::{ApiError, Principal, Query};
use utoipa_axum::router::OpenApiRouter;

use crate::admin::message_pages::Content;
use crate::http::api_error::invalid;
use crate::queues::Queues;

/// The prefix of these routes.
pub(super) const BASE: &str = "/v1";

/// The default and the most elements of a page.
const PAGE: u64 = 100;
const PAGE_MAX: u64 = 1_000;
/// Why a payload is not shown.
const NO_PAYLOADS: &str = "your credentials do not allow you to see payloads";

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new()
        .merge(queues::routes())
        .merge(pause::routes())
        .merge(partitions::routes())
        .merge(messages::routes())
        .merge(message::routes())
        .merge(dead_letters::routes())
        .merge(bulk::routes())
}

/// The size of the page: `limit`.
fn limit(query: &Query) -> Result<u32, ApiError> {
    Ok(query.number("limit", 1..=PAGE_MAX)?.unwrap_or(PAGE) as u32)
}

/// A parameter that is one of some words, as its value.
fn word<T: Copy>(query: &Query, name: &str, words: &[(&str, T)]) -> Result<Option<T>, ApiError> {
    let Some(text) = query.text(name) else { return Ok(None) };
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    let known = || words.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    found.map(Some).ok_or_else(|| invalid(name, format_args!("must be one of {}, got {text:?}", known())))
}

/// A payload, as far as the client may see it.
fn visible(principal: &Principal, content: Content) -> Content {
    match content {
        Content::Json(_) if !principal.sees_payloads() => Content::Unreadable(NO_PAYLOADS.to_owned()),
        content => content,
    }
}

fn no_queue(queue: &str) -> ApiError {
    ApiError::not_found(format!("there is no queue {queue:?}"))
}
