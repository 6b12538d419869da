//! `GET /console/durable/{instance}`: one instance.

use axum::extract::Path;
use maud::{Markup, html};

use super::{PRODUCT, actions, api, history, link, tone};
use crate::page::{Page, Section};
use crate::parts::value::visible;
use crate::parts::{Table, badge, empty, facts, tabs, value, when};
use crate::{Failure, Json, Url, Visit};

/// Instances of the tree.
const TREE: u32 = 200;
/// Executions of a page.
const EXECUTIONS: u32 = 50;
/// Events that have an action of their own.
const EVENTS_OFFERED: usize = 3;

const TABS: [(&str, &str); 5] = [
    ("history", "History"),
    ("waiting", "Waiting"),
    ("children", "Sub-orchestrations"),
    ("executions", "Executions"),
    ("keys", "Keys"),
];

pub(super) async fn instance(Path(id): Path<String>, visit: Visit) -> Result<Page, Failure> {
    let it: Json = visit.get(&api(&id, [])).await?;
    let (tab, navigation) = tabs(&visit, &TABS);
    let content = match tab {
        "waiting" => waiting(&id, &it, &visit),
        "children" => children(&id, &visit).await?,
        "executions" => executions(&id, &visit).await?,
        "keys" => keys(&id, &visit).await?,
        _ => history::history(&id, &visit).await?,
    };
    let content = html! {
        section data-live="state" { (state(&it, &visit)) }
        (navigation)
        section data-live=(tab) { (content) }
    };
    let has_ended = ["Completed", "Failed"].contains(&it["status"].text());
    let mut page = visit.page(Section::Durable, &visible(&id), content).within("Durable", Url::link(["durable"]));
    page = page.live_on(PRODUCT);
    if !has_ended {
        let waits_for = it["waits_for"].items().iter().map(Json::text);
        let mut offered: Vec<&str> = visit.parameter("event").into_iter().chain(waits_for).collect();
        offered.dedup();
        for event in offered.into_iter().take(EVENTS_OFFERED) {
            page = page.action(actions::raise(&id, event));
        }
        page = page.action(actions::cancel(&id));
    }
    Ok(page.action(actions::delete(&id, has_ended)))
}

/// The state, the reason, and the output.
fn state(it: &Json, visit: &Visit) -> Markup {
    let status = it["status"].text();
    let mut all = vec![
        ("State", badge(tone(status), status)),
        ("Orchestration", html! { (visible(it["name"].text())) " " (visible(it["version"].text())) }),
        ("Execution", html! { (it["execution"].shown()) }),
        ("Created", when(&it["created_at"], visit.now)),
        ("Changed", when(&it["updated_at"], visit.now)),
    ];
    if let Some(parent) = it["parent"].as_text() {
        all.push(("Parent", html! { a href=(link(parent)) { (visible(parent)) } }));
    }
    if let Some(custom) = it["custom_status"].as_text() {
        all.push(("Custom status", html! { (visible(custom)) }));
    }
    if it["lease"]["held"].is_true() {
        all.push(("Lease until", when(&it["lease"]["until"], visit.now)));
    }
    html! {
        p.lead {
            @if status == "Completed" { "It completed " (when(&it["completed_at"], visit.now)) "." }
            @else { (visible(it["reason"].text())) }
        }
        (facts(all))
        @if !it["output_bytes"].is_null() {
            h2 { @if status == "Failed" { "Error" } @else { "Output" } }
            @match it["output"].as_text() {
                Some(output) => (payload(output)),
                None => p.quiet { (it["output_bytes"].shown()) " bytes, which are not shown here" },
            }
        }
    }
}

/// A payload of duroxide: a text, which often is JSON.
fn payload(text: &str) -> Markup {
    match Json::parse(text) {
        Ok(json) => value(&json),
        Err(_) => value(&Json::from(text)),
    }
}

