//! `POST /tasks/bulk`: one operation on many steps or tasks, with a preview.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, Principal, Role};
use serde::Deserialize;
use utoipa::ToSchema;

use super::operator;
use super::schema::{Label, Person};
use crate::flow::Flow;
use crate::operate::{BULK_MAX, BulkFilter, BulkOperation, BulkReport, BulkRequest};

/// An operation on many steps or tasks.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BulkOperationRequest)]
struct Request {
    /// Which steps or tasks. At least one field must be given.
    filter: BulkFilter,
    /// The operation on each.
    operation: BulkOperation,
    /// The most to operate on; default 1000.
    #[schema(minimum = 1, maximum = 1_000)]
    limit: Option<usize>,
    /// Changes nothing, and returns what would be done.
    #[serde(default)]
    #[schema(required = false)]
    preview: bool,
    /// The operator's name, as the history shows it.
    #[schema(value_type = Person)]
    by: String,
    /// The reason, for the history.
    #[schema(value_type = Option<Label>)]
    reason: Option<String>,
}

/// Applies one operation to many steps or tasks, each in its own transaction, or previews it.
#[utoipa::path(
    post, path = "/tasks/bulk", tag = "tasks", request_body = Request,
    responses(
        (status = 200, description = "What was done, or would be done, and what was rejected", body = BulkReport),
        (status = 400, description = "A parameter is invalid; nothing was done", body = Failure),
    )
)]
pub(super) async fn bulk(
    State(flow): State<Flow>,
    principal: Principal,
    body: Body,
) -> Result<Json<BulkReport>, ApiError> {
    let Request { filter, operation, limit, preview, by, reason } = body.json()?;
    match &filter.namespace {
        Some(namespace) => principal.require_namespace(Role::Operator, namespace)?,
        None => principal.require(Role::Operator)?,
    }
    let request = BulkRequest { filter, operation, limit: limit.unwrap_or(BULK_MAX), preview };
    Ok(Json(flow.bulk(request, operator(&principal, by, reason)).await?))
}
