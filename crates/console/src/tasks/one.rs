//! One task: its graph, the reason why each step waits, its attempts over time, its context and history.

use std::collections::HashMap;

use axum::extract::Path;
use axum::http::Method;
use maud::{Markup, html};

use super::{by, gantt, state, task_page};
use crate::graph::{self, Node};
use crate::parts::{Table, Tone, facts, tabs, value, when};
use crate::{Action, Failure, Field, Json, Page, Section, Url, Visit};

/// The most nodes that are drawn; a larger graph is a table only.
const NODES_MAX: usize = 500;

/// `GET /console/tasks/{task}`
pub(super) async fn one(visit: Visit, Path(id): Path<String>) -> Result<Page, Failure> {
    let task: Json = visit.get(&Url::api(["v1", "tasks", &id])).await?;
    let (chosen, tabs) = tabs(
        &visit,
        &[("graph", "Graph and steps"), ("time", "Attempts over time"), ("context", "Context"), ("history", "History")],
    );
    let part = match chosen {
        "time" => {
            let attempts: Json = visit.get(&Url::api(["v1", "tasks", &id, "attempts"])).await?;
            gantt::draw(&visit, &id, attempts["attempts"].items())
        }
        "context" => html! { h2 { "Context" } (value(&task["context"])) },
        "history" => history(&visit, &id).await?,
        _ => {
            let waiting: Json = visit.get(&Url::api(["v1", "tasks", &id, "waiting"])).await?;
            let address = ["namespace", "name", "version"].map(|name| task[name].text());
            let template: Json = visit.get(&Url::api(["v1", "templates"].into_iter().chain(address))).await?;
            steps(&visit, &id, &task, &waiting, &template)
        }
    };
    let content = html! {
        section data-live="task" { (summary(&visit, &task)) }
        (tabs)
        section data-live=(chosen) { (part) }
    };
    let title = format!("{} {}", task["name"].text(), task["version"].text());
    let page = visit.page(Section::Tasks, &title, content).within("Tasks", Url::link(["tasks"])).live_on("flow");
    Ok(actions(&id, &task).into_iter().fold(page, Page::action))
}

fn summary(visit: &Visit, task: &Json) -> Markup {
    let text = |name: &str| html! { (task[name].shown()) };
    let template =
        Url::link(["tasks", "templates"].into_iter().chain(["namespace", "name", "version"].map(|it| task[it].text())));
    let mut list = vec![
        ("State", state::shown(task["status"].text())),
        ("Steps", html! { (task["completed_steps"].shown()) " of " (task["total_steps"].shown()) " complete" }),
        ("Template", html! { a href=(template) { (task["namespace"].text()) " / " (task["name"].text()) } }),
        ("Id", html! { code { (task["task_uuid"].text()) } }),
        ("Created", when(&task["created_at"], visit.now)),
        ("Changed", when(&task["updated_at"], visit.now)),
    ];
    if task["completed_at"].is_null() {
        list.insert(2, ("What to do", html! { (task["recommended_action"].text().replace('_', " ")) }));
    } else {
        list.push(("Ended", when(&task["completed_at"], visit.now)));
    }
    let optional = [
        ("Initiator", "initiator"),
        ("Source", "source_system"),
        ("Reason", "reason"),
        ("Correlation id", "correlation_id"),
    ];
    list.extend(
        optional.into_iter().filter(|(_, name)| !task[name].is_null()).map(|(label, name)| (label, text(name))),
    );
    if !task["tags"].items().is_empty() {
        let tags = task["tags"].items().iter();
        list.push((
            "Tags",
            html! { @for tag in tags { a href=(Url::link(["tasks"]).with("tag", tag.text())) { (tag.text()) } " " } },
        ));
    }
    facts(list)
}

/// The steps of the template in the drawing, each with the states of its parts.
struct Drawn<'a> {
    name: &'a str,
    /// The created steps: one, or the parts of a batch.
    steps: Vec<&'a Json>,
}

fn steps(visit: &Visit, id: &str, task: &Json, waiting: &Json, template: &Json) -> Markup {
    let sentences: HashMap<&str, &Json> =
        waiting["steps"].items().iter().map(|step| (step["name"].text(), step)).collect();
    let definitions = template["steps"].items();
    let mut drawn: Vec<Drawn<'_>> =
        definitions.iter().map(|step| Drawn { name: step["name"].text(), steps: Vec::new() }).collect();
    let index: HashMap<&str, usize> = drawn.iter().enumerate().map(|(index, step)| (step.name, index)).collect();
    for step in task["steps"].items() {
        let name = step["name"].text();
        // A part is named after its definition, with its number.
        let part =
            || (step["type"].text() == "batch_worker").then(|| name.rsplit_once('_').map(|(name, _)| name)).flatten();
        if let Some(at) = part().or(Some(name)).and_then(|name| index.get(name)) {
            drawn[*at].steps.push(step);
        }
    }
    html! {
        @if definitions.len() <= NODES_MAX { (drawing(id, definitions, &drawn, &index, &sentences)) }
        h2 { "Steps" }
        (Table::new("Steps", &["Step", "State", "Why", "Attempts#", "Worker", "Ended"]).rows(task["steps"].items(), |step| {
            let name = step["name"].text();
            let why = sentences.get(name).map_or("", |step| step["sentence"].text());
            vec![
                html! { a href=(step_page(id, name)) { (name) } },
                state::shown(step["state"].text()),
                html! { (why) },
                html! { (step["attempts"].shown()) " of " (step["max_attempts"].shown()) },
                html! { (step["worker"].shown()) },
                when(&step["ended_at"], visit.now),
            ]
        }))
        @if !task["steps_next"].is_null() { p.quiet { "The first 1 000 steps. The API has the others: " code { "/v1/tasks/" (id) "/workflow_steps" } } }
    }
}

