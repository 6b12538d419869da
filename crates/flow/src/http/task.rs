//! `/tasks…`: lists of tasks, one of them, waiting for its end, and ending it.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;
use web::{Body, Failure, Id, Path, Query, Refusal, Time};

use super::form::{Label, Person};
use super::{WAIT_MS_MAX, label, uuid};
use crate::error::Error;
use crate::flow::Flow;
use crate::list::{PAGE_MAX, TaskFilter, TaskPage};
use crate::operate::{Cancelled, Who};
use crate::read::{Task, TaskSummary};
use crate::state::TaskState;

/// Tasks of a page that does not say how many.
const PAGE: u64 = 20;
/// Who ends a task, if that is not said.
const SOMEBODY: &str = "http";

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(one, cancel, resolve))
        .routes(routes!(summary))
        .routes(routes!(resume))
}

/// Which tasks. Everything that is not given does not matter.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct Which {
    /// In which namespace,
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
    /// of which template,
    #[param(value_type = Option<Label>)]
    name: Option<String>,
    /// of which version of it,
    #[param(value_type = Option<Label>)]
    version: Option<String>,
    /// where they are now,
    status: Option<TaskState>,
    /// of which priority,
    #[param(minimum = -32768, maximum = 32767)]
    priority: Option<i16>,
    /// with which tag,
    #[param(value_type = Option<Label>)]
    tag: Option<String>,
    /// what they belong to,
    #[param(value_type = Option<Label>)]
    correlation_id: Option<String>,
    /// who wanted them,
    #[param(value_type = Option<Label>)]
    initiator: Option<String>,
    /// made after
    #[param(value_type = Option<Time>)]
    created_after: Option<String>,
    /// or before a time.
    #[param(value_type = Option<Time>)]
    created_before: Option<String>,
    /// What the page before it said as `next`.
    #[param(value_type = Option<Id>)]
    after: Option<Uuid>,
    /// How many at most; 20 if it is not given.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// How long to wait.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `one`, described here")]
struct Wait {
    /// Milliseconds to wait for its end; not at all, if it is not given.
    #[param(maximum = 600_000)]
    wait_ms: Option<u64>,
}

/// Who ends a task, and why.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `cancel`, described here")]
struct By {
    /// What the history calls them.
    #[param(value_type = Option<Label>)]
    by: Option<String>,
    /// Why, for the history.
    #[param(value_type = Option<Label>)]
    reason: Option<String>,
}

/// What to do with a task.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TaskOperation)]
struct Wish {
    #[serde(rename = "type")]
    what: What,
    /// The name of the person who acts, for the history.
    #[schema(value_type = Person)]
    by: String,
    /// Why, for the history.
    #[schema(value_type = Option<Label>)]
    reason: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TaskOperationType)]
enum What {
    /// Everything of it that is not over is cancelled.
    Cancel,
    /// It was dealt with by other means, wherever it is.
    ResolveManually,
}

