//! `GET /console/durable`: instances by state, name, version and id.

use maud::{Markup, html};

use super::actions;
use super::{PRODUCT, link, tone};
use crate::page::{Page, Section};
use crate::parts::value::visible;
use crate::parts::{Filter, Table, badge, duration, empty, facts, when};
use crate::{Failure, Json, Url, Visit};

/// Instances of a page.
const PAGE: u32 = 50;
/// Requests for one page: each scans a limited number of instances, and may find none.
const REQUESTS_MAX: usize = 5;

const EXAMPLE: &str = "reveille durable start hello-1 Hello --text World";
/// The parameters that the API has as well.
const PARAMETERS: [&str; 6] = ["status", "name", "version", "prefix", "created_after", "created_before"];
const STATES: [(&str, &str); 4] =
    [("Running", "Running"), ("Completed", "Completed"), ("Failed", "Failed"), ("Pending", "Pending: not begun")];

pub(super) async fn list(visit: Visit) -> Result<Page, Failure> {
    let mut url =
        Url::api(["v1", "durable", "instances"]).with("limit", PAGE).with_some("after", visit.parameter("after"));
    for name in PARAMETERS {
        url = url.with_some(name, visit.parameter(name));
    }
    let mut page: Json = visit.get(&url).await?;
    for _ in 1..REQUESTS_MAX {
        if !page["instances"].items().is_empty() || page["next"].is_null() {
            break;
        }
        page = visit.get(&url.clone().with("after", page["next"].text())).await?;
    }
    // The list is worth more than the figures, which may not have been read yet.
    let figures: Json = visit.get(&Url::api(["v1", "durable", "figures"])).await.unwrap_or(Json::Null);
    let filter = Filter::of(&visit)
        .text("prefix", "Id begins with")
        .choice("status", "State", STATES)
        .text("name", "Orchestration")
        .text("version", "Version")
        .text("created_after", "Created since");
    let about = "An instance is a running orchestration. Your own program runs them, with the crate reveille-durable.";
    let is_filtered = PARAMETERS.iter().any(|name| visit.parameter(name).is_some());
    let nothing = match is_filtered {
        true => empty("No instance matches", "Clear the filter to see all of them.", ""),
        false => empty("No instances yet", about, EXAMPLE),
    };
    let heads = ["Instance", "State", "Orchestration", "Custom status", "Execution#", "Created", "Changed"];
    let table = Table::new("Instances", &heads)
        .rows(page["instances"].items(), |it| row(it, &visit))
        .or(nothing)
        .pages(&visit, "after", &page["next"]);
    let content = html! {
        (filter)
        section data-live="list" {
            (summary(&figures))
            (table)
        }
    };
    let page = visit.page(Section::Durable, "Durable", content).live_on(PRODUCT);
    Ok(page.action(actions::start()).action(actions::prune(&visit)).action(actions::prune_executions(&visit)))
}

fn row(it: &Json, visit: &Visit) -> Vec<Markup> {
    let (instance, status) = (it["instance"].text(), it["status"].text());
    vec![
        html! { a href=(link(instance)) { (visible(instance)) } @if !it["parent"].is_null() { " " small { "child" } } },
        badge(tone(status), status),
        html! { (visible(it["name"].text())) " " small { (visible(it["version"].text())) } },
        html! { (visible(it["custom_status"].text())) },
        html! { (it["execution"].shown()) },
        when(&it["created_at"], visit.now),
        when(&it["updated_at"], visit.now),
    ]
}

/// Instances by state, and what waits.
fn summary(figures: &Json) -> Markup {
    if figures.is_null() {
        return html! {};
    }
    let amount = |number: &Json| html! { (number.shown()) };
    let aged = |number: &Json, oldest: &Json| {
        let oldest = oldest.integer().map(|millis| duration(std::time::Duration::from_millis(millis.max(0) as u64)));
        html! { (number.shown()) @if let Some(oldest) = oldest { " " small { "oldest " (oldest) } } }
    };
    let mut all: Vec<(&str, Markup)> = figures["instances"]
        .items()
        .iter()
        .map(|count| {
            let url = Url::link(["durable"]).with("status", count["status"].text());
            (count["status"].text(), html! { a href=(url) { (amount(&count["instances"])) } })
        })
        .collect();
    all.push(("Running turns", amount(&figures["turns"])));
    all.push(("Due messages", aged(&figures["messages"], &figures["oldest_message_ms"])));
    all.push(("Running activities", amount(&figures["activities_running"])));
    all.push(("Waiting activities", aged(&figures["activities_waiting"], &figures["oldest_activity_ms"])));
    facts(all)
}
