//! `/resources/partitions`, and how much waits in those of a queue.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Failure, Path, Query, Timestamp};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::page;
use super::resources::{PARTITIONS, none};
use crate::admin::resources as engine;
use crate::http::schema::Name;
use crate::queues::Queues;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(partitions)).routes(routes!(depth))
}

/// A partition with the positions of its consumer groups.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartitionState {
    id: String,
    name: String,
    queue: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The time of the last push.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_push_at: Option<Timestamp>,
    /// The offset of its first message,
    first_offset: i64,
    /// and of the next.
    next_offset: i64,
    messages: u64,
    cursors: Vec<CursorState>,
}

impl From<engine::PartitionState> for PartitionState {
    fn from(partition: engine::PartitionState) -> PartitionState {
        PartitionState {
            id: partition.id.to_string(),
            name: partition.name,
            queue: partition.queue,
            created_at: Timestamp(partition.created_at),
            last_push_at: partition.pushed_at.map(Timestamp),
            first_offset: partition.first_offset,
            next_offset: partition.head,
            messages: (partition.head - partition.first_offset) as u64,
            cursors: partition.cursors.into_iter().map(Into::into).collect(),
        }
    }
}

/// The position of a consumer group in a partition.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct CursorState {
    consumer_group: String,
    /// The offset of the first message that it has not consumed.
    position: i64,
    /// The number of messages that it has not consumed, and the age of the first.
    lag: u64,
    lag_seconds: f64,
    /// The lease, the number of leased messages, and its end.
    lease_id: Option<String>,
    leased_messages: u64,
    #[schema(value_type = Option<String>, format = DateTime)]
    lease_expires_at: Option<Timestamp>,
    /// When it can be claimed next: at the end of the lease, or when a delayed or failed message is due. Null: after
    /// the next push.
    #[schema(value_type = Option<String>, format = DateTime)]
    due_at: Option<Timestamp>,
    /// How often the first message has been retried.
    retry_count: u32,
    #[schema(value_type = Option<String>, format = DateTime)]
    last_read_at: Option<Timestamp>,
}

impl From<engine::CursorState> for CursorState {
    fn from(cursor: engine::CursorState) -> CursorState {
        let due_at = cursor.due_at.map(Timestamp);
        CursorState {
            consumer_group: cursor.group,
            position: cursor.position,
            lag: cursor.lag,
            lag_seconds: cursor.lag_seconds,
            lease_expires_at: cursor.lease_id.and(due_at),
            lease_id: cursor.lease_id.map(|lease| lease.to_string()),
            leased_messages: cursor.leased,
            due_at,
            retry_count: cursor.retries,
            last_read_at: cursor.read_at.map(Timestamp),
        }
    }
}

/// Partitions, by number.
#[derive(Serialize, ToSchema)]
struct PartitionList {
    partitions: Vec<PartitionState>,
    /// The total number.
    total: u64,
}

/// The lag of a consumer group in a queue.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QueueDepth)]
pub(super) struct Depth {
    queue: String,
    group: String,
    pending: u64,
    /// The number of partitions with messages to read.
    partitions_pending: usize,
    /// Always false: messages are not conflated.
    conflation: bool,
    effective_pending: u64,
    /// Those partitions.
    partitions: Vec<PartitionDepth>,
}

/// The lag in a partition.
#[derive(Serialize, ToSchema)]
struct PartitionDepth {
    partition: String,
    pending: u64,
}

/// A page of partitions.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `queue` and `partitions`, described here")]
pub(super) struct Part {
    /// The partition with this name.
    #[param(value_type = Option<Name>)]
    partition: Option<String>,
    /// The most partitions.
    limit: Option<u32>,
    /// The number of rows to skip.
    offset: Option<u32>,
}

/// Lists partitions with the positions of their consumer groups.
#[utoipa::path(
    get, path = "/resources/partitions", tag = "administration",
    params(("queue" = Option<Name>, Query, description = "Those of this queue"), Part),
    responses(
        (status = 200, description = "The partitions", body = PartitionList),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn partitions(State(queues): State<Queues>, query: Query) -> Result<Json<PartitionList>, ApiError> {
    let listed = queues.partitions(query.text("queue"), query.text("partition"), page(&query, PARTITIONS)?).await?;
    Ok(Json(PartitionList { partitions: listed.rows.into_iter().map(Into::into).collect(), total: listed.total }))
}

/// The lag of a consumer group in a queue.
#[utoipa::path(
    get, path = "/resources/queues/{queue}/depth", tag = "administration",
    params(
        ("queue" = Name, Path, description = "The queue"),
        ("group" = Option<Name>, Query, description = "The consumer group; default: reading without a group")
    ),
    responses(
        (status = 200, description = "The lag by partition", body = Depth),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such queue", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
pub(super) async fn depth(
    State(queues): State<Queues>,
    Path(queue): Path<String>,
    query: Query,
) -> Result<Json<Depth>, ApiError> {
    let depth = queues.depth(&queue, query.text("group")).await?.ok_or_else(|| none(&queue))?;
    let part = |(partition, pending)| PartitionDepth { partition, pending };
    Ok(Json(Depth {
        queue,
        group: depth.group,
        pending: depth.pending,
        partitions_pending: depth.partitions.len(),
        conflation: false,
        effective_pending: depth.pending,
        partitions: depth.partitions.into_iter().map(part).collect(),
    }))
}
