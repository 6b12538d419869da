//! `/tasks/{task_uuid}/waiting` and `…/attempts`: why steps are not running, and the attempts of a whole task.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Failure, Id, Path, Query};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::schema::Label;
use super::{long_page, uuid};
use crate::error::Error;
use crate::flow::Flow;
use crate::query::audit::TaskAttemptPage;
use crate::query::waiting::{WaitingStep, WaitingSteps};

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(all)).routes(routes!(one)).routes(routes!(attempts))
}

/// A page of attempts.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `attempts`, described here")]
struct AttemptsAfter {
    /// The `next` of the previous page.
    #[param(pattern = "^-?[0-9]{1,9}:-?[0-9]{1,18}$")]
    after: Option<String>,
    /// The most attempts to return; default 1000.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// Why each open step of a task is not running, or who runs it.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/waiting", tag = "tasks",
    params(("task_uuid" = Id, Path, description = "The task")),
    responses(
        (status = 200, description = "The created steps that are not complete, in the order of the template", body = WaitingSteps),
        (status = 400, description = "The task id is not a UUID", body = Failure),
        (status = 404, description = "There is no such task", body = Failure),
    )
)]
pub(super) async fn all(State(flow): State<Flow>, Path(task): Path<String>) -> Result<Json<WaitingSteps>, ApiError> {
    let task = uuid("task_uuid", &task)?;
    Ok(Json(flow.waiting(task).await?.ok_or(Error::NoTask { task })?))
}

/// Why a step is not running, or who runs it.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/workflow_steps/{step}/waiting", tag = "tasks",
    params(("task_uuid" = Id, Path, description = "The task"), ("step" = Label, Path, description = "The step's name")),
    responses(
        (status = 200, description = "What the step waits for", body = WaitingStep),
        (status = 400, description = "The task id is not a UUID", body = Failure),
        (status = 404, description = "There is no such step in the template of the task", body = Failure),
    )
)]
pub(super) async fn one(
    State(flow): State<Flow>,
    Path((task, step)): Path<(String, String)>,
) -> Result<Json<WaitingStep>, ApiError> {
    let task = uuid("task_uuid", &task)?;
    Ok(Json(flow.why_waiting(task, &step).await?.ok_or(Error::NoStep { task, step })?))
}

/// The attempts of all steps of a task, step by step: worker, times, duration and outcome, without results and errors.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/attempts", tag = "tasks",
    params(("task_uuid" = Id, Path, description = "The task"), AttemptsAfter),
    responses(
        (status = 200, description = "Attempts", body = TaskAttemptPage),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such task", body = Failure),
    )
)]
pub(super) async fn attempts(
    State(flow): State<Flow>,
    Path(task): Path<String>,
    query: Query,
) -> Result<Json<TaskAttemptPage>, ApiError> {
    let task = uuid("task_uuid", &task)?;
    let found = flow.attempts(task, query.text("after"), long_page(&query)?).await?;
    Ok(Json(found.ok_or(Error::NoTask { task })?))
}
