//! `/dlq…`: tasks and steps that need an operator.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, Id, Path, Principal, Query};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::schema::Label;
use super::{author, label, page, uuid};
use crate::flow::Flow;
use crate::query::investigation::{Investigation, InvestigationFilter, InvestigationPage, Resolution};

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(one, close))
}

/// A page of entries. Filters that are not given match everything.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct ListParams {
    /// Of tasks in this namespace.
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
    /// Of this task.
    #[param(value_type = Option<Id>)]
    task_uuid: Option<Uuid>,
    /// With this reason.
    #[param(value_type = Option<Label>)]
    reason: Option<String>,
    /// Only open entries, or only resolved ones.
    open: Option<bool>,
    /// Entries older than the one with this id.
    #[param(minimum = 0)]
    before: Option<i64>,
    /// The most entries to return; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// The resolution of an entry.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = InvestigationRequest)]
struct Request {
    resolution: Resolution,
    /// The operator who resolved it.
    #[schema(max_length = 2_000, pattern = r"^[^\u0000]*$")]
    resolved_by: String,
    /// Notes for later readers.
    #[schema(max_length = 2_000, pattern = r"^[^\u0000]*$")]
    notes: Option<String>,
}

/// Lists the entries, newest first.
#[utoipa::path(
    get, path = "/dlq", tag = "dead letters", params(ListParams),
    responses(
        (status = 200, description = "Entries", body = InvestigationPage),
        (status = 400, description = "A parameter is invalid", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, query: Query) -> Result<Json<InvestigationPage>, ApiError> {
    let filter = InvestigationFilter {
        namespace: label(&query, "namespace")?,
        task: query.text("task_uuid").map(|text| uuid("task_uuid", text)).transpose()?,
        reason: label(&query, "reason")?,
        open: query.text("open").map(|_| query.flag("open")).transpose()?,
        before: query.number("before", 0..=i64::MAX as u64)?.map(|before| before as i64),
    };
    Ok(Json(flow.investigations(&filter, page(&query)?).await?))
}

/// One entry.
#[utoipa::path(
    get, path = "/dlq/{id}", tag = "dead letters", params(("id" = i64, Path, description = "The id of the entry")),
    responses(
        (status = 200, description = "The entry", body = Investigation),
        (status = 400, description = "The id is not a number", body = Failure),
        (status = 404, description = "There is no such entry", body = Failure),
    )
)]
pub(super) async fn one(State(flow): State<Flow>, Path(id): Path<i64>) -> Result<Json<Investigation>, ApiError> {
    found(id, flow.investigation(id).await?)
}

/// Resolves an entry. The first resolution is kept.
#[utoipa::path(
    patch, path = "/dlq/{id}", tag = "dead letters", params(("id" = i64, Path, description = "The id of the entry")),
    request_body = Request,
    responses(
        (status = 200, description = "The entry after the change", body = Investigation),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such entry", body = Failure),
    )
)]
pub(super) async fn close(
    State(flow): State<Flow>,
    principal: Principal,
    Path(id): Path<i64>,
    body: Body,
) -> Result<Json<Investigation>, ApiError> {
    let Request { resolution, resolved_by, notes } = body.json()?;
    let resolved_by = author(&principal, resolved_by);
    found(id, flow.close_investigation(id, resolution, &resolved_by, notes.as_deref()).await?)
}

fn found(id: i64, entry: Option<Investigation>) -> Result<Json<Investigation>, ApiError> {
    entry.map(Json).ok_or_else(|| ApiError::not_found(format!("no dead-letter entry with id {id}")))
}
