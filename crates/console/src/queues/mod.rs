//! Queues: the list, one queue with its messages, partitions, consumer groups, dead letters and options, one message,
//! one dead letter.
//!
//! Names, payloads and errors are written by producers and consumers. They are shown as text, with the characters that
//! reverse or hide their neighbours as escapes.

mod actions;
mod dead_letter;
mod dead_letters;
mod groups;
mod list;
mod message;
mod messages;
mod options;
mod partitions;
mod queue;

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use maud::{Markup, html};

use crate::parts::value::visible;
use crate::parts::{Tone, badge, duration};
use crate::{Console, Json, Url};

pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .route("/queues", get(list::list))
        .route("/queues/{queue}", get(queue::queue))
        .route("/queues/{queue}/messages/{partition}/{transaction}", get(message::message))
        .route("/queues/{queue}/dead-letters/{id}", get(dead_letter::dead_letter))
}

/// The group of consumers that name none, as the API calls it.
const WITHOUT_GROUP: &str = "__QUEUE_MODE__";

/// The name of a consumer group.
fn group_name(name: &str) -> Markup {
    match name {
        WITHOUT_GROUP => html! { span.quiet title=(WITHOUT_GROUP) { "without a group" } },
        name => html! { (visible(name)) },
    }
}

/// A number of seconds, as a duration.
fn seconds(of: &Json) -> Markup {
    let seconds = of.approximate().unwrap_or_default().max(0.0);
    html! { (duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())) }
}

/// A number that may be unknown.
fn number(of: &Json) -> Markup {
    if of.is_null() {
        return html! { span.quiet title="This queue has too many partitions to count its messages for a page." { "many" } };
    }
    html! { (of.shown()) }
}

/// A number that is worth a look unless it is zero.
fn alarming(of: &Json) -> Markup {
    match of.integer() {
        None | Some(0) => html! { (of.shown()) },
        Some(_) => badge(Tone::Warn, &of.shown()),
    }
}

/// Messages per second.
fn rate(of: &Json) -> Markup {
    match of.approximate() {
        Some(rate) if rate > 0.0 => html! { (of.shown()) "/s" },
        _ => html! { span.quiet { "0" } },
    }
}

/// The page of a message.
fn message_link(queue: &str, partition_id: &str, transaction: &str) -> Url {
    Url::link(["queues", queue, "messages", partition_id, transaction])
}

/// The status of a message.
fn status(of: &Json) -> Markup {
    match of.text() {
        "completed" => badge(Tone::Good, "completed"),
        "processing" => badge(Tone::Busy, "leased"),
        "pending" => badge(Tone::Quiet, "pending"),
        other => badge(Tone::Quiet, other),
    }
}
