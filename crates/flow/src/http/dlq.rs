//! `/dlq…`: what somebody has to look into.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;
use web::{Body, Failure, Id, Path, Query, Refusal};

use super::schema::Label;
use super::{label, page, uuid};
use crate::flow::Flow;
use crate::query::investigation::{Investigation, InvestigationFilter, InvestigationPage, Resolution};

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(one, close))
}

/// Which entries. Everything that is not given is not asked.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct Which {
    /// Of tasks in this namespace.
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
    /// Of this task.
    #[param(value_type = Option<Id>)]
    task_uuid: Option<Uuid>,
    /// For this reason.
    #[param(value_type = Option<Label>)]
    reason: Option<String>,
    /// Those that nobody has dealt with, or the others.
    open: Option<bool>,
    /// Those that came before the one of this number.
    #[param(minimum = 0)]
    before: Option<i64>,
    /// How many at most; 100 if it is not given.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// What became of an entry.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = InvestigationRequest)]
struct Verdict {
    resolution: Resolution,
    /// Who says so.
    #[schema(max_length = 2_000, pattern = r"^[^\u0000]*$")]
    resolved_by: String,
    /// And what else.
    #[schema(max_length = 2_000, pattern = r"^[^\u0000]*$")]
    notes: Option<String>,
}

/// What has to be looked into, newest first.
#[utoipa::path(
    get, path = "/dlq", tag = "dead letters", params(Which),
    responses(
        (status = 200, description = "Entries", body = InvestigationPage),
        (status = 400, description = "Something cannot be meant", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, query: Query) -> Result<Json<InvestigationPage>, Refusal> {
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
    get, path = "/dlq/{id}", tag = "dead letters", params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "The entry", body = Investigation),
        (status = 400, description = "That is no number", body = Failure),
        (status = 404, description = "There is none", body = Failure),
    )
)]
pub(super) async fn one(State(flow): State<Flow>, Path(id): Path<i64>) -> Result<Json<Investigation>, Refusal> {
    found(id, flow.investigation(id).await?)
}

/// Says what became of an entry. What was said first stays.
#[utoipa::path(
    patch, path = "/dlq/{id}", tag = "dead letters", params(("id" = i64, Path, description = "Its number")),
    request_body = Verdict,
    responses(
        (status = 200, description = "The entry as it is now", body = Investigation),
        (status = 400, description = "Something cannot be meant", body = Failure),
        (status = 404, description = "There is none", body = Failure),
    )
)]
pub(super) async fn close(
    State(flow): State<Flow>,
    Path(id): Path<i64>,
    body: Body,
) -> Result<Json<Investigation>, Refusal> {
    let Verdict { resolution, resolved_by, notes } = body.json()?;
    found(id, flow.close_investigation(id, resolution, &resolved_by, notes.as_deref()).await?)
}

fn found(id: i64, entry: Option<Investigation>) -> Result<Json<Investigation>, Refusal> {
    entry.map(Json).ok_or_else(|| Refusal::not_found(format!("there is no entry {id}")))
}
