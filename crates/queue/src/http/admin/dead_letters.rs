//! `/dlq…`: listing, replaying and purging dead letters.
//!
//! The routes that change many dead letters take the filter of the list, so that they can be listed first. They reject
//! an empty filter without `all`.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, Query, Time, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::page;
use crate::admin::dead_letters::{DeadLetter, DeadLetterFilter};
use crate::admin::resources::Page;
use crate::http::api_error::invalid;
use crate::http::schema::Name;
use crate::queues::Queues;

/// Dead letters of a page that does not say how many.
const LETTERS: u32 = 100;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(list, purge)).routes(routes!(replay))
}

/// A message that a consumer group gave up.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeadLetter)]
pub(super) struct Letter {
    /// The message's id.
    pub(super) id: String,
    /// The dead letter's own number.
    dead_letter_id: i64,
    pub(super) transaction_id: String,
    pub(super) partition_id: String,
    pub(super) queue: String,
    pub(super) partition: String,
    pub(super) offset: i64,
    consumer_group: String,
    error_message: Option<String>,
    retry_count: u32,
    /// As it was pushed; null also if it cannot be decrypted here.
    #[schema(value_type = Value)]
    pub(super) data: Option<Box<RawValue>>,
    pub(super) trace_id: Option<String>,
    pub(super) producer_sub: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub(super) created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    failed_at: Timestamp,
}

impl From<DeadLetter> for Letter {
    fn from(letter: DeadLetter) -> Letter {
        Letter {
            id: letter.message_id.to_string(),
            dead_letter_id: letter.id,
            transaction_id: letter.transaction_id,
            partition_id: letter.partition_id.to_string(),
            queue: letter.queue,
            partition: letter.partition,
            offset: letter.offset,
            consumer_group: letter.group,
            error_message: letter.error,
            retry_count: letter.retries,
            data: letter.payload,
            trace_id: letter.trace_id,
            producer_sub: letter.producer,
            created_at: Timestamp(letter.created_at),
            failed_at: Timestamp(letter.failed_at),
        }
    }
}

/// Dead letters, newest first.
#[derive(Serialize, ToSchema)]
struct DeadLetterList {
    messages: Vec<Letter>,
    /// The total number.
    total: u64,
    pagination: Pagination,
}

/// Which part of a list it is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Pagination {
    limit: u32,
    offset: u32,
    total: u64,
    has_more: bool,
}

/// Which dead letters.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `filter`, described here")]
struct Parameters {
    /// Those of this queue.
    #[param(value_type = Option<Name>)]
    queue: Option<String>,
    /// Those of partitions of this name.
    #[param(value_type = Option<Name>)]
    partition: Option<String>,
    /// Those of this consumer group.
    #[param(rename = "consumerGroup", value_type = Option<Name>)]
    consumer_group: Option<String>,
    /// Those that failed at this time or later.
    #[param(value_type = Option<Time>)]
    from: Option<String>,
    /// Those that failed before this time.
    #[param(value_type = Option<Time>)]
    to: Option<String>,
}

/// The dead letters to replay.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReplayRequest)]
struct ReplayRequest {
    /// Those of this queue.
    #[schema(value_type = Option<Name>)]
    queue: Option<String>,
    /// Those of partitions of this name.
    #[schema(value_type = Option<Name>)]
    partition: Option<String>,
    /// Those of this consumer group.
    #[schema(value_type = Option<Name>)]
    consumer_group: Option<String>,
    /// Those that failed at this time or later.
    #[schema(value_type = Option<Time>)]
    from: Option<String>,
    /// Those that failed before this time.
    #[schema(value_type = Option<Time>)]
    to: Option<String>,
    /// Those with these numbers.
    dead_letter_ids: Option<Vec<i64>>,
    /// Required if no filter is given.
    all: Option<bool>,
    /// Only counts them.
    dry_run: Option<bool>,
}

/// The result of a replay.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReplayResult)]
struct Replayed {
    /// The number of replayed dead letters.
    replayed: usize,
    /// Why the others were not replayed: at most 100 reasons.
    kept: Vec<String>,
    kept_count: usize,
    /// The number of matching dead letters, with `dryRun`.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_replay: Option<u64>,
}

/// The result of a purge.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PurgeResult)]
struct Purged {
    /// The number of deleted dead letters.
    purged: u64,
    /// The number of matching dead letters, with `dryRun`.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_purge: Option<u64>,
}

