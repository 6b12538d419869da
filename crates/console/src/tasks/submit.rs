//! Submitting a task: a form made from the template's schema.

use axum::extract::Path;
use axum::http::Method;
use maud::html;

use super::schema;
use crate::parts::value;
use crate::{Action, Failure, Field, Json, Page, Section, Url, Visit};

/// `GET /console/tasks/submit/{namespace}/{name}/{version}`
pub(super) async fn form(
    visit: Visit,
    Path((namespace, name, version)): Path<(String, String, String)>,
) -> Result<Page, Failure> {
    let template: Json = visit.get(&Url::api(["v1", "templates", &namespace, &name, &version])).await?;
    let content = html! {
        p { "A task of " code { (namespace) "/" (name) } " " (version) ". Its first steps can be claimed as soon as it is submitted." }
        @if !template["input_schema"].is_null() {
            h2 { "What its context may contain" }
            (value(&template["input_schema"]))
        }
    };
    let page = visit.page(Section::Tasks, &format!("Submit {name}"), content).within("Tasks", Url::link(["tasks"]));
    let page = page
        .within("Templates", Url::link(["tasks", "templates"]))
        .within(&name, Url::link(["tasks", "templates", &namespace, &name, &version]));
    Ok(page.action(submit(&template, false)).action(submit(&template, true)))
}

/// The action that submits a task of a template: with fields, or with its context as JSON.
pub(super) fn submit(template: &Json, as_json: bool) -> Action {
    let text = |name: &str| template[name].text();
    let fields = if as_json {
        vec![Field::json("context", "Context").value(&Json::Object(Vec::new()))]
    } else {
        schema::fields("context", &template["input_schema"])
    };
    let action = Action::new(if as_json { "Submit JSON" } else { "Submit" }, Method::POST, Url::api(["v1", "tasks"]))
        .about("The template validates the context.")
        .body("namespace", text("namespace_name"))
        .body("name", text("name"))
        .body("version", text("version"))
        .body("initiator", super::OPERATOR);
    let action = fields.into_iter().fold(action, Action::field);
    let key = Field::text("idempotency_key", "Idempotency key");
    let key = match text("identity_strategy") {
        "caller_provided" => key.required(),
        _ => key.note("Submissions with the same key are the same task"),
    };
    action
        .field(key)
        .field(Field::number("priority", "Priority"))
        .field(Field::text("correlation_id", "Correlation id"))
        .command(["task", "submit", text("namespace_name"), text("name")])
        .then(Url::link(["tasks"]).with("namespace", text("namespace_name")).with("name", text("name")))
}
