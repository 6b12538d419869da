//! `/tasks/{task_uuid}/workflow_steps…`: the steps of a task, who tried them, and what people do with them.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::{Body, Failure, Id, Path, Refusal};

use super::form::{Label, Person};
use super::{given, uuid};
use crate::audit::Attempt;
use crate::error::Error;
use crate::exact;
use crate::flow::Flow;
use crate::manual::{Operated, Operation, Who};
use crate::read::TaskStep;

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(one, operate)).routes(routes!(audit))
}

/// Steps of a task.
#[derive(Serialize, ToSchema)]
#[schema(as = TaskSteps)]
pub(super) struct Steps {
    steps: Vec<TaskStep>,
}

/// Attempts at a step.
#[derive(Serialize, ToSchema)]
#[schema(as = Audit)]
pub(super) struct Attempts {
    attempts: Vec<Attempt>,
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
    params(("task_uuid" = Id, Path, description = "The task")),
    responses(
        (status = 200, description = "Steps, in the order of the template", body = Steps),
        (status = 400, description = "That is no id", body = Failure),
        (status = 404, description = "There is no such task", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, Path(task): Path<String>) -> Result<Json<Steps>, Refusal> {
    let task = uuid("task_uuid", &task)?;
    Ok(Json(Steps { steps: flow.steps(task).await?.ok_or(Error::NoTask { task })? }))
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
    params(("task_uuid" = Id, Path, description = "The task"), ("step" = Label, Path, description = "The step's name")),
    responses(
        (status = 200, description = "Attempts, in order", body = Attempts),
        (status = 400, description = "That is no id", body = Failure),
        (status = 404, description = "There is no such step, or it has not come to be", body = Failure),
    )
)]
pub(super) async fn audit(
    State(flow): State<Flow>,
    Path((task, step)): Path<(String, String)>,
) -> Result<Json<Attempts>, Refusal> {
    let task = uuid("task_uuid", &task)?;
    Ok(Json(Attempts { attempts: flow.audit(task, &step).await?.ok_or(Error::NoStep { task, step })? }))
}
