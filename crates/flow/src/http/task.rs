//! `/tasks…`: listing tasks, reading one, waiting for its end, and manual operations.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, Id, Path, Principal, Query, Time};
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::schema::{Label, Person};
use super::{WAIT_MS_MAX, label, operator, uuid};
use crate::error::Error;
use crate::flow::Flow;
use crate::operate::Cancelled;
use crate::query::list::{PAGE_MAX, TaskFilter, TaskPage};
use crate::query::task::{Task, TaskSummary};
use crate::task::state::TaskState;

/// The default page size.
const PAGE: u64 = 20;
/// The operator in the history if the request names none.
const DEFAULT_OPERATOR: &str = "http";

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one, cancel, resolve))
        .routes(routes!(summary))
        .routes(routes!(resume))
}

/// A page of tasks. Filters that are not given match everything.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct ListParams {
    /// In this namespace.
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
    /// Of this template.
    #[param(value_type = Option<Label>)]
    name: Option<String>,
    /// Of this version of the template.
    #[param(value_type = Option<Label>)]
    version: Option<String>,
    /// In this state.
    status: Option<TaskState>,
    /// With this priority.
    #[param(minimum = -32768, maximum = 32767)]
    priority: Option<i16>,
    /// With this tag.
    #[param(value_type = Option<Label>)]
    tag: Option<String>,
    /// With this correlation id.
    #[param(value_type = Option<Label>)]
    correlation_id: Option<String>,
    /// Of this initiator.
    #[param(value_type = Option<Label>)]
    initiator: Option<String>,
    /// Not in these states, separated by commas.
    #[param(pattern = "^[a-z_]+(,[a-z_]+)*$")]
    exclude_status: Option<String>,
    /// Not of this template.
    #[param(value_type = Option<Label>)]
    exclude_name: Option<String>,
    /// Whose context contains this JSON object; contexts of more than 64 KiB do not match.
    context: Option<String>,
    /// Created after this time.
    #[param(value_type = Option<Time>)]
    created_after: Option<String>,
    /// Created before this time.
    #[param(value_type = Option<Time>)]
    created_before: Option<String>,
    /// The `next` of the previous page.
    #[param(value_type = Option<Id>)]
    after: Option<Uuid>,
    /// The most tasks to return; default 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// Whether to wait for the end of the task.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `one`, described here")]
struct WaitParams {
    /// How long to wait for the end of the task, in milliseconds; default: not at all.
    #[param(maximum = 600_000)]
    wait_ms: Option<u64>,
}

/// The operator who cancels a task, and why.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `cancel`, described here")]
struct CancelParams {
    /// The operator's name, as the history shows it; default `http`.
    #[param(value_type = Option<Label>)]
    by: Option<String>,
    /// The reason, for the history.
    #[param(value_type = Option<Label>)]
    reason: Option<String>,
}

/// A manual operation on a task.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TaskOperation)]
struct Request {
    #[serde(rename = "type")]
    operation: OperationType,
    /// The operator's name, as the history shows it.
    #[schema(value_type = Person)]
    by: String,
    /// The reason, for the history.
    #[schema(value_type = Option<Label>)]
    reason: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TaskOperationType)]
enum OperationType {
    /// Cancels the task and all its steps that have not ended.
    Cancel,
    /// Marks the task as resolved by other means, in any state.
    ResolveManually,
}

