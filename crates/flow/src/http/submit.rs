//! `POST /tasks`: submitting tasks.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use reveille_web::{ApiError, Body, Failure, Id, Principal, Role, TraceContext};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::BASE;
use super::schema::Label;
use crate::flow::Flow;
use crate::task::submit::Submission;

/// A task to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TaskRequest)]
#[expect(dead_code, reason = "parsed as a `Submission`, described here")]
struct Request {
    /// The name of the template.
    #[schema(value_type = Label)]
    name: String,
    /// The namespace of the template.
    #[schema(value_type = Label)]
    namespace: String,
    /// The version of the template; default: the highest registered version, by semantic versioning.
    #[schema(value_type = Label, required = false)]
    version: String,
    /// The input of the task. Must match the template's `input_schema`.
    #[schema(required = false)]
    context: Value,
    /// The user or system that wants the task.
    #[schema(value_type = Option<Label>)]
    initiator: Option<String>,
    /// The system that submits the task.
    #[schema(value_type = Option<Label>)]
    source_system: Option<String>,
    /// Why the task is submitted.
    #[schema(value_type = Option<Label>)]
    reason: Option<String>,
    /// Labels to find the task by.
    #[schema(value_type = Vec<Label>, max_items = 100, required = false)]
    tags: Vec<String>,
    /// Steps of tasks with a higher priority are claimed first; default 0.
    #[schema(required = false, minimum = -32768, maximum = 32767)]
    priority: i16,
    /// Groups tasks that belong together.
    #[schema(value_type = Option<Label>)]
    correlation_id: Option<String>,
    /// The correlation id of the parent.
    #[schema(value_type = Option<Label>)]
    parent_correlation_id: Option<String>,
    /// Submissions with the same key are the same task.
    #[schema(value_type = Option<Label>)]
    idempotency_key: Option<String>,
}

/// A created task.
#[derive(Serialize, ToSchema)]
#[schema(as = CreatedTask)]
pub(super) struct Created {
    #[schema(value_type = Id)]
    task_uuid: String,
    name: String,
    namespace: String,
    version: String,
}

/// The task exists already.
#[derive(ToSchema)]
#[schema(as = TaskDuplicate)]
#[expect(dead_code, reason = "written by `http/error.rs`, described here")]
pub(super) struct Duplicate {
    error: String,
    /// The existing task.
    #[schema(value_type = Id)]
    task_uuid: String,
}

/// Submits a task. Its first steps can be claimed as soon as this is answered.
#[utoipa::path(
    post, path = "/tasks", tag = "tasks", request_body = Request,
    responses(
        (status = 201, description = "The created task; the header `location` has its path", body = Created),
        (status = 400, description = "A parameter is invalid; no task was created", body = Failure),
        (status = 404, description = "There is no such template", body = Failure),
        (status = 409, description = "The task is a duplicate of an existing task", body = Duplicate),
    )
)]
pub(super) async fn submit(
    State(flow): State<Flow>,
    principal: Principal,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Created>), ApiError> {
    let mut submission: Submission = body.json()?;
    principal.require_namespace(Role::Producer, &submission.namespace)?;
    if submission.correlation_id.is_none() {
        // The worker continues the trace of the client.
        submission.correlation_id = TraceContext::of(&headers).map(|context| context.trace_id());
    }
    if submission.version.is_empty() {
        submission.version = flow.inner.newest_version(&submission.namespace, &submission.name).await?;
    }
    let Submission { name, namespace, version, .. } = submission.clone();
    let (submitted, _charge) = body.run_to_completion(async move { flow.submit(submission).await }).await?;
    let task_uuid = submitted?.task_uuid.to_string();
    let location = (header::LOCATION, format!("{BASE}/tasks/{task_uuid}"));
    Ok((StatusCode::CREATED, [location], Json(Created { task_uuid, name, namespace, version })))
}
