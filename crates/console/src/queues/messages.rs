//! The messages of a queue, newest first; and what a consumer group gets next.

use maud::{Markup, html};

use super::{WITHOUT_GROUP, group_name, message_link, status};
use crate::parts::value::visible;
use crate::parts::{Filter, Table, empty, when};
use crate::{Failure, Json, Url, Visit};

/// Messages of a page.
const PAGE: u32 = 50;
/// Empty pages that are skipped: a filter may match none of a page's messages.
const SKIPPED: usize = 10;
/// Characters of a payload in a list.
const SHORT: usize = 120;

pub(super) async fn list(visit: &Visit, queue: &str) -> Result<Markup, Failure> {
    let mut url = Url::api(["v1", "queues", queue, "messages"]).with("limit", PAGE);
    for name in ["partition", "status", "from", "to", "after", "payloads"] {
        url = url.with_some(name, visit.parameter(name));
    }
    let mut found: Json = visit.get(&url).await?;
    for _ in 0..SKIPPED {
        if !found["messages"].items().is_empty() || found["next"].is_null() {
            break;
        }
        found = visit.get(&url.clone().with("after", found["next"].text())).await?;
    }
    let with_payloads = visit.parameter("payloads").is_some();
    let mut heads = vec!["Transaction", "Partition", "Offset#", "Stored", "State", "Consumed by", "Producer"];
    if with_payloads {
        heads.insert(1, "Payload");
    }
    let nothing = empty("No messages", "Stored messages that the filter matches appear here, the newest first.", "");
    let table = Table::new("Messages", &heads)
        .rows(found["messages"].items(), |message| row(visit, queue, message, with_payloads))
        .or(nothing)
        .pages(visit, "after", &found["next"]);
    let states = [("pending", "pending"), ("processing", "leased"), ("completed", "completed")];
    let filter = Filter::of(visit)
        .text("partition", "Partition")
        .choice("status", "State", states)
        .text("from", "Stored from")
        .text("to", "Stored before")
        .choice("payloads", "Payloads", [("true", "shown")]);
    Ok(html! {
        (filter)
        section data-live="messages" { (table) }
    })
}

fn row(visit: &Visit, queue: &str, message: &Json, with_payload: bool) -> Vec<Markup> {
    let partition = message["partition"].text();
    let mut cells = vec![
        transaction(queue, message),
        html! { a href=(visit.here().without("after").with("partition", partition)) { (visible(partition)) } },
        html! { (message["offset"].shown()) },
        when(&message["created_at"], visit.now),
        html! {
            (status(&message["status"]))
            @if !message["leased_until"].is_null() { " " (when(&message["leased_until"], visit.now)) }
        },
        html! { (message["consumed_by"].shown()) " of " (message["groups"].shown()) " groups" },
        html! { (visible(message["producer"].text())) },
    ];
    if with_payload {
        cells.insert(1, payload(message));
    }
    cells
}

fn transaction(queue: &str, message: &Json) -> Markup {
    let id = message["transaction_id"].text();
    html! { a href=(message_link(queue, message["partition_id"].text(), id)) { (visible(id)) } }
}

/// The beginning of a payload.
fn payload(message: &Json) -> Markup {
    if let Some(why) = message["unreadable"].as_text() {
        return html! { span.quiet { (visible(why)) } };
    }
    let text = message["payload"].to_string();
    html! { code { (visible(&short(&text))) } }
}

pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(SHORT) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// What a group gets next, without leasing it.
pub(super) async fn next(visit: &Visit, queue: &str, state: &Json) -> Result<Markup, Failure> {
    let groups: Vec<&str> = state["consumer_groups"].items().iter().map(|group| group["name"].text()).collect();
    let group = visit.parameter("group").or_else(|| groups.first().copied());
    let url = Url::api(["v1", "queues", queue, "peek"])
        .with("limit", PAGE)
        .with_some("group", group)
        .with_some("partition", visit.parameter("partition"));
    let found: Json = visit.get(&url).await?;
    let nothing = empty("Nothing waits", "This group has consumed every message.", "");
    let heads = ["Transaction", "Payload", "Partition", "Offset#", "Stored", "State", "Retries#"];
    let table = Table::new("Up next", &heads).or(nothing).rows(found["messages"].items(), |message| {
        vec![
            transaction(queue, message),
            payload(message),
            html! { (visible(message["partition"].text())) },
            html! { (message["offset"].shown()) },
            when(&message["created_at"], visit.now),
            html! {
                (status(&message["status"]))
                @if !message["leased_until"].is_null() { " " (when(&message["leased_until"], visit.now)) }
            },
            html! { (message["retries"].shown()) },
        ]
    });
    let label = |name: &str| if name == WITHOUT_GROUP { "without a group".to_owned() } else { visible(name) };
    let labels: Vec<String> = groups.iter().map(|name| label(name)).collect();
    let choices = groups.iter().copied().zip(labels.iter().map(String::as_str));
    let filter = Filter::of(visit).choice("group", "Group", choices).text("partition", "Partition");
    Ok(html! {
        (filter)
        p.quiet { "The oldest messages that " (group_name(group.unwrap_or(WITHOUT_GROUP))) " has not consumed. Looking leases nothing." }
        section data-live="next" { (table) }
    })
}
