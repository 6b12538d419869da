//! `/workers`: the workers, what they wait for, and the steps that they hold.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Failure, Query};
use utoipa::IntoParams;

use super::label;
use super::schema::Label;
use crate::flow::Flow;
use crate::query::workers::{WorkerFilter, Workers};

/// The workers to list. Filters that are not given match everything.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct ListParams {
    /// That claim from this namespace, or hold a step of it.
    #[param(value_type = Option<Label>)]
    namespace: Option<String>,
    /// That claim, or hold, a step with this name.
    #[param(value_type = Option<Label>)]
    step: Option<String>,
}

/// Lists workers: those that claim from this server, now or within the last ten minutes, and those of any server that
/// hold steps.
#[utoipa::path(
    get, path = "/workers", tag = "workers", params(ListParams),
    responses(
        (status = 200, description = "Workers, by name", body = Workers),
        (status = 400, description = "A parameter is invalid", body = Failure),
    )
)]
pub(super) async fn list(State(flow): State<Flow>, query: Query) -> Result<Json<Workers>, ApiError> {
    let filter = WorkerFilter { namespace: label(&query, "namespace")?, step: label(&query, "step")? };
    Ok(Json(flow.workers(&filter).await?))
}
