//! Templates, and one of them with its graph.

use axum::extract::Path;
use maud::html;

use super::submit::submit;
use super::views;
use crate::graph::{self, Node};
use crate::parts::{Filter, Table, Tone, empty, facts, value, when};
use crate::{Failure, Json, Page, Section, Url, Visit};

/// The most nodes that are drawn.
const NODES_MAX: usize = 500;

/// `GET /console/tasks/templates`
pub(super) async fn list(visit: Visit) -> Result<Page, Failure> {
    let url = ["namespace", "name", "after"]
        .into_iter()
        .fold(Url::api(["v1", "templates"]).with("limit", 50), |url, name| url.with_some(name, visit.parameter(name)));
    let found: Json = visit.get(&url).await?;
    let table = Table::new("Templates", &["Template", "Namespace", "Version", "Steps#", "Registered", "Description"])
        .rows(found["templates"].items(), |template| {
            let address = ["namespace", "name", "version"].map(|it| template[it].text());
            vec![
                html! { a href=(Url::link(["tasks", "templates"].into_iter().chain(address))) { (address[1]) } },
                html! { (address[0]) },
                html! { (address[2]) },
                html! { (template["step_count"].shown()) },
                when(&template["created_at"], visit.now),
                html! { (template["description"].text()) },
            ]
        })
        .or(empty(
            "No templates",
            "A template names the steps of a task and their dependencies. Register one:",
            "reveille template register order.yaml",
        ))
        .pages(&visit, "after", &found["next"]);
    let content = html! {
        (views("templates"))
        (Filter::of(&visit).text("name", "Name").text("namespace", "Namespace"))
        section data-live="templates" { (table) }
    };
    Ok(visit.page(Section::Tasks, "Templates", content).live_on("flow"))
}

/// `GET /console/tasks/templates/{namespace}/{name}/{version}`
pub(super) async fn one(
    visit: Visit,
    Path((namespace, name, version)): Path<(String, String, String)>,
) -> Result<Page, Failure> {
    let template: Json = visit.get(&Url::api(["v1", "templates", &namespace, &name, &version])).await?;
    let steps = template["steps"].items();
    let nodes: Vec<Node> = steps
        .iter()
        .map(|step| Node {
            name: step["name"].text().to_owned(),
            state: step["type"].text().replace('_', " "),
            tone: Tone::Quiet,
            title: step["description"].text().to_owned(),
            link: None,
            is_stack: step["type"].text() == "batch_worker",
        })
        .collect();
    let at = |name: &str| steps.iter().position(|step| step["name"].text() == name);
    let content = html! {
        @if !template["description"].text().is_empty() { p { (template["description"].text()) } }
        (facts([
            ("Namespace", html! { (namespace) }),
            ("Version", html! { (version) }),
            ("Steps", html! { (steps.len()) }),
            ("Duplicates", html! { (template["identity_strategy"].text().replace('_', " ")) }),
            ("Tasks", html! { a href=(Url::link(["tasks"]).with("namespace", &namespace).with("name", &name)) { "Tasks of this template" } }),
        ]))
        @if nodes.len() <= NODES_MAX {
            @let edges: Vec<(usize, usize)> = steps.iter().enumerate().flat_map(|(to, step)| {
                step["dependencies"].items().iter().filter_map(move |parent| Some((at(parent.text())?, to)))
            }).collect();
            (graph::draw("Steps and their dependencies", &nodes, &edges, &graph::layout(nodes.len(), &edges)))
        }
        (Table::new("Steps", &["Step", "Type", "Handler", "Attempts#", "Backoff", "Timeout"]).rows(steps, |step| vec![
            html! { (step["name"].text()) },
            html! { (step["type"].text().replace('_', " ")) },
            html! { code { (step["handler"]["callable"].text()) } },
            html! { @if step["retry"]["retryable"].is_true() { (step["retry"]["max_attempts"].shown()) } @else { "1" } },
            html! { (step["retry"]["backoff"].text()) ", " (step["retry"]["backoff_base_ms"].shown()) " ms" },
            html! { @if !step["timeout_seconds"].is_null() { (step["timeout_seconds"].shown()) " s" } },
        ]))
        h2 { "As it was registered" }
        (value(&template))
    };
    Ok(visit
        .page(Section::Tasks, &name, content)
        .within("Tasks", Url::link(["tasks"]))
        .within("Templates", Url::link(["tasks", "templates"]))
        .action(submit(&template, false))
        .action(submit(&template, true)))
}
