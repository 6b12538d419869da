//! Namespaces with their settings and limits.

use axum::extract::Path;
use axum::http::Method;
use maud::{Markup, html};

use super::views;
use crate::parts::{Table, Tone, badge, duration, empty, facts, when};
use crate::{Action, Failure, Field, Json, Page, Section, Url, Visit};

/// The claim modes, as people call them.
fn mode(namespace: &Json) -> Markup {
    match namespace["mode"].text() {
        "event_driven" => badge(Tone::Good, "event driven"),
        "polling" => badge(Tone::Busy, &format!("polls every {} ms", namespace["poll_ms"].shown())),
        _ => badge(Tone::Warn, "shadow: nothing is claimed"),
    }
}

/// How long tasks are kept.
fn kept(seconds: &Json) -> Markup {
    match seconds.integer() {
        None => html! { "for ever" },
        Some(seconds) if seconds >= 172_800 => html! { (seconds / 86_400) " days" },
        Some(seconds) => html! { (duration(std::time::Duration::from_secs(seconds.max(0).unsigned_abs()))) },
    }
}

/// `GET /console/tasks/namespaces`
pub(super) async fn list(visit: Visit) -> Result<Page, Failure> {
    let found: Json = visit.get(&Url::api(["v1", "namespaces"])).await?;
    let limits: Json = visit.get(&Url::api(["v1", "limits"])).await?;
    let table =
        Table::new("Namespaces", &["Namespace", "Mode", "Provider", "Limits#", "Kept", "Failed kept", "Created"])
            .rows(found["namespaces"].items(), |namespace| {
                let name = namespace["name"].text();
                let own = limits["limits"].items().iter().filter(|limit| limit["namespace"].text() == name).count();
                vec![
                    html! { a href=(Url::link(["tasks", "namespaces", name])) { (name) } },
                    mode(namespace),
                    html! { (namespace["provider"].text()) },
                    html! { (own) },
                    kept(&namespace["retention_seconds"]),
                    kept(&namespace["failed_retention_seconds"]),
                    when(&namespace["created_at"], visit.now),
                ]
            })
            .or(empty("No namespaces", "A namespace is created with its first template.", ""));
    let content = html! { (views("namespaces")) section data-live="namespaces" { (table) } };
    Ok(visit.page(Section::Tasks, "Namespaces", content).live_on("flow"))
}

/// `GET /console/tasks/namespaces/{namespace}`
pub(super) async fn one(visit: Visit, Path(name): Path<String>) -> Result<Page, Failure> {
    let found: Json = visit.get(&Url::api(["v1", "namespaces"])).await?;
    let Some(namespace) = found["namespaces"].items().iter().find(|namespace| namespace["name"].text() == name) else {
        let status = axum::http::StatusCode::NOT_FOUND;
        return Err(Failure::new(status, &format!("there is no namespace {name:?}")).at(&visit));
    };
    let limits: Json = visit.get(&Url::api(["v1", "limits"]).with("namespace", &name)).await?;
    let table = Table::new("Limits", &["Steps", "In progress#", "Limit#"])
        .rows(limits["limits"].items(), |limit| {
            let full = limit["in_progress"].integer() >= limit["max_in_progress"].integer();
            vec![
                html! { @if limit["step"].is_null() { "all steps together" } @else { (limit["step"].text()) } },
                html! { (limit["in_progress"].shown()) @if full { " " (badge(Tone::Warn, "reached")) } },
                html! { (limit["max_in_progress"].shown()) },
            ]
        })
        .or(empty("No limits", "Any number of steps may be in progress at once.", ""));
    let content = html! {
        section data-live="namespace" {
            @if !namespace["description"].text().is_empty() { p { (namespace["description"].text()) } }
            (facts([
                ("Mode", mode(namespace)),
                ("Provider", html! { (namespace["provider"].text()) }),
                ("Fallback", html! { @if namespace["fallback_enabled"].is_true() { "on" } @else { "off" } }),
                ("Announces", html! { @if namespace["announces"].is_true() { "yes" } @else { "no" } }),
                ("Tasks are kept", kept(&namespace["retention_seconds"])),
                ("Failed tasks are kept", kept(&namespace["failed_retention_seconds"])),
            ]))
            h2 { "Limits" }
            (table)
            p { a href=(Url::link(["tasks"]).with("namespace", &name)) { "Tasks of this namespace" } ", "
                a href=(Url::link(["tasks", "workers"]).with("namespace", &name)) { "its workers" } "." }
        }
    };
    let route = Url::api(["v1", "namespaces", &name]);
    let settings = Action::new("Settings", Method::PUT, route)
        .about("Changes take effect at once, on all servers.")
        .field(
            Field::choice("mode", "Mode", ["event_driven", "polling", "shadow"]).value(&namespace["mode"]).required(),
        )
        .field(Field::number("poll_ms", "Poll interval in ms, in polling mode").value(&namespace["poll_ms"]))
        .field(Field::flag("fallback_enabled", "Look for unclaimed steps").value(&namespace["fallback_enabled"]))
        .field(Field::flag("announces", "Notify external listeners").value(&namespace["announces"]))
        .field(Field::number("retention_seconds", "Keep tasks for, in seconds").value(&namespace["retention_seconds"]))
        .field(
            Field::number("failed_retention_seconds", "Keep failed tasks for, in seconds")
                .value(&namespace["failed_retention_seconds"]),
        );
    let limit = Action::new("Limit", Method::PUT, Url::api(["v1", "limits"]))
        .about("Running steps continue; due steps wait for a free slot.")
        .body("namespace", name.as_str())
        .field(Field::text("step", "Step name").note("Empty: all steps of the namespace together"))
        .field(Field::json("max_in_progress", "Most steps in progress").required().note("null removes the limit"));
    Ok(visit
        .page(Section::Tasks, &name, content)
        .within("Tasks", Url::link(["tasks"]))
        .within("Namespaces", Url::link(["tasks", "namespaces"]))
        .live_on("flow")
        .action(settings)
        .action(limit))
}
