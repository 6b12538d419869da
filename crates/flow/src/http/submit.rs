//! `POST /tasks`.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use web::{Body, Failure, Id, Refusal};

use super::BASE;
use super::form::Label;
use crate::flow::Flow;
use crate::task::submit::Submission;

/// A task to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TaskRequest)]
#[expect(dead_code, reason = "read as a submission, described here")]
struct Wish {
    /// The template,
    #[schema(value_type = Label)]
    name: String,
    /// its namespace,
    #[schema(value_type = Label)]
    namespace: String,
    /// and its version; the newest that is registered, by the rules of semantic versions, if it is not given.
    #[schema(value_type = Label, required = false)]
    version: String,
    /// What the steps work on.
    #[schema(required = false)]
    context: Value,
    /// Who wants it.
    #[schema(value_type = Option<Label>)]
    initiator: Option<String>,
    /// From where.
    #[schema(value_type = Option<Label>)]
    source_system: Option<String>,
    /// Why.
    #[schema(value_type = Option<Label>)]
    reason: Option<String>,
    /// By what to find it again.
    #[schema(value_type = Vec<Label>, max_items = 100, required = false)]
    tags: Vec<String>,
    /// The steps of a task of a higher priority are claimed first; 0 if it is not given.
    #[schema(required = false, minimum = -32768, maximum = 32767)]
    priority: i16,
    /// What it belongs to.
    #[schema(value_type = Option<Label>)]
    correlation_id: Option<String>,
    /// And what that belongs to.
    #[schema(value_type = Option<Label>)]
    parent_correlation_id: Option<String>,
    /// Two with the same are one task.
    #[schema(value_type = Option<Label>)]
    idempotency_key: Option<String>,
}

/// A task that was made.
#[derive(Serialize, ToSchema)]
#[schema(as = TaskMade)]
pub(super) struct Made {
    #[schema(value_type = Id)]
    task_uuid: String,
    name: String,
    namespace: String,
    version: String,
}

/// The task exists already.
#[derive(ToSchema)]
#[schema(as = TaskDuplicate)]
#[expect(dead_code, reason = "made where the refusal is, described here")]
pub(super) struct Duplicate {
    error: String,
    /// The task that is the same.
    #[schema(value_type = Id)]
    task_uuid: String,
}

/// Makes a task. Its first steps can be claimed when this is answered.
#[utoipa::path(
    post, path = "/tasks", tag = "tasks", request_body = Wish,
    responses(
        (status = 201, description = "The task; `location` says where it is", body = Made),
        (status = 400, description = "Something cannot be meant; no task was made", body = Failure),
        (status = 404, description = "There is no such template", body = Failure),
        (status = 409, description = "The same task was made before", body = Duplicate),
    )
)]
pub(super) async fn submit(
    State(flow): State<Flow>,
    body: Body,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Made>), Refusal> {
    let mut submission: Submission = body.json()?;
    if submission.version.is_empty() {
        submission.version = flow.inner.newest_version(&submission.namespace, &submission.name).await?;
    }
    let Submission { name, namespace, version, .. } = submission.clone();
    let (submitted, _charge) = body.carry(async move { flow.submit(submission).await }).await?;
    let task_uuid = submitted?.task_uuid.to_string();
    let place = (header::LOCATION, format!("{BASE}/tasks/{task_uuid}"));
    Ok((StatusCode::CREATED, [place], Json(Made { task_uuid, name, namespace, version })))
}