/// A page of tasks, the newest first. A page may be short, or empty, although there are more: `next` says so.
#[utoipa::path(
    get, path = "/tasks", tag = "tasks", params(Which),
    responses(
        (status = 200, description = "Tasks", body = TaskPage),
        (status = 400, description = "Something cannot be meant", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, query: Query) -> Result<Json<TaskPage>, Refusal> {
    let status = query.text("status").map(|name| {
        TaskState::named(name).ok_or_else(|| Refusal::bad(format!("status: {name:?} is not the state of a task")))
    });
    let priority = query.text("priority").map(|text| {
        text.parse().map_err(|_| Refusal::bad(format!("priority: {text:?} is not a number from -32768 to 32767")))
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
        created_after: query.time("created_after")?,
        created_before: query.time("created_before")?,
    };
    let after = query.text("after").map(|text| uuid("after", text)).transpose()?;
    let limit = query.number("limit", 1..=PAGE_MAX as u64)?.unwrap_or(PAGE);
    Ok(Json(flow.tasks(&filter, after, limit as usize).await?))
}

/// A task with its steps. With `wait_ms` it is answered when it has ended, or as it stands when that time is over.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}", tag = "tasks", params(("task_uuid" = Id, Path, description = "The task"), Wait),
    responses(
        (status = 200, description = "The task", body = Task),
        (status = 400, description = "Something cannot be meant", body = Failure),
        (status = 404, description = "There is none", body = Failure),
        (status = 503, description = "Too many wait, or the database is away; try again", body = Failure),
    )
)]
pub(super) async fn one(
    State(flow): State<Flow>,
    Path(task): Path<String>,
    query: Query,
) -> Result<Json<Task>, Refusal> {
    let task = uuid("task_uuid", &task)?;
    if let Some(wait_ms) = query.number("wait_ms", 0..=WAIT_MS_MAX)?.filter(|wait_ms| *wait_ms > 0) {
        match flow.wait(task, Instant::now() + Duration::from_millis(wait_ms)).await {
            Ok(Some(task)) => return Ok(Json(task)),
            // Who waits while the server stops is answered, not cut off.
            Ok(None) | Err(Error::Wake(wake::Error::Closed { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(flow.task(task).await?.ok_or(Error::NoTask { task })?))
}

/// A task without its context and its steps.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/summary", tag = "tasks", params(("task_uuid" = Id, Path, description = "The task")),
    responses(
        (status = 200, description = "The task", body = TaskSummary),
        (status = 400, description = "That is no id", body = Failure),
        (status = 404, description = "There is none", body = Failure),
    )
)]
pub(super) async fn summary(State(flow): State<Flow>, Path(task): Path<String>) -> Result<Json<TaskSummary>, Refusal> {
    let task = uuid("task_uuid", &task)?;
    Ok(Json(flow.summary(task).await?.ok_or(Error::NoTask { task })?))
}

/// Cancels a task, with everything of it that is not over. Doing so again changes nothing.
#[utoipa::path(
    delete, path = "/tasks/{task_uuid}", tag = "tasks", params(("task_uuid" = Id, Path, description = "The task"), By),
    responses(
        (status = 200, description = "It is cancelled", body = Cancelled),
        (status = 400, description = "Something cannot be meant", body = Failure),
        (status = 404, description = "There is none", body = Failure),
        (status = 409, description = "It ended otherwise", body = Failure),
    )
)]
pub(super) async fn cancel(
    State(flow): State<Flow>,
    Path(task): Path<String>,
    query: Query,
) -> Result<Json<Cancelled>, Refusal> {
    let name = label(&query, "by")?.unwrap_or_else(|| SOMEBODY.to_owned());
    let who = Who { name, reason: label(&query, "reason")? };
    Ok(Json(flow.cancel(uuid("task_uuid", &task)?, who).await?))
}

/// Ends a task by hand.
#[utoipa::path(
    patch, path = "/tasks/{task_uuid}", tag = "tasks", params(("task_uuid" = Id, Path, description = "The task")),
    request_body = Wish,
    responses(
        (status = 200, description = "What became of it", body = Cancelled),
        (status = 400, description = "Something cannot be meant", body = Failure),
        (status = 404, description = "There is none", body = Failure),
        (status = 409, description = "Not where it is now", body = Failure),
    )
)]
pub(super) async fn resolve(
    State(flow): State<Flow>,
    Path(task): Path<String>,
    body: Body,
) -> Result<Json<Cancelled>, Refusal> {
    let task = uuid("task_uuid", &task)?;
    let Wish { what, by, reason } = body.json()?;
    let who = Who { name: by, reason };
    Ok(Json(match what {
        What::Cancel => flow.cancel(task, who).await?,
        What::ResolveManually => flow.resolve(task, who).await?,
    }))
}

/// Who resumes a task, and why.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ResumeRequest)]
struct Resume {
    /// The name of the person who acts, for the history.
    #[schema(value_type = Person)]
    by: String,
    /// Why, for the history.
    #[schema(value_type = Option<Label>)]
    reason: Option<String>,
}

/// Lets a task go on that ended as an error: by failures, or because it took too long. Its limits count from now.
#[utoipa::path(
    post, path = "/tasks/{task_uuid}/resume", tag = "tasks", params(("task_uuid" = Id, Path, description = "The task")),
    request_body = Resume,
    responses(
        (status = 200, description = "The task as it is now", body = TaskSummary),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
        (status = 404, description = "There is no such task", body = Failure),
        (status = 409, description = "The task has not ended as an error", body = Failure),
    )
)]
pub(super) async fn resume(
    State(flow): State<Flow>,
    Path(task): Path<String>,
    body: Body,
) -> Result<Json<TaskSummary>, Refusal> {
    let task = uuid("task_uuid", &task)?;
    let Resume { by, reason } = body.json()?;
    Ok(Json(flow.resume(task, Who { name: by, reason }).await?))
}
