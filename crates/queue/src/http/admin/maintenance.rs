//! `/system/maintenance…`: buffering pushes, and letting pops find nothing.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::admin::maintenance::Maintenance;
use crate::error::Error;
use crate::http::api_error::missing;
use crate::queues::Queues;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(state, set)).routes(routes!(pop_state, set_pop))
}

/// Begins or ends maintenance.
#[derive(Deserialize, ToSchema)]
#[schema(as = MaintenanceRequest)]
struct MaintenanceRequest {
    #[schema(required, value_type = bool)]
    enabled: Option<bool>,
}

impl MaintenanceRequest {
    fn read(body: &Body) -> Result<bool, ApiError> {
        body.json::<MaintenanceRequest>()?.enabled.ok_or_else(|| missing("enabled"))
    }
}

/// The state of maintenance, on all servers.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MaintenanceState)]
pub(super) struct Shown {
    /// Pushes are buffered.
    maintenance_mode: bool,
    /// Pops find nothing.
    pop_maintenance_mode: bool,
    /// The number of buffered messages.
    buffered_messages: u64,
    /// Always true: the buffer is a table of the database.
    buffer_healthy: bool,
    buffer_stats: Buffer,
}

/// The buffer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BufferStats)]
struct Buffer {
    messages: u64,
    bytes: u64,
    #[schema(value_type = Option<String>, format = DateTime)]
    oldest_at: Option<Timestamp>,
}

impl From<Maintenance> for Shown {
    fn from(maintenance: Maintenance) -> Shown {
        Shown {
            maintenance_mode: maintenance.push,
            pop_maintenance_mode: maintenance.pop,
            buffered_messages: maintenance.buffered,
            buffer_healthy: true,
            buffer_stats: Buffer {
                messages: maintenance.buffered,
                bytes: maintenance.buffered_bytes,
                oldest_at: maintenance.oldest_at.map(Timestamp),
            },
        }
    }
}

/// The state of maintenance.
#[utoipa::path(
    get, path = "/system/maintenance", tag = "administration",
    responses(
        (status = 200, description = "The state of maintenance", body = Shown),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn state(State(queues): State<Queues>) -> Result<Json<Shown>, ApiError> {
    Ok(Json(queues.maintenance().await?.into()))
}

/// Begins or ends push maintenance: messages are buffered until it ends. Its end pushes them in their order, and then
/// responds.
#[utoipa::path(
    post, path = "/system/maintenance", tag = "administration", request_body = MaintenanceRequest,
    responses(
        (status = 200, description = "The new state of maintenance", body = Shown),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
        (status = 409, description = "It cannot end on this server or now; no message is lost", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn set(state: State<Queues>, body: Body) -> Result<Json<Shown>, ApiError> {
    let done = state.set_push_maintenance(MaintenanceRequest::read(&body)?).await;
    done.map_err(|error| match error {
        Error::NoKey { .. } | Error::WrongKey { .. } => {
            ApiError::new(axum::http::StatusCode::CONFLICT, format!("{error}: the messages stay buffered"))
        }
        error => error.into(),
    })?;
    self::state(state).await
}

/// The state of maintenance.
#[utoipa::path(
    get, path = "/system/maintenance/pop", tag = "administration",
    responses(
        (status = 200, description = "The state of maintenance", body = Shown),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn pop_state(queues: State<Queues>) -> Result<Json<Shown>, ApiError> {
    state(queues).await
}

/// Begins or ends pop maintenance: pops find no messages, and waiting pops wait on.
#[utoipa::path(
    post, path = "/system/maintenance/pop", tag = "administration", request_body = MaintenanceRequest,
    responses(
        (status = 200, description = "The new state of maintenance", body = Shown),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn set_pop(state: State<Queues>, body: Body) -> Result<Json<Shown>, ApiError> {
    state.set_pop_maintenance(MaintenanceRequest::read(&body)?).await?;
    self::state(state).await
}
