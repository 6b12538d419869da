//! `/consumer-groups/…`: positions of consumer groups, seeking, deleting.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use reveille_web::{ApiError, Body, Failure, Path, Query, Time, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::seek::moved;
use crate::consume::pop::Subscription;
use crate::groups::group as engine;
use crate::http::api_error::missing;
use crate::http::field::{self, Raw};
use crate::http::schema::Name;
use crate::queues::Queues;

/// The most partitions of a response.
const PARTITIONS: u32 = 1_000;
/// The default of `minLagSeconds`.
const LAGGING_SECONDS: u64 = 60;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(lagging))
        .routes(routes!(one, delete))
        .routes(routes!(subscribe))
        .routes(routes!(delete_of_queue))
        .route("/consumer-groups/{group}/{*rest}", get(one_slashed).delete(delete_slashed).post(post_slashed))
}

/// A consumer group of a queue.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct GroupState {
    name: String,
    queue_name: String,
    /// Where it began: `all`, `new` or `timestamp`.
    subscription_mode: &'static str,
    #[schema(value_type = Option<String>, format = DateTime)]
    subscription_timestamp: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    partitions: u64,
    /// Partitions with messages that it has not consumed.
    lagging_partitions: u64,
    /// Messages that it has not consumed, including leased ones.
    total_lag: u64,
    /// The age of the oldest of them in seconds.
    max_time_lag: f64,
    /// Its leased partitions.
    active_leases: u64,
    #[schema(value_type = Option<String>, format = DateTime)]
    last_read_at: Option<Timestamp>,
    /// `Stable`: all messages are consumed. `Active`: there are messages, and a partition is leased. `Lagging`: there
    /// are messages, and no partition is leased.
    state: &'static str,
}

impl From<engine::Group> for GroupState {
    fn from(group: engine::Group) -> GroupState {
        let (subscription_mode, since) = match group.subscription {
            Subscription::All => ("all", None),
            Subscription::New => ("new", None),
            Subscription::Since(since) => ("timestamp", Some(since)),
        };
        GroupState {
            state: match (group.lag, group.leases) {
                (0, _) => "Stable",
                (_, 0) => "Lagging",
                _ => "Active",
            },
            name: group.name,
            queue_name: group.queue,
            subscription_mode,
            subscription_timestamp: since.map(Timestamp),
            created_at: Timestamp(group.created_at),
            partitions: group.partitions,
            lagging_partitions: group.lagging_partitions,
            total_lag: group.lag,
            max_time_lag: group.lag_seconds,
            active_leases: group.leases,
            last_read_at: group.read_at.map(Timestamp),
        }
    }
}

/// A partition with messages that a consumer group has not consumed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct LaggingPartition {
    consumer_group: String,
    queue_name: String,
    partition_name: String,
    partition_id: String,
    /// Messages that are not consumed, and the age of the first in seconds.
    offset_lag: u64,
    time_lag_seconds: f64,
    /// The offset of the first of them, and of the next message to be pushed.
    position: i64,
    next_offset: i64,
    /// The end of the lease, if the partition is leased.
    #[schema(value_type = Option<String>, format = DateTime)]
    lease_expires_at: Option<Timestamp>,
    /// How often the first has been retried.
    retry_count: u32,
    #[schema(value_type = Option<String>, format = DateTime)]
    last_read_at: Option<Timestamp>,
}

impl From<engine::Lagging> for LaggingPartition {
    fn from(part: engine::Lagging) -> LaggingPartition {
        LaggingPartition {
            consumer_group: part.group,
            queue_name: part.queue,
            partition_name: part.partition,
            partition_id: part.partition_id.to_string(),
            offset_lag: part.lag,
            time_lag_seconds: part.lag_seconds,
            position: part.position,
            next_offset: part.head,
            lease_expires_at: part.leased_until.map(Timestamp),
            retry_count: part.retries,
            last_read_at: part.read_at.map(Timestamp),
        }
    }
}

