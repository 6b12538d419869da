//! `GET /console/queues/{queue}/messages/{partition}/{transaction}`: one message, and where it comes from.

use axum::extract::Path;
use axum::http::Method;
use maud::{Markup, html};

use super::{group_name, status};
use crate::parts::value::visible;
use crate::parts::{Table, Tone, badge, empty, facts, value, when};
use crate::{Action, Failure, Json, Page, Section, Url, Visit};

pub(super) async fn message(
    visit: Visit,
    Path((_, partition_id, transaction)): Path<(String, String, String)>,
) -> Result<Page, Failure> {
    let found: Json = visit.get(&Url::api(["v1", "messages", &partition_id, &transaction])).await?;
    let (queue, partition, message) = (found["queue"].text(), found["partition"].text(), &found["message"]);
    let content = html! {
        section data-live="message" {
            (facts([
                ("State", if message.is_null() { badge(Tone::Bad, "dead letter") } else { status(&message["status"]) }),
                ("Stored", when(&message["created_at"], visit.now)),
                ("Partition", html! { a href=(Url::link(["queues", queue]).with("partition", partition)) { (visible(partition)) } }),
                ("Offset", html! { (message["offset"].shown()) }),
                ("Message id", html! { code { (message["id"].text()) } }),
            ]))
            h2 { "Where it comes from" }
            (cause(&visit, &found))
            h2 { "Payload" }
            (payload(message))
            h2 { "Consumer groups" }
            (readers(&visit, &found))
            h2 { "Traces" }
            (traces(&visit, &found))
            @if !found["dead_letters"].items().is_empty() {
                h2 { "Dead letters" }
                (letters(&visit, queue, &found))
            }
        }
    };
    let page = visit
        .page(Section::Queues, &visible(&transaction), content)
        .live_on("queue")
        .within("Queues", Url::link(["queues"]))
        .within(&visible(queue), Url::link(["queues", queue]));
    Ok(actions(queue, &partition_id, &transaction, message).into_iter().fold(page, Page::action))
}

/// The producer, the trace, and the dead letter that it was.
fn cause(visit: &Visit, found: &Json) -> Markup {
    let message = &found["message"];
    let origin = found["traces"].items().iter().rev().find(|trace| trace["event"].text() == "replayed");
    let or_none = |text: &str| match text {
        "" => html! { span.quiet { "not known" } },
        text => html! { (visible(text)) },
    };
    html! {
        (facts([
            ("Producer", or_none(message["producer"].text())),
            ("Trace id", or_none(message["trace_id"].text())),
            ("Transaction id", html! { (visible(found["transaction_id"].text())) }),
        ]))
        @if let Some(trace) = origin {
            @let data = &trace["data"];
            p {
                (badge(Tone::Busy, "replayed")) " Dead letter " (data["dead_letter_id"].shown()) " of "
                (group_name(trace["group"].text())) ", which failed " (when(&data["failed_at"], visit.now))
                ", was replayed " (when(&trace["created_at"], visit.now))
                @if data["edited"].is_true() { " with another payload" }
                ". It was transaction " code { (visible(data["transaction_id"].text())) } "."
            }
            @if let Some(error) = data["error"].as_text() { pre tabindex="0" { (visible(error)) } }
        }
    }
}

fn payload(message: &Json) -> Markup {
    html! {
        @if message.is_null() { p.quiet { "The message is gone; its dead letters are below." } }
        @else if let Some(why) = message["unreadable"].as_text() { p.quiet { "It cannot be shown: " (visible(why)) "." } }
        @else {
            @if message["encrypted"].is_true() { p.quiet { "Stored encrypted." } }
            (value(&message["payload"]))
        }
    }
}

fn readers(visit: &Visit, found: &Json) -> Markup {
    let nothing = empty("No consumer group", "No group has read this partition yet.", "");
    let table = Table::new("Consumer groups", &["Group", "State", "Leased until", "Retries#"]);
    let table = table.or(nothing).rows(found["consumer_groups"].items(), |reader| {
        vec![
            group_name(reader["group"].text()),
            status(&reader["status"]),
            when(&reader["leased_until"], visit.now),
            html! { (reader["retries"].shown()) },
        ]
    });
    html! { (table) }
}

fn traces(visit: &Visit, found: &Json) -> Markup {
    let nothing = empty("No traces", "Consumers record what they do with a message: POST /api/v1/traces.", "");
    let table = Table::new("Traces", &["Event", "At", "Group", "Worker", "Names", "Data"]);
    let table = table.or(nothing).rows(found["traces"].items(), |trace| {
        let names: Vec<String> = trace["names"].items().iter().map(|name| visible(name.text())).collect();
        vec![
            html! { (visible(trace["event"].text())) },
            when(&trace["created_at"], visit.now),
            group_name(trace["group"].text()),
            html! { (visible(trace["worker"].text())) },
            html! { (names.join(", ")) },
            value(&trace["data"]),
        ]
    });
    html! { (table) }
}

fn letters(visit: &Visit, queue: &str, found: &Json) -> Markup {
    let table = Table::new("Dead letters", &["Dead letter", "Group", "Error", "Failed"]);
    let table = table.rows(found["dead_letters"].items(), |letter| {
        let id = letter["id"].shown();
        vec![
            html! { a href=(Url::link(["queues", queue, "dead-letters", &id])) { (id) } },
            group_name(letter["group"].text()),
            html! { (visible(letter["error"].text())) },
            when(&letter["failed_at"], visit.now),
        ]
    });
    html! { (table) }
}

fn actions(queue: &str, partition_id: &str, transaction: &str, message: &Json) -> Vec<Action> {
    let route = |verb: Option<&'static str>| {
        Url::api(["api", "v1", "messages", partition_id, transaction].into_iter().chain(verb))
    };
    let retry = Action::new("Retry now", Method::POST, route(Some("retry"))).about(
        "Replays its dead letters; or, if it waits for its retry delay, delivers it at once and resets its retries.",
    );
    if message.is_null() {
        return vec![retry];
    }
    let bury = Action::new("Make a dead letter", Method::POST, route(Some("dlq")))
        .about("No consumer group reads it any more. It can be replayed later.")
        .destructive();
    let delete = Action::new("Delete", Method::DELETE, route(None))
        .about("Deletes the message and its dead letters, for all consumer groups. This cannot be undone.")
        .confirm_by_typing("delete")
        .then(Url::link(["queues", queue]));
    vec![retry, bury, delete]
}
