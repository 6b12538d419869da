//! `GET /console/queues`: the queues, with what waits in each.

use std::cmp::Ordering;

use axum::http::Method;
use maud::{Markup, html};

use super::{alarming, number, rate};
use crate::parts::value::visible;
use crate::parts::{Filter, Table, Tone, badge, empty, when};
use crate::{Action, Failure, Field, Json, Page, Section, Url, Visit};

/// Queues of a page.
const PAGE: u32 = 100;

pub(super) async fn list(visit: Visit) -> Result<Page, Failure> {
    let url = Url::api(["v1", "queues"])
        .with_some("search", visit.parameter("search"))
        .with_some("namespace", visit.parameter("namespace"))
        .with_some("after", visit.parameter("after"))
        .with("limit", PAGE);
    let found: Json = visit.get(&url).await?;
    let mut rows: Vec<&Json> = found["queues"].items().iter().collect();
    if let Some(order) = visit.parameter("sort") {
        rows.sort_by(|one, other| compare(order, one, other));
    }
    let heads =
        ["Queue", "Pushed#", "Acked#", "Depth#", "Leased#", "Oldest", "Groups#", "Partitions#", "Dead letters#"];
    let nothing = empty(
        "No queues",
        "A queue is created by the first push to it. Those that the filter matches appear here, with what waits in them.",
        "reveille queue push orders '{\"total\": 42}'",
    );
    let table = Table::new("Queues", &heads).rows(rows, |queue| row(&visit, queue)).or(nothing).pages(
        &visit,
        "after",
        &found["next"],
    );
    let orders = [("depth", "depth"), ("oldest", "oldest message"), ("rate", "pushes"), ("dead", "dead letters")];
    let filter = Filter::of(&visit).text("search", "Name contains").text("namespace", "Namespace").choice(
        "sort",
        "Order of this page",
        orders,
    );
    let content = html! {
        (filter)
        section data-live="queues" { (table) }
    };
    Ok(visit.page(Section::Queues, "Queues", content).live_on("queue").action(create()))
}

fn row(visit: &Visit, queue: &Json) -> Vec<Markup> {
    let name = queue["name"].text();
    let link = |tab: &str| Url::link(["queues", name]).with("tab", tab);
    vec![
        html! {
            a href=(Url::link(["queues", name])) { (visible(name)) }
            @if !queue["paused_at"].is_null() { " " (badge(Tone::Warn, "paused")) }
        },
        rate(&queue["pushed_per_second"]),
        rate(&queue["acked_per_second"]),
        number(&queue["depth"]),
        html! { (queue["leased"].shown()) },
        when(&queue["oldest_at"], visit.now),
        html! {
            a href=(link("groups")) { (queue["groups"].shown()) }
            @if queue["paused_groups"].integer() > Some(0) { " " (badge(Tone::Warn, "paused")) }
        },
        html! { a href=(link("partitions")) { (queue["partitions"].shown()) } },
        html! { a href=(link("dead-letters")) { (alarming(&queue["dead_letters"])) } },
    ]
}

/// What is worth a look first.
fn compare(order: &str, one: &Json, other: &Json) -> Ordering {
    let descending = |name: &str| {
        let value = |queue: &Json| queue[name].approximate().unwrap_or(-1.0);
        value(other).total_cmp(&value(one))
    };
    // No time comes last; times are text in one format.
    let oldest = |queue: &Json| (queue["oldest_at"].is_null(), queue["oldest_at"].text().to_owned());
    match order {
        "depth" => descending("depth"),
        "oldest" => oldest(one).cmp(&oldest(other)),
        "rate" => descending("pushed_per_second"),
        "dead" => descending("dead_letters"),
        _ => Ordering::Equal,
    }
}

fn create() -> Action {
    Action::new("New queue", Method::POST, Url::api(["api", "v1", "configure"]))
        .about("Creates a queue with the default options. A push creates a queue as well.")
        .field(Field::text("queue", "Name").required())
        .field(Field::text("namespace", "Namespace").note("By default the part of the name before its first dot."))
        .command(["queue", "configure", "NAME"])
}
