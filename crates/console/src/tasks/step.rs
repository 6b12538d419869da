//! One step of a task: why it waits, its values, its attempts, and what an operator can do with it.

use axum::extract::Path;
use axum::http::Method;
use maud::html;

use super::{by, state, task_page};
use crate::parts::{Table, facts, value, when};
use crate::{Action, Failure, Field, Json, Page, Section, Url, Visit};

/// `GET /console/tasks/{task}/steps/{step}`
pub(super) async fn one(visit: Visit, Path((task, name)): Path<(String, String)>) -> Result<Page, Failure> {
    let route = |last: &[&str]| {
        Url::api(["v1", "tasks", &task, "workflow_steps", &name].into_iter().chain(last.iter().copied()))
    };
    let step: Json = visit.get(&route(&[])).await?;
    let why: Json = visit.get(&route(&["waiting"])).await?;
    let audit: Json = visit.get(&route(&["audit"]).with_some("after", visit.parameter("after"))).await?;
    let mut list = vec![
        ("State", state::shown(step["state"].text())),
        ("Handler", html! { code { (step["callable"].text()) } }),
        ("Attempts", html! { (step["attempts"].shown()) " of " (step["max_attempts"].shown()) }),
        ("Ready", when(&step["ready_at"], visit.now)),
        ("Claimed", when(&step["claimed_at"], visit.now)),
        ("Ended", when(&step["ended_at"], visit.now)),
    ];
    if !step["worker"].is_null() {
        list.push(("Worker", html! { (step["worker"].text()) }));
    }
    let values = [("Result", "result"), ("Last error", "last_error"), ("Input", "input"), ("Checkpoint", "checkpoint")];
    let content = html! {
        section data-live="step" {
            p.lead { (why["sentence"].text()) }
            (facts(list))
            @if !step["dependencies"].items().is_empty() {
                p { "Depends on "
                    @for (index, parent) in step["dependencies"].items().iter().enumerate() {
                        @if index > 0 { ", " }
                        a href=(super::one::step_page(&task, parent.text())) { (parent.text()) }
                    }
                    "."
                }
            }
            @for (label, member) in values {
                @if !step[member].is_null() { h2 { (label) } (value(&step[member])) }
            }
            h2 { "Attempts" }
            (Table::new("Attempts", &["Attempt#", "Outcome", "Worker", "Claimed", "Waited#", "Took#", "Result or error"])
                .rows(audit["attempts"].items(), |attempt| vec![
                    html! { (attempt["attempt"].shown()) },
                    state::shown(attempt["outcome"].text()),
                    html! { (attempt["worker"].shown()) @if !attempt["reason"].is_null() { " " small { (attempt["reason"].text()) } } },
                    when(&attempt["claimed_at"], visit.now),
                    milliseconds(&attempt["waited_ms"]),
                    milliseconds(&attempt["duration_ms"]),
                    html! {
                        @if !attempt["error"].is_null() { (value(&attempt["error"])) }
                        @else if !attempt["result"].is_null() { (value(&attempt["result"])) }
                    },
                ])
                .pages(&visit, "after", &audit["next"]))
        }
    };
    let page = visit
        .page(Section::Tasks, &name, content)
        .within("Tasks", Url::link(["tasks"]))
        .within(&task, task_page(&task))
        .live_on("flow");
    Ok(actions(&task, &name, &step).into_iter().fold(page, Page::action))
}

fn milliseconds(ms: &Json) -> maud::Markup {
    let ms = ms.integer().and_then(|ms| u64::try_from(ms).ok());
    html! { @if let Some(ms) = ms { (crate::parts::duration(std::time::Duration::from_millis(ms))) } }
}

fn actions(task: &str, name: &str, step: &Json) -> Vec<Action> {
    let operation = |label: &str, kind: &str, about: &str| {
        let route = Url::api(["v1", "tasks", task, "workflow_steps", name]);
        let action = Action::new(label, Method::PATCH, route).about(about).body("type", kind);
        by().into_iter().fold(action, Action::field)
    };
    let state = step["state"].text();
    let mut all = Vec::new();
    if matches!(state, "error" | "cancelled") {
        let about = "The step gets all its attempts again and keeps its checkpoint. Its task continues.";
        all.push(operation("Retry", "reset_for_retry", about).command(["task", "retry", task, "--step", name]));
    }
    if !matches!(state, "complete" | "resolved_manually") {
        let about = "The step counts as complete, without a result; the steps after it continue.";
        all.push(
            operation("Resolve", "resolve_manually", about)
                .destructive()
                .command(["task", "resolve", task, "--step", name]),
        );
        let about = "The step is completed with this result, as a worker would.";
        let result = Field::json("result", "Result").value(&Json::Object(Vec::new())).required();
        all.push(operation("Complete", "complete_manually", about).field(result));
    }
    let fork = Action::new("Fork from here", Method::POST, Url::api(["v1", "tasks", task, "fork"]))
        .about("Creates a new task in which this step and those after it run again. This task stays as it is.")
        .body("step", name);
    let fork = if step["input"].is_null() {
        fork.field(Field::json("context", "Context").note("Empty: that of this task"))
    } else {
        fork.field(Field::json("input", "Input").value(&step["input"]))
    };
    all.push(by().into_iter().fold(fork, Action::field));
    all
}