fn filter(query: &Query) -> Result<DeadLetterFilter, ApiError> {
    Ok(DeadLetterFilter {
        queue: query.name("queue"),
        partition: query.name("partition"),
        group: query.name("consumerGroup"),
        from: query.time("from")?,
        before: query.time("to")?,
        ..DeadLetterFilter::default()
    })
}

/// Rejects an empty filter without `all`.
fn bounded(filter: DeadLetterFilter, all: bool) -> Result<DeadLetterFilter, ApiError> {
    let DeadLetterFilter { queue, partition, group, from, before, ids, .. } = &filter;
    let names = queue.is_some() || partition.is_some() || group.is_some();
    if names || from.is_some() || before.is_some() || ids.is_some() || all {
        return Ok(filter);
    }
    Err(invalid("queue", "a filter or `all=true` is required"))
}

async fn count(queues: &Queues, filter: &DeadLetterFilter) -> Result<u64, ApiError> {
    Ok(queues.dead_letters(filter, Page { limit: 0, offset: 0 }).await?.total)
}

/// Lists dead letters, newest first.
#[utoipa::path(
    get, path = "/dlq", tag = "administration",
    params(
        Parameters,
        ("limit" = Option<u32>, Query, description = "The most rows; default 100"),
        ("offset" = Option<u32>, Query, description = "The number of rows to skip")
    ),
    responses(
        (status = 200, description = "The dead letters with their payloads", body = DeadLetterList),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn list(State(queues): State<Queues>, query: Query) -> Result<Json<DeadLetterList>, ApiError> {
    let Page { limit, offset } = page(&query, LETTERS)?;
    let listed = queues.dead_letters(&filter(&query)?, Page { limit, offset }).await?;
    let total = listed.total;
    let has_more = u64::from(offset) + (listed.rows.len() as u64) < total;
    Ok(Json(DeadLetterList {
        messages: listed.rows.into_iter().map(Into::into).collect(),
        total,
        pagination: Pagination { limit, offset, total, has_more },
    }))
}

/// Pushes dead letters again, oldest first. Each is a new message at the end of its partition, for every consumer
/// group; it keeps its transaction id if that is free.
#[utoipa::path(
    post, path = "/dlq/replay", tag = "administration", request_body = ReplayRequest,
    responses(
        (status = 200, description = "The replayed dead letters, and the others", body = Replayed),
        (status = 400, description = "A parameter is invalid; nothing was replayed", body = Failure),
        (status = 409, description = "Pushes are under maintenance, or a queue was changed meanwhile", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn replay(State(queues): State<Queues>, body: Body) -> Result<Json<Replayed>, ApiError> {
    let request: ReplayRequest = body.json()?;
    let time = |name: &str, text: Option<&str>| {
        let read =
            |text: &str| reveille_web::parse_timestamp(text).ok_or_else(|| ApiError::not_a_timestamp(name, text));
        text.map(read).transpose()
    };
    let filter = DeadLetterFilter {
        from: time("from", request.from.as_deref())?,
        before: time("to", request.to.as_deref())?,
        queue: request.queue,
        partition: request.partition,
        group: request.consumer_group,
        ids: request.dead_letter_ids,
        ..DeadLetterFilter::default()
    };
    let filter = bounded(filter, request.all.unwrap_or(false))?;
    if request.dry_run.unwrap_or(false) {
        let meant = count(&queues, &filter).await?;
        return Ok(Json(Replayed { replayed: 0, kept: Vec::new(), kept_count: 0, would_replay: Some(meant) }));
    }
    let mut done = queues.replay(&filter).await?;
    let kept_count = done.skipped.len();
    done.skipped.truncate(LETTERS as usize);
    Ok(Json(Replayed { replayed: done.replayed, kept: done.skipped, kept_count, would_replay: None }))
}

/// Deletes dead letters.
#[utoipa::path(
    delete, path = "/dlq", tag = "administration",
    params(
        Parameters,
        ("all" = Option<bool>, Query, description = "Required if no filter is given"),
        ("dryRun" = Option<bool>, Query, description = "Only counts them")
    ),
    responses(
        (status = 200, description = "How many were deleted", body = Purged),
        (status = 400, description = "A parameter is invalid; nothing was deleted", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn purge(State(queues): State<Queues>, query: Query) -> Result<Json<Purged>, ApiError> {
    let filter = bounded(filter(&query)?, query.flag("all")?)?;
    if query.flag("dryRun")? {
        return Ok(Json(Purged { purged: 0, would_purge: Some(count(&queues, &filter).await?) }));
    }
    Ok(Json(Purged { purged: queues.purge(&filter).await?, would_purge: None }))
}
