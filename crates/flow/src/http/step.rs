//! `/tasks/{task_uuid}/workflow_steps…`: the steps of a task, their attempts, and manual operations.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, Id, Path, Principal, Query};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::schema::{Label, Person};
use super::{given, long_page, operator, uuid};
use crate::error::Error;
use crate::flow::Flow;
use crate::json;
use crate::operate::{Operated, Operation};
use crate::query::audit::AttemptPage;
use crate::query::task::{StepPage, TaskStep};

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(one, operate)).routes(routes!(audit))
}

/// A page of steps.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct StepsAfter {
    /// The `next` of the previous page: the name of a step.
    #[param(value_type = Option<Label>)]
    after: Option<String>,
    /// The most steps to return; default 1000.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// A page of attempts.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `audit`, described here")]
struct AttemptsAfter {
    /// The `next` of the previous page.
    #[param(minimum = 0)]
    after: Option<u64>,
    /// The most attempts to return; default 1000.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// A manual operation on a step.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StepOperation)]
struct Request {
    #[serde(rename = "type")]
    operation: OperationType,
    /// Of `complete_manually`: the result. Must match the template's `result_schema`.
    #[serde(default, deserialize_with = "given")]
    #[schema(required = false, value_type = serde_json::Value)]
    result: Option<json::Json>,
    /// The operator's name, as the history shows it.
    #[schema(value_type = Person)]
    by: String,
    /// The reason, for the history.
    #[schema(value_type = Option<Label>)]
    reason: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = StepOperationType)]
enum OperationType {
    /// Retries a failed step: its attempts start at zero again, its checkpoint is kept.
    ResetForRetry,
    /// Marks the step as resolved by other means: the steps after it continue.
    ResolveManually,
    /// Completes the step with a result, as a worker would.
    CompleteManually,
}

impl OperationType {
    fn with_result(self, result: Option<json::Json>) -> Result<Operation, ApiError> {
        match (self, result) {
            (OperationType::ResetForRetry, None) => Ok(Operation::ResetForRetry),
            (OperationType::ResolveManually, None) => Ok(Operation::ResolveManually),
            (OperationType::CompleteManually, Some(result)) => Ok(Operation::CompleteManually { result }),
            (OperationType::CompleteManually, None) => Err(ApiError::bad_request("missing parameter `result`")),
            (_, Some(_)) => {
                Err(ApiError::bad_request("invalid parameter `result`: only complete_manually takes a result"))
            }
        }
    }
}

/// Lists the steps of a task that have been created so far.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/workflow_steps", tag = "tasks",
    params(("task_uuid" = Id, Path, description = "The task"), StepsAfter),
    responses(
        (status = 200, description = "Steps, in the order of the template", body = StepPage),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such task, or it has no step `after`", body = Failure),
    )
)]
pub(super) async fn list(
    State(flow): State<Flow>,
    Path(task): Path<String>,
    query: Query,
) -> Result<Json<StepPage>, ApiError> {
    let task = uuid("task_uuid", &task)?;
    let found = flow.steps(task, query.text("after"), long_page(&query)?).await?;
    Ok(Json(found.ok_or(Error::NoTask { task })?))
}

/// A step of a task.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/workflow_steps/{step}", tag = "tasks",
    params(("task_uuid" = Id, Path, description = "The task"), ("step" = Label, Path, description = "The step's name")),
    responses(
        (status = 200, description = "The step", body = TaskStep),
        (status = 400, description = "The task id is not a UUID", body = Failure),
        (status = 404, description = "There is no such step, or it has not been created yet", body = Failure),
    )
)]
pub(super) async fn one(
    State(flow): State<Flow>,
    Path((task, step)): Path<(String, String)>,
) -> Result<Json<TaskStep>, ApiError> {
    let task = uuid("task_uuid", &task)?;
    Ok(Json(flow.step(task, &step).await?.ok_or(Error::NoStep { task, step })?))
}

/// Applies a manual operation to a step.
#[utoipa::path(
    patch, path = "/tasks/{task_uuid}/workflow_steps/{step}", tag = "tasks",
    params(("task_uuid" = Id, Path, description = "The task"), ("step" = Label, Path, description = "The step's name")),
    request_body = Request,
    responses(
        (status = 200, description = "The step after the operation", body = Operated),
        (status = 400, description = "A parameter is invalid, or the result does not match the template's schema", body = Failure),
        (status = 404, description = "There is no such step, or it has not been created yet", body = Failure),
        (status = 409, description = "Not allowed in its current state", body = Failure),
    )
)]
pub(super) async fn operate(
    State(flow): State<Flow>,
    principal: Principal,
    Path((task, step)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Operated>, ApiError> {
    let task = uuid("task_uuid", &task)?;
    let Request { operation, result, by, reason } = body.json()?;
    let operation = operation.with_result(result)?;
    Ok(Json(flow.operate(task, &step, operation, operator(&principal, by, reason)).await?))
}

/// The attempts of a step: worker, times, duration and outcome. Manual operations are included.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/workflow_steps/{step}/audit", tag = "tasks",
    params(("task_uuid" = Id, Path, description = "The task"), ("step" = Label, Path, description = "The step's name"), AttemptsAfter),
    responses(
        (status = 200, description = "Attempts, in order", body = AttemptPage),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such step, or it has not been created yet", body = Failure),
    )
)]
pub(super) async fn audit(
    State(flow): State<Flow>,
    Path((task, step)): Path<(String, String)>,
    query: Query,
) -> Result<Json<AttemptPage>, ApiError> {
    let task = uuid("task_uuid", &task)?;
    let after = query.number("after", 0..=i64::MAX as u64)?.unwrap_or_default();
    let found = flow.audit(task, &step, after, long_page(&query)?).await?;
    Ok(Json(found.ok_or(Error::NoStep { task, step })?))
}
