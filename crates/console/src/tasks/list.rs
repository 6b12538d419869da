//! The list of tasks, its search, and operations on everything that it shows.

use axum::http::Method;
use maud::{Markup, html};

use super::{by, state, task_page, views};
use crate::parts::{Filter, Table, empty, when};
use crate::{Action, Failure, Json, Page, Section, Url, Visit};

/// Tasks of a page.
const PAGE: u32 = 50;
/// The filters of a bulk operation, by their names in the list, in the operation, and as options of a command.
const BULK: [(&str, &str, &str); 6] = [
    ("namespace", "namespace", "--namespace"),
    ("name", "name", "--name"),
    ("version", "version", "--template-version"),
    ("status", "state", "--state"),
    ("created_after", "created_after", "--from"),
    ("created_before", "created_before", "--to"),
];
/// The filters that only the list has.
const LIST_ONLY: [&str; 7] =
    ["tag", "correlation_id", "initiator", "priority", "context", "exclude_status", "exclude_name"];

/// The states to choose from.
const STATES: [(&str, &str); 10] = [
    ("error", "failed"),
    ("blocked_by_failures", "blocked by failures"),
    ("steps_in_process", "in progress"),
    ("enqueuing_steps", "ready"),
    ("waiting_for_retry", "waiting for retry"),
    ("waiting_for_dependencies", "waiting for dependencies"),
    ("pending", "pending"),
    ("complete", "complete"),
    ("cancelled", "cancelled"),
    ("resolved_manually", "resolved manually"),
];

/// `GET /console/tasks`
pub(super) async fn list(visit: Visit) -> Result<Page, Failure> {
    let given = BULK.iter().map(|(name, ..)| *name).chain(LIST_ONLY).chain(["after"]);
    let url = given
        .fold(Url::api(["v1", "tasks"]).with("limit", PAGE), |url, name| url.with_some(name, visit.parameter(name)));
    let found: Json = visit.get(&url).await?;
    let filter = Filter::of(&visit)
        .text("name", "Template")
        .text("namespace", "Namespace")
        .choice("status", "State", STATES)
        .text("tag", "Tag")
        .text("correlation_id", "Correlation id")
        .text("initiator", "Initiator")
        .text("created_after", "Created after")
        .text("created_before", "Created before")
        .text("context", "Context contains (JSON)")
        .text("exclude_name", "Not of template")
        .choice(
            "exclude_status",
            "Without",
            [("complete,cancelled,resolved_manually", "ended well"), ("complete", "complete")],
        );
    let table =
        Table::new("Tasks", &["Task", "State", "Progress", "Namespace", "Version", "Priority#", "Created", "Changed"])
            .rows(found["tasks"].items(), |task| row(&visit, task))
            .or(nothing(&visit))
            .pages(&visit, "after", &found["next"]);
    let content = html! {
        (views(""))
        (filter)
        section data-live="tasks" { (table) }
    };
    let mut page = visit.page(Section::Tasks, "Tasks", content).live_on("flow");
    for action in operations(&visit) {
        page = page.action(action);
    }
    Ok(page)
}

fn row(visit: &Visit, task: &Json) -> Vec<Markup> {
    let (done, total) = (task["completed_steps"].shown(), task["total_steps"].shown());
    vec![
        html! {
            a href=(task_page(task["task_uuid"].text())) { (task["name"].text()) }
            " " small.quiet { (short(task["task_uuid"].text())) }
        },
        state::shown(task["status"].text()),
        html! { meter min="0" max=(total) value=(done) aria-hidden="true" {} " " (done) " of " (total) },
        html! { (task["namespace"].text()) },
        html! { (task["version"].text()) },
        html! { (task["priority"].shown()) },
        when(&task["created_at"], visit.now),
        when(&task["updated_at"], visit.now),
    ]
}

/// The end of an id: the random part, which people compare.
fn short(id: &str) -> &str {
    id.rsplit('-').next().unwrap_or(id)
}

fn nothing(visit: &Visit) -> Markup {
    if visit.here().parameters().is_empty() {
        empty(
            "No tasks yet",
            "A task is submitted to a registered template; its steps and their states appear here.",
            "reveille task submit --help",
        )
    } else {
        empty("No task matches", "Change the filter, or continue with the next page if there is one.", "")
    }
}

/// What can be done with all tasks that the filter selects, if a bulk operation can have this filter.
fn operations(visit: &Visit) -> Vec<Action> {
    let given: Vec<(&str, &str, &str)> =
        BULK.iter().filter_map(|(name, field, option)| Some((*field, *option, visit.parameter(name)?))).collect();
    if given.is_empty() || LIST_ONLY.iter().any(|name| visit.parameter(name).is_some()) {
        return Vec::new();
    }
    let route = || Url::api(["v1", "tasks", "bulk"]);
    let action = |label: &str, operation: &str, command: &str, about: &str| {
        let about =
            format!("{about} Of all tasks that the filter selects, up to 1 000 at once; repeat it for the rest.");
        let action = Action::new(label, Method::POST, route()).about(&about);
        let action = action.preview(Method::POST, route(), [("preview", Json::from(true))]);
        let fields =
            given.iter().fold(action, |action, (field, _, value)| action.body(&format!("filter.{field}"), *value));
        let options = given.iter().flat_map(|(_, option, value)| [*option, *value]);
        let action = fields.body("operation.type", operation).command(["task", command].into_iter().chain(options));
        by().into_iter().fold(action, Action::field)
    };
    let word = visit.parameter("name").or(visit.parameter("namespace")).unwrap_or("all");
    vec![
        action("Resume failed", "resume_task", "retry", "Failed steps get all their attempts again.")
            .confirm_by_typing(word),
        action("Cancel", "cancel_task", "cancel", "Their workers lose the steps.").confirm_by_typing(word),
        action("Delete ended", "delete_task", "delete", "Deletes ended tasks with their history.")
            .confirm_by_typing(word),
    ]
}