fn drawing(
    id: &str,
    definitions: &[Json],
    drawn: &[Drawn<'_>],
    index: &HashMap<&str, usize>,
    sentences: &HashMap<&str, &Json>,
) -> Markup {
    let nodes: Vec<Node> = drawn.iter().map(|step| node(id, step, sentences)).collect();
    let edges: Vec<(usize, usize)> = definitions
        .iter()
        .enumerate()
        .flat_map(|(to, step)| {
            let parents = step["dependencies"].items().iter();
            parents.filter_map(move |parent| Some((*index.get(parent.text())?, to)))
        })
        .collect();
    graph::draw("Steps and their dependencies", &nodes, &edges, &graph::layout(nodes.len(), &edges))
}

fn node(id: &str, step: &Drawn<'_>, sentences: &HashMap<&str, &Json>) -> Node {
    let why = |name: &str| sentences.get(name).map_or("", |step| step["sentence"].text()).to_owned();
    let (state, tone, title, link) = match step.steps.as_slice() {
        [] => ("not created".to_owned(), Tone::Quiet, "It has not been created.".to_owned(), None),
        [one] => {
            let (name, state) = (one["name"].text(), one["state"].text());
            let title = Some(why(name)).filter(|why| !why.is_empty()).unwrap_or_else(|| state::words(state));
            (state::words(state), state::tone(state), title, Some(step_page(id, name)))
        }
        parts => {
            let with = |wanted: Tone| parts.iter().filter(|part| state::tone(part["state"].text()) == wanted).count();
            let (good, bad) = (with(Tone::Good), with(Tone::Bad));
            let tone = match (good, bad) {
                (_, 1..) => Tone::Bad,
                (good, _) if good == parts.len() => Tone::Good,
                _ => Tone::Busy,
            };
            let failed = if bad > 0 { format!(", {bad} failed") } else { String::new() };
            let words = format!("{good} of {}{failed}", parts.len());
            (words.clone(), tone, format!("{words} parts are complete"), Some(task_page(id)))
        }
    };
    Node { name: step.name.to_owned(), state, tone, title, link, is_stack: step.steps.len() > 1 }
}

async fn history(visit: &Visit, id: &str) -> Result<Markup, Failure> {
    let url = Url::api(["v1", "tasks", id, "transitions"]).with_some("after", visit.parameter("after"));
    let found: Json = visit.get(&url).await?;
    Ok(html! {
        (Table::new("History", &["When", "Step", "From", "To", "Attempt#", "By"]).rows(found["transitions"].items(), |one| vec![
            when(&one["at"], visit.now),
            html! { @if one["step"].is_null() { span.quiet { "the task" } } @else { (one["step"].text()) } },
            html! { @if !one["from"].is_null() { (state::shown(one["from"].text())) } },
            state::shown(one["to"].text()),
            html! { (one["attempt"].shown()) },
            html! { (one["worker"].shown()) @if !one["operator"].is_null() { (one["operator"].shown()) } },
        ]).pages(visit, "after", &found["next"]))
    })
}

/// The page of a step.
pub(super) fn step_page(task: &str, step: &str) -> Url {
    Url::link(["tasks", task, "steps", step])
}

fn actions(id: &str, task: &Json) -> Vec<Action> {
    let status = task["status"].text();
    let ended = ["complete", "error", "cancelled", "resolved_manually"].contains(&status);
    let route = |last: &[&str]| Url::api(["v1", "tasks", id].into_iter().chain(last.iter().copied()));
    let operation = |label: &str, kind: &str| {
        let action = Action::new(label, Method::PATCH, route(&[])).body("type", kind);
        by().into_iter().fold(action, Action::field)
    };
    let mut all = Vec::new();
    if status == "error" {
        let resume = Action::new("Resume", Method::POST, route(&["resume"]))
            .about("Failed steps, and steps cancelled because of a time limit, get all their attempts again. Time limits start again.");
        all.push(by().into_iter().fold(resume.command(["task", "retry", id]), Action::field));
    }
    if !ended {
        all.push(
            operation("Cancel", "cancel")
                .about("Ends the task and its open steps. Workers lose the steps that they hold.")
                .destructive()
                .command(["task", "cancel", id]),
        );
    }
    if status != "complete" && status != "resolved_manually" {
        all.push(
            operation("Resolve", "resolve_manually")
                .about("Marks the task as resolved by other means. No further step starts.")
                .destructive()
                .command(["task", "resolve", id]),
        );
    }
    let steps = task["steps"].items().iter().map(|step| step["name"].text());
    let fork = Action::new("Fork", Method::POST, route(&["fork"]))
        .about("Creates a new task that runs from this step, with the results of the steps that do not follow it. This task stays as it is.")
        .field(Field::choice("step", "From step", steps).required())
        .field(Field::json("context", "Context").value(&task["context"]));
    all.push(by().into_iter().fold(fork, Action::field));
    all
}