/// Messages, activities, and events that are waited for.
fn waiting(id: &str, it: &Json, visit: &Visit) -> Markup {
    let messages =
        Table::new("Messages", &["Message", "Name", "Due", "Attempts#"]).rows(it["messages"].items(), |message| {
            vec![
                html! { (message["kind"].text()) },
                html! { (visible(message["name"].text())) },
                match message["due_at"].is_null() {
                    true => html! { "when it has been started" },
                    false => when(&message["due_at"], visit.now),
                },
                html! { (message["attempts"].shown()) },
            ]
        });
    let messages = messages.or(empty("No messages", "Timers, results and events that wait for this instance.", ""));
    let heads = ["Activity", "Event#", "State", "Due", "Leased until", "Attempts#", "Tag"];
    let activities = Table::new("Activities", &heads).rows(it["activities"].items(), |activity| {
        let state = match (activity["is_running"].is_true(), activity["is_due"].is_true()) {
            (true, _) => badge(crate::parts::Tone::Busy, "running"),
            (false, true) => badge(crate::parts::Tone::Warn, "waiting for a worker"),
            (false, false) => badge(crate::parts::Tone::Quiet, "retried later"),
        };
        vec![
            html! { (visible(activity["name"].text())) },
            html! { (activity["event_id"].shown()) },
            state,
            when(&activity["due_at"], visit.now),
            when(&activity["leased_until"], visit.now),
            html! { (activity["attempts"].shown()) },
            html! { (visible(activity["tag"].text())) },
        ]
    });
    let activities = activities.or(empty("No activities", "Activities that have not ended.", ""));
    let events = it["waits_for"].items();
    html! {
        h2 { "Events" }
        @if events.is_empty() { p.quiet { "It waits for no event." } } @else {
            ul { @for event in events { li { code { (visible(event.text())) } } } }
        }
        // The name of an event is a part of its address, so it is chosen first.
        @if it["completed_at"].is_null() { form.filter method="get" action=(link(id)) {
            input type="hidden" name="tab" value="waiting";
            label { span { "Raise another event" } input type="text" name="event" required autocomplete="off" spellcheck="false" value=[visit.parameter("event")]; }
            button type="submit" { "Choose" }
        } }
        h2 { "Messages" @if it["more_messages"].is_true() { " (the first 50)" } }
        (messages)
        h2 { "Activities" @if it["more_activities"].is_true() { " (the first 50)" } }
        (activities)
    }
}

/// The tree of sub-orchestrations, with indentation by level.
async fn children(id: &str, visit: &Visit) -> Result<Markup, Failure> {
    let tree: Json = visit.get(&api(id, ["children"]).with("limit", TREE)).await?;
    let nodes = tree["instances"].items();
    if nodes.len() < 2 {
        let about = "What this instance starts as a sub-orchestration is shown here as a tree.";
        return Ok(empty("No sub-orchestrations", about, ""));
    }
    Ok(html! {
        ul.tree { (branch(&nodes[0], nodes, visit)) }
        @if tree["truncated"].is_true() { p.quiet { "There are more than " (TREE) " instances." } }
    })
}

/// An instance and those below it. The API answers level by level, and bounds both levels and instances.
fn branch(node: &Json, nodes: &[Json], visit: &Visit) -> Markup {
    let (instance, status) = (node["instance"].text(), node["status"].text());
    let below: Vec<&Json> = nodes.iter().skip(1).filter(|child| child["parent"].text() == instance).collect();
    html! {
        li {
            a href=(link(instance)) { (visible(instance)) } " " (badge(tone(status), status))
            " " small { (visible(node["name"].text())) " · " (when(&node["updated_at"], visit.now)) }
            @if !below.is_empty() { ul { @for child in below { (branch(child, nodes, visit)) } } }
        }
    }
}

async fn executions(id: &str, visit: &Visit) -> Result<Markup, Failure> {
    let url = api(id, ["executions"]).with("limit", EXECUTIONS).with_some("before", visit.parameter("before"));
    let page: Json = visit.get(&url).await?;
    let heads = ["Execution", "State", "Began", "Ended", "Events#", "Output#"];
    let table = Table::new("Executions", &heads).rows(page["executions"].items(), |it| {
        let (number, status) = (it["execution"].shown(), it["status"].text());
        let bytes = it["output_bytes"].shown();
        vec![
            html! { a href=(link(id).with("execution", &number)) { (number) } },
            badge(tone(status), status),
            when(&it["started_at"], visit.now),
            when(&it["completed_at"], visit.now),
            html! { (it["events"].shown()) },
            html! { @if !bytes.is_empty() { (bytes) " bytes" } },
        ]
    });
    let about = "Each time it continues as new, another execution begins.";
    Ok(html! { (table.or(empty("No executions yet", about, "")).pages(visit, "before", &page["next"])) })
}

async fn keys(id: &str, visit: &Visit) -> Result<Markup, Failure> {
    let page: Json = visit.get(&api(id, ["keys"]).with_some("after", visit.parameter("after"))).await?;
    let table = Table::new("Keys", &["Key", "Value", "Set"]).rows(page["keys"].items(), |it| {
        let shown = match it["value"].as_text() {
            Some(text) => payload(text),
            None => html! { span.quiet { (it["value_bytes"].shown()) " bytes, which are not shown here" } },
        };
        vec![html! { (visible(it["key"].text())) }, shown, when(&it["updated_at"], visit.now)]
    });
    let about = "What the orchestration stores with set_kv_value is shown here.";
    Ok(html! { (table.or(empty("No keys", about, "")).pages(visit, "after", &page["next"])) })
}
