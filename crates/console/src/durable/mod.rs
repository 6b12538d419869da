//! Orchestrations: lists of instances, one instance, its history.

mod actions;
mod history;
mod instance;
mod list;

use axum::Router;
use axum::routing::get;

use crate::parts::Tone;
use crate::{Console, Url};

/// The product whose changes load these pages again.
const PRODUCT: &str = "durable";

pub(crate) fn routes() -> Router<Console> {
    Router::new().route("/durable", get(list::list)).route("/durable/{instance}", get(instance::instance))
}

/// A route of the API about an instance.
fn api<'a>(instance: &'a str, more: impl IntoIterator<Item = &'a str>) -> Url {
    Url::api(["v1", "durable", "instances", instance].into_iter().chain(more))
}

/// The page of an instance.
fn link(instance: &str) -> Url {
    Url::link(["durable", instance])
}

/// What a state means.
fn tone(status: &str) -> Tone {
    match status {
        "Completed" => Tone::Good,
        "Failed" => Tone::Bad,
        "Running" => Tone::Busy,
        "Pending" => Tone::Warn,
        _ => Tone::Quiet,
    }
}
