//! Workers: what each of them waits for, and the steps that it holds.

use std::time::Duration;

use maud::{Markup, html};

use super::one::step_page;
use super::views;
use crate::parts::{Filter, Table, Tone, badge, duration, empty, when};
use crate::{Failure, Json, Page, Section, Url, Visit};

/// Names of a claim, and held steps, that are shown.
const SHOWN: usize = 5;
/// A worker that asked less than this long ago is between two claims.
const RECENT: Duration = Duration::from_secs(5);

/// `GET /console/tasks/workers`
pub(super) async fn list(visit: Visit) -> Result<Page, Failure> {
    let url = ["namespace", "step"]
        .into_iter()
        .fold(Url::api(["v1", "workers"]), |url, name| url.with_some(name, visit.parameter(name)));
    let found: Json = visit.get(&url).await?;
    let table = Table::new("Workers", &["Worker", "State", "Waits for", "Holds#", "Steps"])
        .rows(found["workers"].items(), |worker| {
            vec![
                html! { (worker["worker"].text()) },
                state(worker),
                html! { @for claim in worker["claims"].items() { div { (claimed(claim)) } } },
                html! { (worker["in_progress"].shown()) },
                held(&visit, worker),
            ]
        })
        .or(empty(
            "No workers",
            "A worker that claims steps from this server appears here, and any worker that holds a step.",
            "python3 examples/flow/worker.py http://127.0.0.1:6632 words",
        ));
    let content = html! {
        (views("workers"))
        (Filter::of(&visit).text("namespace", "Namespace").text("step", "Step name"))
        section data-live="workers" {
            (table)
            @if found["more"].is_true() { p.quiet { "There are more; use the filter." } }
            p.quiet { "Workers that wait at other servers are not listed, unless they hold a step." }
        }
    };
    Ok(visit.page(Section::Tasks, "Workers", content).live_on("flow"))
}

fn state(worker: &Json) -> Markup {
    let waits = worker["claims"].items().iter().any(|claim| claim["waiting"].integer() > Some(0));
    match (worker["in_progress"].integer().unwrap_or_default(), waits) {
        (1.., _) => badge(Tone::Busy, "works"),
        (_, true) => badge(Tone::Good, "waits"),
        _ => badge(Tone::Quiet, "away"),
    }
}

fn claimed(claim: &Json) -> Markup {
    let names = |names: &Json| {
        let names = names.items();
        let first = names.iter().take(SHOWN).map(Json::text).collect::<Vec<_>>().join(", ");
        if names.len() > SHOWN { format!("{first} and {} more", names.len() - SHOWN) } else { first }
    };
    let ago = Duration::from_millis(claim["last_ms"].integer().unwrap_or_default().unsigned_abs());
    html! {
        @if claim["steps"].is_null() { "all steps" } @else { (names(&claim["steps"])) }
        @if !claim["except"].items().is_empty() { " except " (names(&claim["except"])) }
        " in " (names(&claim["namespaces"]))
        @if claim["waiting"].integer() == Some(0) && ago > RECENT { small.quiet { ", until " (duration(ago)) " ago" } }
    }
}

fn held(visit: &Visit, worker: &Json) -> Markup {
    let steps = worker["steps"].items();
    html! {
        @for step in steps.iter().take(SHOWN) {
            div {
                a href=(step_page(step["task_uuid"].text(), step["step"].text())) { (step["step"].text()) }
                small.quiet { " lease ends " (when(&step["lease_ends_at"], visit.now)) }
            }
        }
        @if steps.len() > SHOWN { small.quiet { "and more" } }
    }
}
