//! `POST /v1/queues/{queue}/…/pause` and `…/resume`.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Failure, Path};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::no_queue;
use crate::http::schema::Name;
use crate::queues::Queues;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new()
        .routes(routes!(pause_queue))
        .routes(routes!(resume_queue))
        .routes(routes!(pause_group))
        .routes(routes!(resume_group))
}

/// Whether a queue or consumer group is paused.
#[derive(Serialize, ToSchema)]
#[schema(as = QueuePause)]
struct Paused {
    queue: String,
    /// The consumer group; null: all of them.
    group: Option<String>,
    paused: bool,
}

/// Pauses a queue: pops find nothing, and wait, until it is resumed. Leased messages may still be acked. Repeating it
/// changes nothing.
#[utoipa::path(
    post, path = "/queues/{queue}/pause", tag = "queues",
    params(("queue" = Name, Path, description = "The queue")),
    responses(
        (status = 200, description = "It is paused", body = Paused),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such queue", body = Failure),
    )
)]
async fn pause_queue(State(queues): State<Queues>, Path(queue): Path<String>) -> Result<Json<Paused>, ApiError> {
    of_queue(&queues, queue, true).await
}

/// Resumes a queue. Groups that are paused themselves stay paused.
#[utoipa::path(
    post, path = "/queues/{queue}/resume", tag = "queues",
    params(("queue" = Name, Path, description = "The queue")),
    responses(
        (status = 200, description = "It is not paused", body = Paused),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such queue", body = Failure),
    )
)]
async fn resume_queue(State(queues): State<Queues>, Path(queue): Path<String>) -> Result<Json<Paused>, ApiError> {
    of_queue(&queues, queue, false).await
}

async fn of_queue(queues: &Queues, queue: String, paused: bool) -> Result<Json<Paused>, ApiError> {
    if queues.pause_queue(&queue, paused).await? {
        return Ok(Json(Paused { queue, group: None, paused }));
    }
    Err(no_queue(&queue))
}

/// Pauses a consumer group of a queue: its pops find nothing, and wait, until it is resumed. Other groups go on.
#[utoipa::path(
    post, path = "/queues/{queue}/groups/{group}/pause", tag = "queues",
    params(
        ("queue" = Name, Path, description = "The queue"),
        ("group" = Name, Path, description = "The consumer group")
    ),
    responses(
        (status = 200, description = "It is paused", body = Paused),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "The queue has no such group", body = Failure),
    )
)]
async fn pause_group(
    State(queues): State<Queues>,
    Path(names): Path<(String, String)>,
) -> Result<Json<Paused>, ApiError> {
    of_group(&queues, names, true).await
}

/// Resumes a consumer group of a queue.
#[utoipa::path(
    post, path = "/queues/{queue}/groups/{group}/resume", tag = "queues",
    params(
        ("queue" = Name, Path, description = "The queue"),
        ("group" = Name, Path, description = "The consumer group")
    ),
    responses(
        (status = 200, description = "It is not paused", body = Paused),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "The queue has no such group", body = Failure),
    )
)]
async fn resume_group(
    State(queues): State<Queues>,
    Path(names): Path<(String, String)>,
) -> Result<Json<Paused>, ApiError> {
    of_group(&queues, names, false).await
}

async fn of_group(queues: &Queues, (queue, group): (String, String), paused: bool) -> Result<Json<Paused>, ApiError> {
    if queues.pause_group(&queue, &group, paused).await? {
        return Ok(Json(Paused { queue, group: Some(group), paused }));
    }
    Err(ApiError::not_found(format!("queue {queue:?} has no consumer group {group:?}")))
}
