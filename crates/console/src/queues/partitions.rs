//! The partitions of a queue: positions, lags, leases and retries of each consumer group.

use maud::{Markup, html};

use super::{group_name, seconds};
use crate::parts::value::visible;
use crate::parts::{Filter, Table, Tone, badge, empty, when};
use crate::{Failure, Json, Url, Visit};

/// Partitions of a page.
const PAGE: u32 = 50;

pub(super) async fn list(visit: &Visit, queue: &str) -> Result<Markup, Failure> {
    let mut url = Url::api(["v1", "queues", queue, "partitions"]).with("limit", PAGE);
    for name in ["partition", "state", "after"] {
        url = url.with_some(name, visit.parameter(name));
    }
    let found: Json = visit.get(&url).await?;
    // A row for each group of a partition; one without groups has a row as well.
    let rows = found["partitions"].items().iter().flat_map(|partition| {
        let cursors = partition["cursors"].items();
        let lonely = cursors.is_empty().then_some((partition, &Json::Null));
        cursors.iter().map(move |cursor| (partition, cursor)).chain(lonely)
    });
    let heads = ["Partition", "Group", "Position#", "Next offset#", "Lag#", "Behind", "Lease", "Retries#", "Last pop"];
    let nothing = empty("No partitions", "A partition is created by the first push that names it.", "");
    let table = Table::new("Partitions", &heads)
        .rows(rows, |(partition, cursor)| row(visit, queue, partition, cursor))
        .or(nothing)
        .pages(visit, "after", &found["next"]);
    let states = [("waiting", "with messages to read"), ("leased", "leased"), ("retrying", "retrying")];
    let filter = Filter::of(visit).text("partition", "Name").choice("state", "State", states);
    Ok(html! {
        (filter)
        section data-live="partitions" { (table) }
    })
}

fn row(visit: &Visit, queue: &str, partition: &Json, cursor: &Json) -> Vec<Markup> {
    let name = partition["name"].text();
    let messages = Url::link(["queues", queue]).with("partition", name);
    let behind = cursor["lag"].integer() > Some(0);
    vec![
        html! { a href=(messages) { (visible(name)) } },
        if cursor.is_null() {
            html! { span.quiet { "no group yet" } }
        } else {
            group_name(cursor["group"].text())
        },
        html! { (cursor["position"].shown()) },
        html! { (partition["next_offset"].shown()) },
        html! { (cursor["lag"].shown()) },
        html! { @if behind { (seconds(&cursor["lag_seconds"])) } },
        lease(visit, cursor),
        html! { @if cursor["retries"].integer() > Some(0) { (badge(Tone::Warn, &cursor["retries"].shown())) } @else { (cursor["retries"].shown()) } },
        when(&cursor["last_pop_at"], visit.now),
    ]
}

/// Who has it until when; otherwise when it can be read.
fn lease(visit: &Visit, cursor: &Json) -> Markup {
    if let Some(lease) = cursor["lease_id"].as_text() {
        return html! {
            (badge(Tone::Busy, &format!("{} leased", cursor["leased"].shown()))) " until " (when(&cursor["leased_until"], visit.now))
            " " code.quiet title="The lease" { (lease) }
        };
    }
    html! { @if !cursor["due_at"].is_null() && cursor["lag"].integer() > Some(0) { span.quiet { "due " } (when(&cursor["due_at"], visit.now)) } }
}
