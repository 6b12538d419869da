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

/// What the rates of the API cover.
const MINUTES: usize = 30;

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
            h2 #rates { "Rates" }
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

/// How many of the latest points are drawn: all since the first value, at least a sixth, so that the plots of a server
/// that has just begun are not empty.
fn shown(all: &[Vec<Option<f64>>]) -> usize {
    let whole = all.iter().map(Vec::len).max().unwrap_or_default();
    let known = |own: &Vec<Option<f64>>| own.iter().position(Option::is_some).map(|first| own.len() - first);
    all.iter().filter_map(known).max().unwrap_or(whole).max(whole / 6)
}

fn rates(rates: &Json) -> Markup {
    let names = ["pushed", "acked", "failed", "steps", "wake_p50_ms", "wake_p99_ms", "statements"];
    let all = names.map(|name| series(rates, name));
    let shown = shown(&all);
    let whole = all.iter().map(Vec::len).max().unwrap_or_default();
    let series = |name: &str| {
        let own = series(rates, name);
        own[own.len().saturating_sub(shown)..].to_vec()
    };
    let since = format!("{} min ago", (MINUTES * shown).div_ceil(whole.max(1)));
    let plot = |title: &str, unit| Plot::new(title, unit).since(&since);
    html! {
        (plot("Messages", "/s").line("pushed", series("pushed")).line("acked", series("acked"))
            .line("failed", series("failed")))
        (plot("Steps claimed", "/s").line("steps", series("steps")))
        (plot("Wake-up to work", "ms").line("median", series("wake_p50_ms")).line("99 %", series("wake_p99_ms")))
        (plot("Statements to the database", "/s").line("statements", series("statements")))
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
    html! { (Table::new("Items by age", &["What", "Product", "Amount#", "Oldest#"]).rows(items, row).or(none)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points before the first value are not drawn, but a sixth always is.
    #[test]
    fn plots_begin_with_the_first_value() {
        let none = vec![None; 12];
        let late = [vec![None; 7], vec![Some(1.0); 5]].concat();
        let latest = [vec![None; 11], vec![Some(1.0)]].concat();
        assert_eq!(shown(&[none.clone(), late]), 5);
        assert_eq!(shown(&[latest, none.clone()]), 2);
        assert_eq!((shown(&[none]), shown(&[])), (12, 0));
    }
}
