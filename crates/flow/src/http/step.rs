//! `/tasks/{task_uuid}/workflow_steps…`: the steps of a task, who tried them, and what people do with them.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::{Body, Failure, Id, Path, Query, Refusal};

use super::form::{Label, Person};
use super::{given, long_page, uuid};
use crate::audit::AttemptPage;
use crate::error::Error;
use crate::exact;
use crate::flow::Flow;
use crate::operate::{Operated, Operation, Who};
use crate::read::{StepPage, TaskStep};

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(one, operate)).routes(routes!(audit))
}

/// Which steps.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct StepsAfter {
    /// What the page before it said as `next`: the name of a step.
    #[param(value_type = Option<Label>)]
    after: Option<String>,
    /// How many at most; 1 000 if it is not given.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// Which attempts.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `audit`, described here")]
struct AttemptsAfter {
    /// What the page before it said as `next`.
    #[param(minimum = 0)]
    after: Option<u64>,
    /// How many at most; 1 000 if it is not given.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// What to do with a step.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StepOperation)]
struct Wish {
    #[serde(rename = "type")]
    what: What,
    /// Of `complete_manually`: the result, as the template allows it.
    #[serde(default, deserialize_with = "given")]
    #[schema(required = false, value_type = serde_json::Value)]
    result: Option<exact::Json>,
    /// What the history calls whoever does it.
    #[schema(value_type = Person)]
    by: String,
    /// For whoever reads it later.
    #[schema(value_type = Option<Label>)]
    reason: Option<String>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = StepOperationType)]
enum What {
    /// A step that failed for good has another chance: its attempts begin anew, its checkpoint is kept.
    ResetForRetry,
    /// It was dealt with by other means: what follows goes on.
    ResolveManually,
    /// It is completed with a result, as a worker would.
    CompleteManually,
}

impl Wish {
    fn operation(what: What, result: Option<exact::Json>) -> Result<Operation, Refusal> {
        match (what, result) {
            (What::ResetForRetry, None) => Ok(Operation::ResetForRetry),
            (What::ResolveManually, None) => Ok(Operation::ResolveManually),
            (What::CompleteManually, Some(result)) => Ok(Operation::CompleteManually { result }),
            (What::CompleteManually, None) => Err(Refusal::bad("result: it is missing")),
            (_, Some(_)) => Err(Refusal::bad("result: it is of complete_manually alone")),
        }
    }
}

/// The steps of a task that have come to be.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/workflow_steps", tag = "tasks",
    params(("task_uuid" = Id, Path, description = "The task"), StepsAfter),
    responses(
        (status = 200, description = "Steps, in the order of the template", body = StepPage),
        (status = 400, description = "Invalid parameter", body = Failure),
        (status = 404, description = "There is no such task, or it has no step `after`", body = Failure),
    )
)]
pub(super) async fn list(
    State(flow): State<Flow>,
    Path(task): Path<String>,
    query: Query,
) -> Result<Json<StepPage>, Refusal> {
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
        (status = 400, description = "That is no id", body = Failure),
        (status = 404, description = "There is none, or it has not come to be", body = Failure),
    )
)]
pub(super) async fn one(
    State(flow): State<Flow>,
    Path((task, step)): Path<(String, String)>,
) -> Result<Json<TaskStep>, Refusal> {
    let task = uuid("task_uuid", &task)?;
    Ok(Json(flow.step(task, &step).await?.ok_or(Error::NoStep { task, step })?))
}

/// Does something with a step by hand.
#[utoipa::path(
    patch, path = "/tasks/{task_uuid}/workflow_steps/{step}", tag = "tasks",
    params(("task_uuid" = Id, Path, description = "The task"), ("step" = Label, Path, description = "The step's name")),
    request_body = Wish,
    responses(
        (status = 200, description = "What became of it", body = Operated),
        (status = 400, description = "Something cannot be meant, or the template does not allow the result", body = Failure),
        (status = 404, description = "There is none, or it has not come to be", body = Failure),
        (status = 409, description = "Not where it is now", body = Failure),
    )
)]
pub(super) async fn operate(
    State(flow): State<Flow>,
    Path((task, step)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Operated>, Refusal> {
    let task = uuid("task_uuid", &task)?;
    let Wish { what, result, by, reason } = body.json()?;
    let operation = Wish::operation(what, result)?;
    Ok(Json(flow.operate(task, &step, operation, Who { name: by, reason }).await?))
}

/// Who tried a step, when, in how long, and with what outcome; what people did to it is there, too.
#[utoipa::path(
    get, path = "/tasks/{task_uuid}/workflow_steps/{step}/audit", tag = "tasks",
    params(("task_uuid" = Id, Path, description = "The task"), ("step" = Label, Path, description = "The step's name"), AttemptsAfter),
    responses(
        (status = 200, description = "Attempts, in order", body = AttemptPage),
        (status = 400, description = "Invalid parameter", body = Failure),
        (status = 404, description = "There is no such step, or it has not come to be", body = Failure),
    )
)]
pub(super) async fn audit(
    State(flow): State<Flow>,
    Path((task, step)): Path<(String, String)>,
    query: Query,
) -> Result<Json<AttemptPage>, Refusal> {
    let task = uuid("task_uuid", &task)?;
    let after = query.number("after", 0..=i64::MAX as u64)?.unwrap_or_default();
    let found = flow.audit(task, &step, after, long_page(&query)?).await?;
    Ok(Json(found.ok_or(Error::NoStep { task, step })?))
}
