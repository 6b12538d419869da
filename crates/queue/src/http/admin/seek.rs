//! `POST /consumer-groups/…/seek`: moving consumer groups.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, Path, Time, True};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::groups::group::Seek;
use crate::http::api_error::invalid;
use crate::http::field::{self, Raw};
use crate::http::schema::Name;
use crate::queues::Queues;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(seek)).routes(routes!(seek_partition))
}

/// The position to move a consumer group to.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = SeekRequest)]
#[expect(dead_code, reason = "read as `SeekFields`, described here")]
enum SeekRequest {
    /// To the first message that was stored at this time or later.
    Time { timestamp: Time },
    /// To the next message that is pushed.
    #[schema(rename_all = "camelCase")]
    End { to_end: True },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeekFields<'a> {
    #[serde(borrow, default)]
    timestamp: Raw<'a>,
    #[serde(default)]
    to_end: Option<bool>,
}

impl SeekFields<'_> {
    fn seek(&self) -> Result<Seek, ApiError> {
        match (field::name(self.timestamp, "timestamp")?, self.to_end.unwrap_or(false)) {
            (None, true) => Ok(Seek::End),
            (Some(time), false) => reveille_web::parse_timestamp(&time)
                .map(Seek::Time)
                .ok_or_else(|| ApiError::not_a_timestamp("timestamp", &time)),
            (Some(_), true) => Err(invalid("toEnd", "must not be combined with `timestamp`")),
            (None, false) => Err(invalid("timestamp", "either `timestamp` or `toEnd: true` is required")),
        }
    }
}

/// The result of a seek.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SeekResult)]
pub(super) struct Moved {
    success: bool,
    consumer_group: String,
    queue: String,
    partition: Option<String>,
    /// The number of partitions.
    partitions_updated: usize,
}

/// Moves a consumer group in a queue, forwards or backwards. Current leases of the group are lost.
#[utoipa::path(
    post, path = "/consumer-groups/{group}/queues/{queue}/seek", tag = "administration", request_body = SeekRequest,
    params(
        ("group" = Name, Path, description = "The consumer group"),
        ("queue" = Name, Path, description = "The queue")
    ),
    responses(
        (status = 200, description = "It is moved", body = Moved),
        (status = 400, description = "A parameter is invalid; nothing was moved", body = Failure),
        (status = 404, description = "The queue has no such group", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn seek(
    state: State<Queues>,
    Path((group, queue)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Moved>, ApiError> {
    moved(&state, group, queue, None, &body).await
}

/// Moves a consumer group in one partition of a queue.
#[utoipa::path(
    post, path = "/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek", tag = "administration",
    request_body = SeekRequest,
    params(
        ("group" = Name, Path, description = "The consumer group"),
        ("queue" = Name, Path, description = "The queue"),
        ("partition" = Name, Path, description = "The partition")
    ),
    responses(
        (status = 200, description = "It is moved", body = Moved),
        (status = 400, description = "A parameter is invalid; nothing was moved", body = Failure),
        (status = 404, description = "The queue has no such group, or no such partition", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn seek_partition(
    state: State<Queues>,
    Path((group, queue, partition)): Path<(String, String, String)>,
    body: Body,
) -> Result<Json<Moved>, ApiError> {
    moved(&state, group, queue, Some(partition), &body).await
}

pub(super) async fn moved(
    queues: &Queues,
    group: String,
    queue: String,
    partition: Option<String>,
    body: &Body,
) -> Result<Json<Moved>, ApiError> {
    let to = body.json::<SeekFields<'_>>()?.seek()?;
    match (queues.seek(&group, &queue, partition.as_deref(), to).await?, &partition) {
        (None, _) => Err(ApiError::not_found(format!("queue {queue:?} has no consumer group {group:?}"))),
        (Some(0), Some(partition)) => {
            Err(ApiError::not_found(format!("queue {queue:?} has no partition {partition:?}")))
        }
        (Some(moved), _) => {
            Ok(Json(Moved { success: true, consumer_group: group, queue, partition, partitions_updated: moved }))
        }
    }
}