/// Lists tasks, newest first. A page may be short or empty although more tasks match: continue while there is a `next`.
#[utoipa::path(
    get, path = "/tasks", tag = "tasks", params(ListParams),
    responses(
        (status = 200, description = "Tasks", body = TaskPage),
        (status = 400, description = "A parameter is invalid", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, query: Query) -> Result<Json<TaskPage>, ApiError> {
    let state = |what: &str, name: &str| {
        TaskState::named(name)
            .ok_or_else(|| ApiError::bad_request(format!("invalid parameter `{what}`: {name:?} is not a task state")))
    };
    let status = query.text("status").map(|name| state("status", name));
    let excluded = query.text("exclude_status").into_iter().flat_map(|names| names.split(','));
    let priority = query.text("priority").map(|text| {
        text.parse().map_err(|_| {
            ApiError::bad_request(format!(
                "invalid parameter `priority`: must be between -32768 and 32767, got {text:?}"
            ))
        })
    });
    let filter = TaskFilter {
        namespace: label(&query, "namespace")?,
        name: label(&query, "name")?,
        version: label(&query, "version")?,
        status: status.transpose()?,
        priority: priority.transpose()?,
        tag: label(&query, "tag")?,
        correlation_id: label(&query, "correlation_id")?,
        initiator: label(&query, "initiator")?,
        exclude_status: excluded.map(|name| state("exclude_status", name)).collect::<Result<_, _>>()?,
        exclude_name: label(&query, "exclude_name")?,
        context: query.text("context").map(str::to_owned),
        created_after: query.time("created_after")?,
        created_before: query.time("created_before")?,
    };
    let after = query.text("after").map(|text| uuid("after", text)).transpose()?;
    let limit = query.number("limit", 1..=PAGE_MAX as u64)?.unwrap_or(PAGE);
    Ok(Json(flow.tasks(&filter, after, limit as usize).await?))
}

/// A task with its steps. With `wait_ms` the response is sent when the task ends or the time is over, whichever comes
/// first.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}", tag = "tasks", params(("task_uuid" = Id, Path, description = "The task"), WaitParams),
    responses(
        (status = 200, description = "The task", body = Task),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such task", body = Failure),
        (status = 503, description = "Too many requests are waiting, or the database is unavailable; retry", body = Failure),
    )
)]
pub(super) async fn one(
    State(flow): State<Flow>,
    Path(task): Path<String>,
    query: Query,
) -> Result<Json<Task>, ApiError> {
    let task = uuid("task_uuid", &task)?;
    if let Some(wait_ms) = query.number("wait_ms", 0..=WAIT_MS_MAX)?.filter(|wait_ms| *wait_ms > 0) {
        match flow.wait(task, Instant::now() + Duration::from_millis(wait_ms)).await {
            Ok(Some(task)) => return Ok(Json(task)),
            // A server that stops answers waiting requests instead of cutting them off.
            Ok(None) | Err(Error::Wake(reveille_wake::Error::Closed { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(flow.task(task).await?.ok_or(Error::NoTask { task })?))
}

/// A task without its context and steps.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/summary", tag = "tasks", params(("task_uuid" = Id, Path, description = "The task")),
    responses(
        (status = 200, description = "The task", body = TaskSummary),
        (status = 400, description = "The task id is not a UUID", body = Failure),
        (status = 404, description = "There is no such task", body = Failure),
    )
)]
pub(super) async fn summary(State(flow): State<Flow>, Path(task): Path<String>) -> Result<Json<TaskSummary>, ApiError> {
    let task = uuid("task_uuid", &task)?;
    Ok(Json(flow.summary(task).await?.ok_or(Error::NoTask { task })?))
}

/// Cancels a task and all its steps that have not ended. Repeating the request changes nothing.
#[utoipa::path(
    delete, path = "/tasks/{task_uuid}", tag = "tasks", params(("task_uuid" = Id, Path, description = "The task"), CancelParams),
    responses(
        (status = 200, description = "The cancelled task", body = Cancelled),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such task", body = Failure),
        (status = 409, description = "The task has already ended in another state", body = Failure),
    )
)]
pub(super) async fn cancel(
    State(flow): State<Flow>,
    principal: Principal,
    Path(task): Path<String>,
    query: Query,
) -> Result<Json<Cancelled>, ApiError> {
    let name = label(&query, "by")?.unwrap_or_else(|| DEFAULT_OPERATOR.to_owned());
    let operator = operator(&principal, name, label(&query, "reason")?);
    Ok(Json(flow.cancel(uuid("task_uuid", &task)?, operator).await?))
}

/// Applies a manual operation to a task.
#[utoipa::path(
    patch, path = "/tasks/{task_uuid}", tag = "tasks", params(("task_uuid" = Id, Path, description = "The task")),
    request_body = Request,
    responses(
        (status = 200, description = "The task after the operation", body = Cancelled),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such task", body = Failure),
        (status = 409, description = "Not allowed in its current state", body = Failure),
    )
)]
pub(super) async fn resolve(
    State(flow): State<Flow>,
    principal: Principal,
    Path(task): Path<String>,
    body: Body,
) -> Result<Json<Cancelled>, ApiError> {
    let task = uuid("task_uuid", &task)?;
    let Request { operation, by, reason } = body.json()?;
    let operator = operator(&principal, by, reason);
    Ok(Json(match operation {
        OperationType::Cancel => flow.cancel(task, operator).await?,
        OperationType::ResolveManually => flow.resolve(task, operator).await?,
    }))
}

/// Resuming a task.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ResumeRequest)]
struct Resume {
    /// The operator's name, as the history shows it.
    #[schema(value_type = Person)]
    by: String,
    /// The reason, for the history.
    #[schema(value_type = Option<Label>)]
    reason: Option<String>,
}

/// Resumes a task that ended in error, by a failure or a time limit. Its time limits start again now.
#[utoipa::path(
    post, path = "/tasks/{task_uuid}/resume", tag = "tasks", params(("task_uuid" = Id, Path, description = "The task")),
    request_body = Resume,
    responses(
        (status = 200, description = "The task after the change", body = TaskSummary),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
        (status = 404, description = "There is no such task", body = Failure),
        (status = 409, description = "The task has not ended in error", body = Failure),
    )
)]
pub(super) async fn resume(
    State(flow): State<Flow>,
    principal: Principal,
    Path(task): Path<String>,
    body: Body,
) -> Result<Json<TaskSummary>, ApiError> {
    let task = uuid("task_uuid", &task)?;
    let Resume { by, reason } = body.json()?;
    Ok(Json(flow.resume(task, operator(&principal, by, reason)).await?))
}
