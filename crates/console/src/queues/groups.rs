//! The consumer groups of a queue: how far they are, and what can be done with them.

use axum::http::Method;
use maud::{Markup, html};

use super::actions::literal;
use super::{group_name, seconds};
use crate::parts::value::visible;
use crate::parts::{Table, Tone, badge, empty, when};
use crate::{Action, Field, Json, Url, Visit};

pub(super) fn list(visit: &Visit, queue: &str, state: &Json) -> Markup {
    let nothing = empty(
        "No consumer groups",
        "A group is created by the first pop that names it. Each group reads all messages, from its own position.",
        &format!("reveille queue pop {} --group billing --ack", visible(queue)),
    );
    let heads = ["Group", "State", "Lag#", "Behind", "Partitions behind#", "Leases#", "Last pop", "Began", "Actions"];
    let heads = if visit.is_read_only() { &heads[..8] } else { &heads[..] };
    let table = Table::new("Consumer groups", heads).or(nothing).rows(state["consumer_groups"].items(), |group| {
        let mut cells = row(visit, queue, group);
        if !visit.is_read_only() {
            cells.push(html! { div.actions { @for action in actions(queue, group) { (action) } } });
        }
        cells
    });
    html! { section data-live="groups" { (table) } }
}

fn row(visit: &Visit, queue: &str, group: &Json) -> Vec<Markup> {
    let name = group["name"].text();
    let next = Url::link(["queues", queue]).with("tab", "next").with("group", name);
    let is_behind = group["lag"].integer() > Some(0);
    let state = match (group["paused_at"].is_null(), is_behind, group["leases"].integer() > Some(0)) {
        (false, ..) => badge(Tone::Warn, "paused"),
        (_, false, _) => badge(Tone::Good, "up to date"),
        (_, true, true) => badge(Tone::Busy, "reading"),
        (_, true, false) => badge(Tone::Warn, "lagging"),
    };
    vec![
        html! { a href=(next) { (group_name(name)) } },
        state,
        html! { (group["lag"].shown()) },
        html! { @if is_behind { (seconds(&group["lag_seconds"])) } },
        html! { (group["lagging_partitions"].shown()) " of " (group["partitions"].shown()) },
        html! { (group["leases"].shown()) },
        when(&group["last_pop_at"], visit.now),
        html! {
            @match group["subscription"].text() {
                "all" => "at the first message",
                "new" => "with new messages",
                _ => (when(&group["subscribed_from"], visit.now)),
            }
        },
    ]
}

fn actions(queue: &str, group: &Json) -> [Action; 4] {
    let name = group["name"].text();
    let is_paused = !group["paused_at"].is_null();
    let (label, verb, about) = if is_paused {
        ("Resume", "resume", "The group gets messages again.")
    } else {
        (
            "Pause",
            "pause",
            "The group gets nothing until it is resumed. What it has leased may still be acked. Other \
                            groups go on.",
        )
    };
    let seek = ["group", "seek", name, queue];
    let pause = Action::new(label, Method::POST, Url::api(["v1", "queues", queue, "groups", name, verb]));
    let mut pause = pause.about(about).command(["group", verb, name, queue]);
    if !is_paused {
        pause = pause.sql(&format!(
            "update consumer k set paused_at = now() from queue q where q.id = k.queue_id and q.name = {} and k.name = {};",
            literal(queue),
            literal(name)
        ));
    }
    let route = Url::api(["api", "v1", "consumer-groups", name, "queues", queue, "seek"]);
    let to_time = Action::new("Seek to a time", Method::POST, route.clone())
        .about(
            "The group continues with the first message that was stored at this time or later: it may read messages \
                again, or skip some. Its present leases are lost.",
        )
        .field(Field::time("timestamp", "Time").required())
        .destructive()
        .command(seek.into_iter().chain(["--to", "2h"]));
    let lag = group["lag"].shown();
    let to_end = Action::new("Seek to the end", Method::POST, route)
        .about(&format!("The group skips the {lag} messages that it has not consumed. Its present leases are lost."))
        .body("toEnd", true)
        .confirm_by_typing(name)
        .command(seek.into_iter().chain(["--end"]));
    let delete = Action::new(
        "Delete",
        Method::DELETE,
        Url::api(["api", "v1", "consumer-groups", name, "queues", queue]),
    )
    .about(&format!(
        "Deletes the group's positions in this queue; {lag} messages are not consumed. If it pops again, it begins \
             at the first message, unless the pop says otherwise."
    ))
    .confirm_by_typing(name)
    .command(["group", "delete", name, "--queue", queue]);
    [pause, to_time, to_end, delete]
}
