//! Schedules in plain words, with their next times.

use axum::extract::Path;
use axum::http::Method;
use maud::{Markup, html};

use super::{task_page, views};
use crate::parts::{Filter, Table, Tone, badge, empty, facts, value, when};
use crate::{Action, Failure, Json, Page, Section, Url, Visit};

/// Next times on the page of a schedule.
const UPCOMING: u32 = 10;

/// `GET /console/tasks/schedules`
pub(super) async fn list(visit: Visit) -> Result<Page, Failure> {
    let url = ["namespace", "template", "paused", "after"]
        .into_iter()
        .fold(Url::api(["v1", "schedules"]).with("limit", 50), |url, name| url.with_some(name, visit.parameter(name)));
    let found: Json = visit.get(&url).await?;
    let table = Table::new("Schedules", &["Schedule", "State", "When", "Next", "Last", "Template", "Namespace"])
        .rows(found["schedules"].items(), |schedule| {
            vec![
                html! { a href=(page_of(schedule)) { (schedule["name"].text()) } },
                state(schedule),
                html! { (schedule["in_words"].text()) },
                when(&schedule["next_at"], visit.now),
                html! { (when(&schedule["last_at"], visit.now)) @if !schedule["last_error"].is_null() { " " (badge(Tone::Bad, "failed")) } },
                html! { (schedule["template"].text()) " " (schedule["version"].text()) },
                html! { (schedule["namespace"].text()) },
            ]
        })
        .or(empty(
            "No schedules",
            "A schedule submits a task at each time of a cron expression, once, for any number of servers.",
            "reveille schedule --help",
        ))
        .pages(&visit, "after", &found["next"]);
    let filter = Filter::of(&visit).text("namespace", "Namespace").text("template", "Template");
    let content = html! {
        (views("schedules"))
        (filter.choice("paused", "State", [("true", "paused"), ("false", "active")]))
        section data-live="schedules" { (table) }
    };
    Ok(visit.page(Section::Tasks, "Schedules", content).live_on("flow"))
}

/// `GET /console/tasks/schedules/{namespace}/{name}`
pub(super) async fn one(visit: Visit, Path((namespace, name)): Path<(String, String)>) -> Result<Page, Failure> {
    let route =
        |last: &[&str]| Url::api(["v1", "schedules", &namespace, &name].into_iter().chain(last.iter().copied()));
    let schedule: Json = visit.get(&route(&[]).with("upcoming", UPCOMING)).await?;
    let mut list = vec![
        ("State", state(&schedule)),
        ("When", html! { (schedule["in_words"].text()) }),
        ("Next", when(&schedule["next_at"], visit.now)),
        ("Last", when(&schedule["last_at"], visit.now)),
        ("Template", html! { (schedule["template"].text()) " " (schedule["version"].text()) }),
        ("Missed times", html! { (schedule["missed"].text()) ", after " (schedule["grace_seconds"].shown()) " s" }),
    ];
    if let Some(task) = schedule["last_task"].as_text() {
        list.push(("Last task", html! { a href=(task_page(task)) { code { (task) } } }));
    }
    if !schedule["cron"].is_null() {
        list.push(("Expression", html! { code { (schedule["cron"].text()) } }));
    }
    let content = html! {
        section data-live="schedule" {
            (facts(list))
            @if let Some(error) = schedule["last_error"].as_text() { div.error role="alert" { p { (error) } } }
            h2 { "Next times" }
            ul { @for at in schedule["upcoming"].items() { li { (when(at, visit.now)) } } }
            h2 { "Context of its tasks" }
            (value(&schedule["context"]))
        }
    };
    let run = Action::new("Run now", Method::POST, route(&["run"]))
        .about("Submits a task now, in addition to the times of the schedule.")
        .command(["schedule", "run", &namespace, &name]);
    let pause = if schedule["paused"].is_true() {
        Action::new("Resume", Method::POST, route(&["resume"])).command(["schedule", "resume", &namespace, &name])
    } else {
        Action::new("Pause", Method::POST, route(&["pause"]))
            .about("Times that pass meanwhile do not count as missed.")
            .command(["schedule", "pause", &namespace, &name])
    };
    let delete = Action::new("Delete", Method::DELETE, route(&[]))
        .about("Its tasks stay.")
        .confirm_by_typing(&name)
        .then(Url::link(["tasks", "schedules"]));
    Ok(visit
        .page(Section::Tasks, &name, content)
        .within("Tasks", Url::link(["tasks"]))
        .within("Schedules", Url::link(["tasks", "schedules"]))
        .live_on("flow")
        .action(run)
        .action(pause)
        .action(delete))
}

fn page_of(schedule: &Json) -> Url {
    Url::link(["tasks", "schedules", schedule["namespace"].text(), schedule["name"].text()])
}

fn state(schedule: &Json) -> Markup {
    match (schedule["paused"].is_true(), schedule["next_at"].is_null()) {
        (true, _) => badge(Tone::Warn, "paused"),
        (false, true) => badge(Tone::Quiet, "over"),
        (false, false) => badge(Tone::Good, "active"),
    }
}
