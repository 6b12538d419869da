//! `/templates`: registering, checking and reading templates.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use web::{Failure, Path, Query, Refusal, Text};

use super::label;
use super::schema::Label;
use crate::flow::Flow;
use crate::query::list::PAGE_MAX;
use crate::register::Registered;
use crate::template::Template;
use crate::templates::{TemplateFilter, TemplatePage};

/// What to do with a template.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `register`, described here")]
struct Wish {
    /// Whether the template is only checked.
    validate: Option<bool>,
}

/// A template that was registered, or could be.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplateSummary)]
pub(super) struct Summary {
    namespace: String,
    name: String,
    version: String,
    /// How many steps it has.
    steps: usize,
}

/// Everything that is wrong with a template.
#[derive(ToSchema)]
#[schema(as = TemplateFailure)]
#[expect(dead_code, reason = "made where the refusal is, described here")]
pub(super) struct Faulty {
    /// All of it in a sentence.
    error: String,
    /// One by one; not there if the body itself could not be read.
    #[schema(required = false)]
    faults: Vec<Fault>,
}

/// One thing that is wrong.
#[derive(ToSchema)]
#[schema(as = TemplateFault)]
#[expect(dead_code, reason = "as the engine writes it, described here")]
struct Fault {
    /// The line of the text, from 1; 0 if it is about the text as a whole.
    line: u64,
    /// The column in that line, from 1.
    column: u64,
    message: String,
}

/// A template, checked: what was not given is there as it counts.
#[derive(ToSchema)]
#[schema(as = Template)]
#[expect(dead_code, reason = "as the engine writes it, described here")]
pub(super) struct Written {
    name: String,
    namespace_name: String,
    version: String,
    description: String,
    /// `strict`, `caller_provided` or `always_unique`.
    identity_strategy: String,
    /// How long a task may take.
    lifecycle: Value,
    /// What a task's context must look like: a JSON Schema.
    #[schema(required = false)]
    input_schema: Value,
    steps: Vec<Step>,
}

/// A step of a template.
#[derive(ToSchema)]
#[schema(as = TemplateStep)]
#[expect(dead_code, reason = "as the engine writes it, described here")]
struct Step {
    name: String,
    #[schema(required = false)]
    description: String,
    /// `standard`, `decision`, `deferred_convergence`, `batchable` or `batch_worker`.
    r#type: String,
    /// `callable` and `initialization`.
    handler: Value,
    /// The names of the steps that come before it.
    dependencies: Vec<String>,
    /// `retryable`, `max_attempts`, `backoff`, `backoff_base_ms`, `max_backoff_ms` and `jitter`.
    retry: Value,
    #[schema(required = false)]
    timeout_seconds: f64,
    #[schema(required = false)]
    publishes_events: Vec<Value>,
    #[schema(required = false)]
    batch_config: Value,
    /// What its result must look like: a JSON Schema.
    #[schema(required = false)]
    result_schema: Value,
}

/// Which templates. Everything that is not given does not matter.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct Which {
    /// In which namespace,
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
    /// of which name.
    #[param(value_type = Option<Label>)]
    name: Option<String>,
    /// What the page before it said as `next`.
    #[param(minimum = 0)]
    after: Option<i32>,
    /// How many at most; 100 if it is not given.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// The templates that are registered.
#[utoipa::path(
    get, path = "/templates", tag = "templates", params(Which),
    responses(
        (status = 200, description = "Templates", body = TemplatePage),
        (status = 400, description = "Something cannot be meant", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, query: Query) -> Result<Json<TemplatePage>, Refusal> {
    let filter = TemplateFilter { namespace: label(&query, "namespace")?, name: label(&query, "name")? };
    let after = query.number("after", 0..=i32::MAX as u64)?.map(|after| after as i32);
    let limit = query.number("limit", 1..=PAGE_MAX as u64)?.unwrap_or(PAGE_MAX as u64);
    Ok(Json(flow.templates(&filter, after, limit as usize).await?))
}

/// Registers a template, written in YAML or JSON. A version never changes.
#[utoipa::path(
    post, path = "/templates", tag = "templates", params(Wish),
    request_body(content((Value = "application/json"), (String = "application/yaml"))),
    responses(
        (status = 201, description = "It is registered", body = Summary),
        (status = 200, description = "It was registered before, with the same text; or it is only checked, and has no fault", body = Summary),
        (status = 400, description = "Everything that is wrong with it; nothing was registered", body = Faulty),
        (status = 409, description = "That version is registered with another text", body = Failure),
        (status = 415, description = "The body is neither YAML nor JSON", body = Failure),
    )
)]
pub(super) async fn register(
    State(flow): State<Flow>,
    query: Query,
    body: Text,
) -> Result<(StatusCode, Json<Summary>), Refusal> {
    if query.flag("validate")? {
        let Template { namespace, name, version, steps, .. } = flow.validate(&body.text).await?;
        return Ok((StatusCode::OK, Json(Summary { namespace, name, version, steps: steps.len() })));
    }
    let Registered { namespace, name, version, steps, new } = flow.register(&body.text).await?;
    let status = if new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(Summary { namespace, name, version, steps })))
}

/// A template as it was registered, for the environment of the server that registered it.
#[utoipa::path(
    get, path = "/templates/{namespace}/{name}/{version}", tag = "templates",
    params(
        ("namespace" = Label, Path, description = "Its namespace"),
        ("name" = Label, Path, description = "Its name"),
        ("version" = Label, Path, description = "Its version")
    ),
    responses(
        (status = 200, description = "The template", body = Written),
        (status = 404, description = "There is none", body = Failure),
    )
)]
pub(super) async fn get(
    State(flow): State<Flow>,
    Path((namespace, name, version)): Path<(String, String, String)>,
) -> Result<Json<Template>, Refusal> {
    Ok(Json(flow.template(&namespace, &name, &version).await?))
}
