//! Task graphs: tasks with their drawn graph and the reason why each step waits, templates, schedules, namespaces,
//! limits and workers.

mod gantt;
mod list;
mod one;
mod schedules;
mod schema;
mod settings;
mod state;
mod step;
mod submit;
mod templates;
mod workers;

use axum::Router;
use axum::routing::get;
use maud::{Markup, html};

use crate::{Console, Field, Json, Url};

/// The operator in the history, unless the visitor enters another name.
const OPERATOR: &str = "console";

pub(crate) fn routes() -> Router<Console> {
    Router::new()
        .route("/tasks", get(list::list))
        .route("/tasks/templates", get(templates::list))
        .route("/tasks/templates/{namespace}/{name}/{version}", get(templates::one))
        .route("/tasks/submit/{namespace}/{name}/{version}", get(submit::form))
        .route("/tasks/schedules", get(schedules::list))
        .route("/tasks/schedules/{namespace}/{name}", get(schedules::one))
        .route("/tasks/namespaces", get(settings::list))
        .route("/tasks/namespaces/{namespace}", get(settings::one))
        .route("/tasks/workers", get(workers::list))
        .route("/tasks/{task}", get(one::one))
        .route("/tasks/{task}/steps/{step}", get(step::one))
}

/// The lists of this section, as links.
fn views(chosen: &str) -> Markup {
    let views = [
        ("", "Tasks"),
        ("templates", "Templates"),
        ("schedules", "Schedules"),
        ("namespaces", "Namespaces"),
        ("workers", "Workers"),
    ];
    html! {
        nav.tabs aria-label="Lists" {
            @for (path, label) in views {
                @let url = if path.is_empty() { Url::link(["tasks"]) } else { Url::link(["tasks", path]) };
                a href=(url) aria-current=[(path == chosen).then_some("page")] { (label) }
            }
        }
    }
}

/// The page of a task.
fn task_page(task: &str) -> Url {
    Url::link(["tasks", task])
}

/// The operator's name, and a reason, for the history.
fn by() -> [Field; 2] {
    let by =
        Field::text("by", "Operator").required().value(&Json::from(OPERATOR)).note("The name that the history shows");
    [by, Field::text("reason", "Reason")]
}
