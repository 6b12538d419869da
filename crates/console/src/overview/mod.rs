//! The first page: what needs attention, what waits longest, rates of the last half hour.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use maud::{Markup, html};

use crate::page::{Page, Section};
use crate::parts::{Plot, Table, Tone, badge, duration};
use crate::{Console, Failure, Json, Url, Visit};

pub(crate) fn routes() -> Router<Console> {
    Router::new().route("/", get(overview))
}

/// How to see something happen on a server without work.
const FIRST_STEPS: &str = "curl -X POST \"$REVEILLE_URL\"/api/v1/push -H 'content-type: application/json' \\\n  \
     -d '{\"items\": [{\"queue\": \"orders\", \"payload\": {\"total\": 42}}]}'";

/// `GET /console`
pub(crate) async fn overview(visit: Visit) -> Result<Page, Failure> {
    let found: Json = visit.get(&Url::api(["v1", "overview"])).await?;
    let is_fresh = found["amounts"].items().iter().all(|one| one["amount"].integer().unwrap_or_default() == 0);
    let content = html! {
        section aria-labelledby="attention" {
            h2.first #attention { "Attention" }
            div data-live="attention" aria-live="polite" { (attention(found["attention"].items())) }
        }
        div data-live="amounts" { (amounts(found["amounts"].items())) }
        @if is_fresh {
            section { (crate::parts::empty("Nothing has happened yet", "Push a message, and watch it arrive here.", FIRST_STEPS)) }
        }
        section aria-labelledby="rates" {
            h2 #rates { "Last half hour" }
            div.plots data-live="rates" { (rates(&found["rates"])) }
        }
        section aria-labelledby="waiting" {
            h2 #waiting { "Waiting longest" }
            div data-live="waiting" { (waiting(found["waiting"].items())) }
        }
    };
    Ok(visit.page(Section::Overview, "Overview", content))
}

fn attention(items: &[Json]) -> Markup {
    html! {
        @if items.is_empty() {
            p.calm { (badge(Tone::Good, "all well")) " Nothing is stuck, failing or lagging." }
        } @else {
            ul.attention {
                @for item in items {
                    @let tone = if item["severity"].text() == "bad" { Tone::Bad } else { Tone::Warn };
                    li.(tone.class()) {
                        (badge(tone, product(item["product"].text())))
                        div {
                            a href=(item["link"].text()) { (item["title"].text()) }
                            p { (item["about"].text()) }
                        }
                    }
                }
            }
        }
    }
}

/// The name of a product, as the navigation has it.
fn product(name: &str) -> &str {
    match name {
        "queue" => "queues",
        "flow" => "tasks",
        other => other,
    }
}

fn amounts(items: &[Json]) -> Markup {
    html! {
        div.cards {
            @for (name, title, link) in [("queue", "Queues", "queues"), ("flow", "Tasks", "tasks"), ("durable", "Durable", "durable")] {
                @let own = items.iter().filter(|one| one["product"].text() == name).collect::<Vec<_>>();
                section.card {
                    h2 { a href=(Url::link([link])) { (title) } }
                    @if own.is_empty() { p.quiet { "Nothing yet." } }
                    dl { @for one in own { div { dt { (one["what"].text()) } dd { (one["amount"].shown()) } } } }
                }
            }
        }
    }
}

fn series(rates: &Json, name: &str) -> Vec<Option<f64>> {
    rates[name].items().iter().map(Json::approximate).collect()
}

fn rates(rates: &Json) -> Markup {
    let plot = |title: &str, unit| Plot::new(title, unit).since("30 min ago");
    html! {
        (plot("Messages", "/s").line("pushed", series(rates, "pushed")).line("acked", series(rates, "acked"))
            .line("failed", series(rates, "failed")))
        (plot("Steps claimed", "/s").line("steps", series(rates, "steps")))
        (plot("Wake-up to work", "ms").line("median", series(rates, "wake_p50_ms")).line("99 %", series(rates, "wake_p99_ms")))
        (plot("Statements to the database", "/s").line("statements", series(rates, "statements")))
    }
}

fn waiting(items: &[Json]) -> Markup {
    let row = |one: &Json| {
        let seconds = one["oldest_seconds"].approximate().unwrap_or_default();
        let oldest = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        vec![
            html! { a href=(one["link"].text()) { (one["what"].text()) } },
            html! { (product(one["product"].text())) },
            html! { (one["amount"].shown()) },
            html! { (duration(oldest)) },
        ]
    };
    let none = html! { p.quiet { "Nothing waits." } };
    html! { (Table::new("Waiting longest", &["What", "Product", "Amount#", "Oldest#"]).rows(items, row).or(none)) }
}
