//! The page that explains why nothing is being asked: who waits for what, and what will end the wait.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use maud::{Markup, html};

use crate::page::{Page, Section};
use crate::parts::{Table, Tone, badge, duration, facts};
use crate::{Console, Failure, Json, Url, Visit};

pub(crate) fn routes() -> Router<Console> {
    Router::new().route("/wake", get(wake))
}

/// `GET /console/wake`
async fn wake(visit: Visit) -> Result<Page, Failure> {
    let found: Json = visit.get(&Url::api(["v1", "wake"])).await?;
    let content = html! {
        div data-live="summary" { (summary(&found)) }
        section aria-labelledby="groups" {
            h2 #groups { "Who waits for what" }
            div data-live="groups" { (groups(found["groups"].items())) }
        }
        section aria-labelledby="latency" {
            h2 #latency { "From a wake-up to its work" }
            div data-live="latency" { (latency(found["latency"].items())) }
        }
        section aria-labelledby="consumers" {
            h2 #consumers { "Consumers of this process" }
            div data-live="consumers" { (consumers(found["consumers"].items())) }
        }
    };
    Ok(visit.page(Section::Wake, "Wake", content))
}

fn seconds(of: &Json) -> String {
    duration(Duration::try_from_secs_f64(of.approximate().unwrap_or_default()).unwrap_or_default())
}

/// The answer in a sentence, then the facts.
fn summary(found: &Json) -> Markup {
    let listener = found["listener"].text();
    let groups = found["groups"].items();
    let asleep = groups.iter().filter(|group| group["state"].text() == "asleep").count();
    let polling = found["consumers"].items().iter().filter(|one| one["mode"].text() == "poll").count();
    let sentence = match (listener, polling) {
        ("connected", 0) if groups.is_empty() => {
            "No consumer waits. Notifications are received, so nothing has to be asked until one comes."
        }
        ("connected", 0) => {
            "Notifications are received, so sleeping waiters ask nothing: a wake-up, a due time or a new waiter begins \
             the next poll."
        }
        ("connected", _) => "A consumer polls after a fault; it sleeps again when polls have stayed empty for a while.",
        _ => "Notifications are not received, so consumers poll. Work is found later; nothing is lost.",
    };
    let tone = if listener == "connected" { Tone::Good } else { Tone::Warn };
    html! {
        p.lead { (sentence) }
        @if !found["reason"].is_null() { p.quiet { "The reason: " (found["reason"].text()) "." } }
        (facts([
            ("Listener", badge(tone, listener)),
            ("Groups asleep", html! { (asleep) " of " (groups.len()) }),
            ("Statements since the start", html! { (found["statements"].shown()) }),
            ("Activity", html! { (found["activity"].shown()) }),
        ]))
    }
}

/// What a group waits for. Consumers that have only one group have no name for it.
fn what(group: &Json) -> &str {
    match (group["consumer"].text(), group["what"].text()) {
        ("leases", "()") => "leases that run out",
        ("overdue", "()") => "tasks that exceed a limit",
        ("retention", "()") => "tasks that have been kept long enough",
        ("schedules", "()") => "times of schedules",
        ("change_watches", "Namespaces") => "changes of namespaces",
        (consumer, "()") => consumer,
        (_, what) => what,
    }
}

fn groups(items: &[Json]) -> Markup {
    let row = |one: &Json| {
        let (tone, state) = match one["state"].text() {
            "asleep" => (Tone::Quiet, "asleep"),
            "failing" => (Tone::Bad, "failing"),
            _ => (Tone::Busy, "polling"),
        };
        vec![
            html! { (what(one)) },
            html! { (one["consumer"].text()) },
            html! { (badge(tone, state)) },
            html! { (one["waiters"].shown()) },
            html! { (seconds(&one["waited_seconds"])) },
            match one["next_poll_seconds"].is_null() {
                true if state == "asleep" => html! { span.nowrap { "at a wake-up" } },
                true => html! { "now" },
                false => html! { "in " (seconds(&one["next_poll_seconds"])) },
            },
        ]
    };
    let heads = ["Waits for", "Consumer", "State", "Waiters#", "Waited#", "Next poll"];
    let none = crate::parts::empty(
        "No consumer waits",
        "A waiting pop or a worker's claim appears here, with what it waits for.",
        "curl \"$REVEILLE_URL/api/v1/pop/queue/orders?wait=true\"",
    );
    html! { (Table::new("Groups of waiters", &heads).rows(items, row).or(none)) }
}

/// A histogram as rows with bars, so that it can be read as text.
fn latency(buckets: &[Json]) -> Markup {
    let count = |one: &Json| one["count"].integer().unwrap_or_default();
    let most = buckets.iter().map(count).max().unwrap_or_default().max(1);
    let total: i64 = buckets.iter().map(count).sum();
    if total == 0 {
        return html! { p.quiet { "No wake-up has brought work yet." } };
    }
    let last = buckets.iter().rposition(|one| count(one) > 0).unwrap_or_default();
    html! {
        div.scroll role="region" aria-label="Latency histogram" tabindex="0" {
            table.histogram {
                caption { "How long after a wake-up its work was there" }
                thead { tr { th scope="col" { "Up to" } th.number scope="col" { "Wake-ups" } th scope="col" { "Share" } } }
                tbody {
                    @for one in &buckets[..=last] {
                        tr {
                            th scope="row" { @if one["le_ms"].is_null() { "more" } @else { (one["le_ms"].shown().trim_end_matches(".0")) " ms" } }
                            td.number { (count(one)) }
                            td {
                                svg.histobar viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
                                    rect width=(count(one) * 100 / most) height="10" rx="1" {}
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn consumers(items: &[Json]) -> Markup {
    let is_used = |one: &&Json| ["waiters", "groups", "polls"].iter().any(|name| one[*name].integer() > Some(0));
    let unused: Vec<&str> = items.iter().filter(|one| !is_used(one)).map(|one| one["name"].text()).collect();
    let row = |one: &Json| {
        let polls = one["mode"].text() == "poll";
        vec![
            html! { (one["name"].text()) },
            badge(if polls { Tone::Warn } else { Tone::Good }, one["mode"].text()),
            html! { (one["waiters"].shown()) },
            html! { (one["asleep"].shown()) " / " (one["groups"].shown()) },
            html! { (one["polls"].shown()) },
            html! { (one["empty_polls"].shown()) },
            html! { (one["failed_polls"].shown()) },
            html! { (one["sweeps"].shown()) },
            html! { (one["items"].shown()) },
        ]
    };
    let heads =
        ["Consumer", "Mode", "Waiters#", "Asleep / groups#", "Polls#", "Empty#", "Failed#", "Sweeps#", "Items#"];
    html! {
        @if unused.len() < items.len() { (Table::new("Consumers", &heads).rows(items.iter().filter(is_used), row)) }
        @if !unused.is_empty() { p.quiet { "Not used yet: " (unused.join(", ")) "." } }
    }
}
