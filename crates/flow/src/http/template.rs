//! `/templates`: registering, checking and reading templates.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use reveille_web::{ApiError, Failure, Path, Principal, Query, Role, Text};
use serde::Serialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::label;
use super::schema::Label;
use crate::flow::Flow;
use crate::query::list::PAGE_MAX;
use crate::template::Template;
use crate::template::list::{TemplateFilter, TemplatePage};
use crate::template::register::Registered;

/// Parameters of a registration.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `register`, described here")]
struct RegisterParams {
    /// Only validates the template.
    validate: Option<bool>,
}

/// A template that was registered or validated.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplateSummary)]
pub(super) struct Summary {
    namespace: String,
    name: String,
    version: String,
    /// The number of steps.
    steps: usize,
}

/// Everything that is wrong with a template.
#[derive(ToSchema)]
#[schema(as = TemplateFailure)]
#[expect(dead_code, reason = "written by `http/error.rs`, described here")]
pub(super) struct Faulty {
    /// All faults in one message.
    error: String,
    /// The faults one by one; absent if the body could not be read.
    #[schema(required = false)]
    faults: Vec<Fault>,
}

/// A fault of a template.
#[derive(ToSchema)]
#[schema(as = TemplateFault)]
#[expect(dead_code, reason = "serialized from the engine's type, described here")]
struct Fault {
    /// The line, from 1; 0 if the fault concerns the whole text.
    line: u64,
    /// The column, from 1.
    column: u64,
    message: String,
}

/// A template as it was checked, with defaults filled in.
#[derive(ToSchema)]
#[schema(as = Template)]
#[expect(dead_code, reason = "serialized from the engine's type, described here")]
pub(super) struct RegisteredTemplate {
    name: String,
    namespace_name: String,
    version: String,
    description: String,
    /// `strict`, `caller_provided` or `always_unique`.
    identity_strategy: String,
    /// Limits on the duration of a task.
    lifecycle: Value,
    /// The JSON Schema of the context of a task.
    #[schema(required = false)]
    input_schema: Value,
    steps: Vec<Step>,
}

/// A step of a template.
#[derive(ToSchema)]
#[schema(as = TemplateStep)]
#[expect(dead_code, reason = "serialized from the engine's type, described here")]
struct Step {
    name: String,
    #[schema(required = false)]
    description: String,
    /// `standard`, `decision`, `deferred_convergence`, `batchable` or `batch_worker`.
    r#type: String,
    /// `callable` and `initialization`.
    handler: Value,
    /// The names of the steps that must be complete before it starts.
    dependencies: Vec<String>,
    /// `retryable`, `max_attempts`, `backoff`, `backoff_base_ms`, `max_backoff_ms` and `jitter`.
    retry: Value,
    #[schema(required = false)]
    timeout_seconds: f64,
    #[schema(required = false)]
    publishes_events: Vec<Value>,
    #[schema(required = false)]
    batch_config: Value,
    /// The JSON Schema of the step's result.
    #[schema(required = false)]
    result_schema: Value,
}

/// A page of templates. Filters that are not given match everything.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct ListParams {
    /// In this namespace.
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
    /// With this name.
    #[param(value_type = Option<Label>)]
    name: Option<String>,
    /// The `next` of the previous page.
    #[param(minimum = 0)]
    after: Option<i32>,
    /// The most templates to return; default 100.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// Lists the registered templates.
#[utoipa::path(
    get, path = "/templates", tag = "templates", params(ListParams),
    responses(
        (status = 200, description = "Templates", body = TemplatePage),
        (status = 400, description = "A parameter is invalid", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, query: Query) -> Result<Json<TemplatePage>, ApiError> {
    let filter = TemplateFilter { namespace: label(&query, "namespace")?, name: label(&query, "name")? };
    let after = query.number("after", 0..=i32::MAX as u64)?.map(|after| after as i32);
    let limit = query.number("limit", 1..=PAGE_MAX as u64)?.unwrap_or(PAGE_MAX as u64);
    Ok(Json(flow.templates(&filter, after, limit as usize).await?))
}

/// Registers a template, written in YAML or JSON. A registered version never changes.
#[utoipa::path(
    post, path = "/templates", tag = "templates", params(RegisterParams),
    request_body(content((Value = "application/json"), (String = "application/yaml"))),
    responses(
        (status = 201, description = "Registered", body = Summary),
        (status = 200, description = "Already registered with the same text; or only validated, without faults", body = Summary),
        (status = 400, description = "The faults of the template; nothing was registered", body = Faulty),
        (status = 409, description = "This version is registered with another text", body = Failure),
        (status = 415, description = "The body is neither YAML nor JSON", body = Failure),
    )
)]
pub(super) async fn register(
    State(flow): State<Flow>,
    principal: Principal,
    query: Query,
    body: Text,
) -> Result<(StatusCode, Json<Summary>), ApiError> {
    if query.flag("validate")? {
        let Template { namespace, name, version, steps, .. } = flow.validate(&body.text).await?;
        principal.require_namespace(Role::Operator, &namespace)?;
        return Ok((StatusCode::OK, Json(Summary { namespace, name, version, steps: steps.len() })));
    }
    if !principal.may(Role::Operator) {
        let Template { namespace, .. } = flow.validate(&body.text).await?;
        principal.require_namespace(Role::Operator, &namespace)?;
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
        (status = 200, description = "The template", body = RegisteredTemplate),
        (status = 404, description = "There is no such template", body = Failure),
    )
)]
pub(super) async fn get(
    State(flow): State<Flow>,
    Path((namespace, name, version)): Path<(String, String, String)>,
) -> Result<Json<Template>, ApiError> {
    Ok(Json(flow.template(&namespace, &name, &version).await?))
}