/// A consumer group in all its queues.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct GroupDetail {
    name: String,
    queues: Vec<GroupState>,
    /// The partitions with messages that it has not consumed, oldest first; at most 1 000.
    lagging: Vec<LaggingPartition>,
}

/// The result of deleting a consumer group.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeleteGroupResult)]
struct Deleted {
    success: bool,
    consumer_group: String,
    /// The number of queues that it read.
    queues: usize,
    /// Whether its subscription was deleted; if not, it begins again where it once began.
    metadata_deleted: bool,
}

/// Where a consumer group began.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SubscriptionRequest)]
struct Since<'a> {
    #[serde(borrow, default)]
    #[schema(required, value_type = Time)]
    subscription_timestamp: Raw<'a>,
}

/// Where a consumer group began.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SubscriptionResult)]
struct Subscribed {
    success: bool,
    consumer_group: String,
    #[schema(value_type = String, format = DateTime)]
    subscription_timestamp: Timestamp,
    queues: usize,
}

/// Lists consumer groups, one entry per queue.
#[utoipa::path(
    get, path = "/consumer-groups", tag = "administration",
    responses(
        (status = 200, description = "The groups and their positions", body = Vec<GroupState>),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn list(State(queues): State<Queues>) -> Result<Json<Vec<GroupState>>, ApiError> {
    Ok(Json(queues.groups(None, None).await?.into_iter().map(Into::into).collect()))
}

/// Lists partitions with messages that a consumer group has not consumed for long.
#[utoipa::path(
    get, path = "/consumer-groups/lagging", tag = "administration",
    params(("minLagSeconds" = Option<u64>, Query, description = "The least age; default 60")),
    responses(
        (status = 200, description = "At most 1 000 partitions, oldest messages first", body = Vec<LaggingPartition>),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn lagging(State(queues): State<Queues>, query: Query) -> Result<Json<Vec<LaggingPartition>>, ApiError> {
    let least = query.number("minLagSeconds", 0..=u64::from(u32::MAX))?.unwrap_or(LAGGING_SECONDS);
    let lagging = queues.lagging(None, Duration::from_secs(least), PARTITIONS).await?;
    Ok(Json(lagging.into_iter().map(Into::into).collect()))
}

/// A consumer group in all its queues.
#[utoipa::path(
    get, path = "/consumer-groups/{group}", tag = "administration",
    params(("group" = Name, Path, description = "The consumer group")),
    responses(
        (status = 200, description = "Its positions", body = GroupDetail),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such group", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn one(State(queues): State<Queues>, Path(group): Path<String>) -> Result<Json<GroupDetail>, ApiError> {
    let groups = queues.groups(Some(&group), None).await?;
    if groups.is_empty() {
        return Err(none(&group));
    }
    let lagging = queues.lagging(Some(&group), Duration::ZERO, PARTITIONS).await?;
    Ok(Json(GroupDetail {
        name: group,
        queues: groups.into_iter().map(Into::into).collect(),
        lagging: lagging.into_iter().map(Into::into).collect(),
    }))
}

fn none(group: &str) -> ApiError {
    ApiError::not_found(format!("there is no consumer group {group:?}"))
}

/// Deletes a consumer group from all queues. Succeeds if there is none. A later pop creates it at the beginning.
#[utoipa::path(
    delete, path = "/consumer-groups/{group}", tag = "administration",
    params(
        ("group" = Name, Path, description = "The consumer group"),
        ("deleteMetadata" = Option<bool>, Query, description = "Whether to delete its subscription; default true")
    ),
    responses(
        (status = 200, description = "It is gone", body = Deleted),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn delete(state: State<Queues>, Path(group): Path<String>, query: Query) -> Result<Json<Deleted>, ApiError> {
    deleted(&state, group, None, &query).await
}

/// Deletes a consumer group from one queue.
#[utoipa::path(
    delete, path = "/consumer-groups/{group}/queues/{queue}", tag = "administration",
    params(
        ("group" = Name, Path, description = "The consumer group"),
        ("queue" = Name, Path, description = "The queue"),
        ("deleteMetadata" = Option<bool>, Query, description = "Whether to delete its subscription; default true")
    ),
    responses(
        (status = 200, description = "It is gone", body = Deleted),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn delete_of_queue(
    state: State<Queues>,
    Path((group, queue)): Path<(String, String)>,
    query: Query,
) -> Result<Json<Deleted>, ApiError> {
    deleted(&state, group, Some(&queue), &query).await
}

async fn deleted(
    queues: &Queues,
    group: String,
    queue: Option<&str>,
    query: &Query,
) -> Result<Json<Deleted>, ApiError> {
    let metadata_deleted = query.text("deleteMetadata").is_none() || query.flag("deleteMetadata")?;
    let queues = queues.delete_group(&group, queue, !metadata_deleted).await?;
    Ok(Json(Deleted { success: true, consumer_group: group, queues, metadata_deleted }))
}

/// Changes where a consumer group began. Its cursors stay until it is deleted with `deleteMetadata=false`.
#[utoipa::path(
    post, path = "/consumer-groups/{group}/subscription", tag = "administration", request_body = Since<'_>,
    params(("group" = Name, Path, description = "The consumer group")),
    responses(
        (status = 200, description = "It is changed", body = Subscribed),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such group", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn subscribe(
    State(queues): State<Queues>,
    Path(group): Path<String>,
    body: Body,
) -> Result<Json<Subscribed>, ApiError> {
    let time = field::name(body.json::<Since<'_>>()?.subscription_timestamp, "subscriptionTimestamp")?;
    let time = time.ok_or_else(|| missing("subscriptionTimestamp"))?;
    let since = reveille_web::parse_timestamp(&time)
        .ok_or_else(|| ApiError::not_a_timestamp("subscriptionTimestamp", &time))?;
    match queues.resubscribe(&group, since).await? {
        0 => Err(none(&group)),
        queues => Ok(Json(Subscribed {
            success: true,
            consumer_group: group,
            subscription_timestamp: Timestamp(since),
            queues,
        })),
    }
}

async fn one_slashed(state: State<Queues>, Path((group, rest)): Path<(String, String)>) -> Result<Response, ApiError> {
    Ok(one(state, Path(format!("{group}/{rest}"))).await?.into_response())
}

async fn delete_slashed(
    state: State<Queues>,
    Path((group, rest)): Path<(String, String)>,
    query: Query,
) -> Result<Json<Deleted>, ApiError> {
    let (group, queue, _) = slashed(&format!("{group}/{rest}"));
    deleted(&state, group, queue.as_deref(), &query).await
}

async fn post_slashed(
    state: State<Queues>,
    Path((group, rest)): Path<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    let path = format!("{group}/{rest}");
    if let Some(group) = path.strip_suffix("/subscription") {
        return Ok(subscribe(state, Path(group.to_owned()), body).await?.into_response());
    }
    match path.strip_suffix("/seek").map(slashed) {
        Some((group, Some(queue), partition)) => {
            Ok(moved(&state, group, queue, partition, &body).await?.into_response())
        }
        _ => Err(ApiError::not_found("there is nothing of that name to do with a consumer group")),
    }
}

/// The group, the queue and the partition of a path in which their slashes were not escaped.
fn slashed(path: &str) -> (String, Option<String>, Option<String>) {
    let Some((group, queue)) = path.split_once("/queues/") else { return (path.to_owned(), None, None) };
    match queue.rsplit_once("/partitions/") {
        Some((queue, partition)) => (group.to_owned(), Some(queue.to_owned()), Some(partition.to_owned())),
        None => (group.to_owned(), Some(queue.to_owned()), None),
    }
}
