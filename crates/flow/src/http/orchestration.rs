//! `/orchestration…`: the health of this server's orchestrator, and the claim mode of all namespaces.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::events::{Orchestration, OrchestrationMode};
use crate::flow::Flow;

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(detail)).routes(routes!(mode, set_mode))
}

/// The orchestrators of this server.
#[derive(Serialize, ToSchema)]
pub(super) struct Orchestrations {
    orchestrators: Vec<Orchestration>,
}

/// The health of this server's orchestrator, check by check, and its configuration: routing rules, deduplication,
/// fallback. Does not query the database.
#[utoipa::path(
    get, path = "/orchestration", tag = "namespaces",
    responses((status = 200, description = "Orchestrators", body = Orchestrations))
)]
pub(super) async fn detail(State(flow): State<Flow>) -> Json<Orchestrations> {
    Json(Orchestrations { orchestrators: flow.orchestrations() })
}

/// The claim mode of all namespaces: `hybrid`, unless all have the same mode.
#[utoipa::path(
    get, path = "/orchestration/mode", tag = "namespaces",
    responses((status = 200, description = "The mode", body = OrchestrationMode))
)]
pub(super) async fn mode(State(flow): State<Flow>) -> Result<Json<OrchestrationMode>, ApiError> {
    Ok(Json(flow.mode().await?))
}

/// Sets the claim mode of all namespaces, on all servers.
#[utoipa::path(
    put, path = "/orchestration/mode", tag = "namespaces", request_body = OrchestrationMode,
    responses(
        (status = 200, description = "The mode as it is now", body = OrchestrationMode),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
    )
)]
pub(super) async fn set_mode(State(flow): State<Flow>, body: Body) -> Result<Json<OrchestrationMode>, ApiError> {
    flow.set_mode(&body.json()?).await?;
    Ok(Json(flow.mode().await?))
}
