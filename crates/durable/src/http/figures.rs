//! `GET /figures`: how many instances there are, and what waits.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Failure};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::inspect::Instances;

pub(super) fn routes() -> OpenApiRouter<Instances> {
    OpenApiRouter::new().routes(routes!(figures))
}

/// Figures of all instances.
#[derive(Serialize, ToSchema)]
#[schema(as = DurableFigures)]
struct Figures {
    /// Milliseconds since they were read. They are read again only if something has happened since.
    age_ms: u64,
    /// Instances by status. Of a large table this is an estimate.
    instances: Vec<Count>,
    /// Due messages to instances, those of running turns included; at most 10 000 are counted.
    messages: u64,
    /// For how many milliseconds the oldest of them has been due.
    oldest_message_ms: Option<u64>,
    /// Running turns.
    turns: u64,
    /// Activities that wait for a worker.
    activities_waiting: u64,
    /// For how many milliseconds the oldest of them has been due.
    oldest_activity_ms: Option<u64>,
    /// Activities that a worker runs.
    activities_running: u64,
}

/// The number of instances with a status.
#[derive(Serialize, ToSchema)]
#[schema(as = InstanceCount)]
struct Count {
    /// The status, as duroxide names it.
    status: String,
    /// How many.
    instances: u64,
}

/// Instances by status, and what waits for a runtime or a worker. Sends no query if nothing has happened since the last
/// time.
#[utoipa::path(
    get, path = "/figures", tag = "durable",
    responses(
        (status = 200, description = "Figures", body = Figures),
        (status = 503, description = "They could not be read yet; retry", body = Failure),
    )
)]
async fn figures(State(instances): State<Instances>) -> Result<Json<Figures>, ApiError> {
    let read = instances.inner.watch.figures().await;
    let read = read.ok_or_else(|| ApiError::unavailable("figures could not be read yet; retry on this connection"))?;
    let (age, figures) = (read.age, read.value);
    let millis = |duration: std::time::Duration| duration.as_millis() as u64;
    // They have waited since they were read.
    let older = |oldest: Option<std::time::Duration>| oldest.map(|oldest| millis(oldest + age));
    let counts = figures.instances.iter();
    Ok(Json(Figures {
        age_ms: millis(age),
        instances: counts.map(|(status, count)| Count { status: status.clone(), instances: *count }).collect(),
        messages: figures.messages,
        oldest_message_ms: older(figures.oldest_message),
        turns: figures.turns,
        activities_waiting: figures.activities_waiting,
        oldest_activity_ms: older(figures.oldest_activity),
        activities_running: figures.activities_running,
    }))
}
