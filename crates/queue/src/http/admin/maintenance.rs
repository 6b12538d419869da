//! `/system/maintenance…`: keeping pushes aside, and letting pops find nothing.

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

/// Whether it is to begin or to end.
#[derive(Deserialize, ToSchema)]
#[schema(as = MaintenanceRequest)]
struct Wish {
    #[schema(required, value_type = bool)]
    enabled: Option<bool>,
}

impl Wish {
    fn read(body: &Body) -> Result<bool, ApiError> {
        body.json::<Wish>()?.enabled.ok_or_else(|| missing("enabled"))
    }
}

/// What is under maintenance, on all servers.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MaintenanceState)]
pub(super) struct Shown {
    /// Pushes are kept aside.
    maintenance_mode: bool,
    /// Pops find nothing.
    pop_maintenance_mode: bool,
    /// How many messages are kept aside.
    buffered_messages: u64,
    /// Always true: what is kept aside is in the database, as safe as everything else.
    buffer_healthy: bool,
    buffer_stats: Buffer,
}

/// What is kept aside.
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

/// What is under maintenance.
#[utoipa::path(
    get, path = "/system/maintenance", tag = "administration",
    responses(
        (status = 200, description = "What is", body = Shown),
        (status = 503, description = "The database is away; try again", body = Failure),
    )
)]
async fn state(State(queues): State<Queues>) -> Result<Json<Shown>, ApiError> {
    Ok(Json(queues.maintenance().await?.into()))
}

/// Begins or ends the maintenance of pushes. While it lasts messages are kept aside; its end pushes them in their order, and is answered when that is done.
#[utoipa::path(
    post, path = "/system/maintenance", tag = "administration", request_body = Wish,
    responses(
        (status = 200, description = "What is under maintenance now", body = Shown),
        (status = 400, description = "Something cannot be meant; nothing was changed", body = Failure),
        (status = 409, description = "It cannot end here or now; nothing is lost", body = Failure),
        (status = 503, description = "The database is away; try again", body = Failure),
    )
)]
async fn set(state: State<Queues>, body: Body) -> Result<Json<Shown>, ApiError> {
    let done = state.set_push_maintenance(Wish::read(&body)?).await;
    done.map_err(|error| match error {
        Error::NoKey { .. } | Error::WrongKey { .. } => {
            ApiError::new(axum::http::StatusCode::CONFLICT, format!("{error}: what is kept aside stays there"))
        }
        error => error.into(),
    })?;
    self::state(state).await
}

/// What is under maintenance.
#[utoipa::path(
    get, path = "/system/maintenance/pop", tag = "administration",
    responses(
        (status = 200, description = "What is", body = Shown),
        (status = 503, description = "The database is away; try again", body = Failure),
    )
)]
async fn pop_state(queues: State<Queues>) -> Result<Json<Shown>, ApiError> {
    state(queues).await
}

/// Begins or ends the maintenance of pops. While it lasts nobody gets anything; who waits, waits.
#[utoipa::path(
    post, path = "/system/maintenance/pop", tag = "administration", request_body = Wish,
    responses(
        (status = 200, description = "What is under maintenance now", body = Shown),
        (status = 400, description = "Something cannot be meant; nothing was changed", body = Failure),
        (status = 503, description = "The database is away; try again", body = Failure),
    )
)]
async fn set_pop(state: State<Queues>, body: Body) -> Result<Json<Shown>, ApiError> {
    state.set_pop_maintenance(Wish::read(&body)?).await?;
    self::state(state).await
}
