//! `/tasks/{task_uuid}/fork`: a new task that continues another one from a step.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use reveille_web::{ApiError, Body, Failure, Id, Path, Principal};
use serde::Deserialize;
use utoipa::ToSchema;

use super::schema::{Label, Person};
use super::{given, operator, uuid};
use crate::flow::Flow;
use crate::json;
use crate::name;
use crate::operate::{Fork, Forked};

/// A fork of a task.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ForkRequest)]
struct Request {
    /// The step from which the new task runs: it, and those that follow it, run again.
    #[schema(value_type = Label)]
    step: String,
    /// The context of the new task; default: that of the other task.
    #[serde(default, deserialize_with = "given")]
    #[schema(required = false, value_type = serde_json::Value)]
    context: Option<json::Json>,
    /// If the step is a part of a batch: its input; default: that in the other task.
    #[serde(default, deserialize_with = "given")]
    #[schema(required = false, value_type = serde_json::Value)]
    input: Option<json::Json>,
    /// The operator's name, as the history shows it.
    #[schema(value_type = Person)]
    by: String,
    /// The reason, for the history.
    #[schema(value_type = Option<Label>)]
    reason: Option<String>,
}

/// Creates a task that continues another one from a step. Steps that were completed there, and do not follow that step,
/// keep their results. The other task stays as it is.
#[utoipa::path(
    post, path = "/tasks/{task_uuid}/fork", tag = "tasks", params(("task_uuid" = Id, Path, description = "The other task")),
    request_body = Request,
    responses(
        (status = 201, description = "The new task", body = Forked),
        (status = 400, description = "A parameter is invalid, or the template does not allow the context", body = Failure),
        (status = 404, description = "There is no such task, or it has no such step", body = Failure),
        (status = 409, description = "A step that it depends on has not been completed, or the task is too large", body = Failure),
    )
)]
pub(super) async fn fork(
    State(flow): State<Flow>,
    principal: Principal,
    Path(task): Path<String>,
    body: Body,
) -> Result<(StatusCode, Json<Forked>), ApiError> {
    let task = uuid("task_uuid", &task)?;
    let Request { step, context, input, by, reason } = body.json()?;
    name::check("step", &step)?;
    let fork = Fork { step, context, input };
    Ok((StatusCode::CREATED, Json(flow.fork(task, fork, operator(&principal, by, reason)).await?)))
}
