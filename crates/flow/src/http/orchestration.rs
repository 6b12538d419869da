//! `/orchestration…`: how this server's orchestrator is doing, and how the steps of all namespaces are claimed.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::{ApiError, Body, Failure};

use crate::event_driven::{Orchestration, OrchestrationMode};
use crate::flow::Flow;

pub(super) fn routes() -> OpenApiRouter<Flow> {
    OpenApiRouter::new().routes(routes!(detail)).routes(routes!(mode, set_mode))
}

/// The orchestrators of this server.
#[derive(Serialize, ToSchema)]
pub(super) struct Orchestrations {
    orchestrators: Vec<Orchestration>,
}

/// How the orchestrator of this server is doing, check by check, and how it is set up: routing rules, deduplication, fallback. Asks the database nothing.
#[utoipa::path(
    get, path = "/orchestration", tag = "namespaces",
    responses((status = 200, description = "Orchestrators", body = Orchestrations))
)]
pub(super) async fn detail(State(flow): State<Flow>) -> Json<Orchestrations> {
    Json(Orchestrations { orchestrators: flow.orchestrations() })
}

/// How the steps of all namespaces are claimed: `hybrid`, unless all are claimed alike.
#[utoipa::path(
    get, path = "/orchestration/mode", tag = "namespaces",
    responses((status = 200, description = "The mode", body = OrchestrationMode))
)]
pub(super) async fn mode(State(flow): State<Flow>) -> Result<Json<OrchestrationMode>, ApiError> {
    Ok(Json(flow.mode().await?))
}

/// Sets how the steps of all namespaces are claimed, for all servers, from now on.
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
