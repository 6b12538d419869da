//! `POST /tasks/bulk`: the same for many steps or tasks, after a preview.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;
use web::{Body, Failure, Refusal};

use super::form::{Label, Person};
use crate::flow::Flow;
use crate::operate::{BULK_MAX, BulkFilter, BulkOperation, BulkReport, BulkRequest, Who};

/// An operation for many, and who wants it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BulkWish)]
struct Wish {
    /// For which. Something must be given.
    filter: BulkFilter,
    /// What is done with each.
    operation: BulkOperation,
    /// How many at most; 1000 if it is not given.
    #[schema(minimum = 1, maximum = 1_000)]
    limit: Option<usize>,
    /// Changes nothing, and says what would be done.
    #[serde(default)]
    #[schema(required = false)]
    preview: bool,
    /// What the history calls whoever does it.
    #[schema(value_type = Person)]
    by: String,
    /// For whoever reads it later.
    #[schema(value_type = Option<Label>)]
    reason: Option<String>,
}

/// Does the same with many steps or tasks, each by itself, or says what would be done.
#[utoipa::path(
    post, path = "/tasks/bulk", tag = "tasks", request_body = Wish,
    responses(
        (status = 200, description = "What was done, or would be, and what could not be", body = BulkReport),
        (status = 400, description = "Something cannot be meant; nothing was done", body = Failure),
    )
)]
pub(super) async fn bulk(State(flow): State<Flow>, body: Body) -> Result<Json<BulkReport>, Refusal> {
    let Wish { filter, operation, limit, preview, by, reason } = body.json()?;
    let request = BulkRequest { filter, operation, limit: limit.unwrap_or(BULK_MAX), preview };
    Ok(Json(flow.bulk(request, Who { name: by, reason }).await?))
}
