//! `/dlq…`: dead letters, and what is done with many of them.
//!
//! Whatever acts on many takes the same filter that the list takes, so that one can look first; and it refuses to act without any, unless it is told that all are meant.

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
    /// How many there are in all.
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
    /// Those that this consumer group gave up.
    #[param(rename = "consumerGroup", value_type = Option<Name>)]
    consumer_group: Option<String>,
    /// Those that failed at this time or later.
    #[param(value_type = Option<Time>)]
    from: Option<String>,
    /// Those that failed before this time.
    #[param(value_type = Option<Time>)]
    to: Option<String>,
}

/// Which dead letters to replay.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReplayRequest)]
struct Wish {
    /// Those of this queue.
    #[schema(value_type = Option<Name>)]
    queue: Option<String>,
    /// Those of partitions of this name.
    #[schema(value_type = Option<Name>)]
    partition: Option<String>,
    /// Those that this consumer group gave up.
    #[schema(value_type = Option<Name>)]
    consumer_group: Option<String>,
    /// Those that failed at this time or later.
    #[schema(value_type = Option<Time>)]
    from: Option<String>,
    /// Those that failed before this time.
    #[schema(value_type = Option<Time>)]
    to: Option<String>,
    /// Those of these numbers.
    dead_letter_ids: Option<Vec<i64>>,
    /// All of them, if nothing else is given.
    all: Option<bool>,
    /// Only count them.
    dry_run: Option<bool>,
}

/// What a replay has brought.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReplayResult)]
struct Replayed {
    /// How many are messages again.
    replayed: usize,
    /// Why others are not: at most 100 of the reasons.
    kept: Vec<String>,
    kept_count: usize,
    /// How many were meant, if they were only counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_replay: Option<u64>,
}

/// What a purge has brought.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PurgeResult)]
struct Purged {
    /// How many were deleted.
    purged: u64,
    /// How many were meant, if they were only counted.
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

/// Refuses a filter that means everything, unless that is said.
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
        ("limit" = Option<u32>, Query, description = "How many at most; 100 if it is not given"),
        ("offset" = Option<u32>, Query, description = "How many to pass over")
    ),
    responses(
        (status = 200, description = "The dead letters, with their payloads", body = DeadLetterList),
        (status = 400, description = "Something cannot be meant", body = Failure),
        (status = 503, description = "The database is away; try again", body = Failure),
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

/// Pushes dead letters again, oldest first. Each is a new message, behind what its partition has, for every consumer group; it keeps its transaction id if that is free.
#[utoipa::path(
    post, path = "/dlq/replay", tag = "administration", request_body = Wish,
    responses(
        (status = 200, description = "What was replayed, and what was not", body = Replayed),
        (status = 400, description = "Something cannot be meant; nothing was replayed", body = Failure),
        (status = 409, description = "Pushes are under maintenance, or a queue was changed meanwhile", body = Failure),
        (status = 503, description = "The database is away; try again", body = Failure),
    )
)]
async fn replay(State(queues): State<Queues>, body: Body) -> Result<Json<Replayed>, ApiError> {
    let wish: Wish = body.json()?;
    let time = |name: &str, text: Option<&str>| {
        let read =
            |text: &str| reveille_web::parse_timestamp(text).ok_or_else(|| ApiError::not_a_timestamp(name, text));
        text.map(read).transpose()
    };
    let filter = DeadLetterFilter {
        from: time("from", wish.from.as_deref())?,
        before: time("to", wish.to.as_deref())?,
        queue: wish.queue,
        partition: wish.partition,
        group: wish.consumer_group,
        ids: wish.dead_letter_ids,
        ..DeadLetterFilter::default()
    };
    let filter = bounded(filter, wish.all.unwrap_or(false))?;
    if wish.dry_run.unwrap_or(false) {
        let meant = count(&queues, &filter).await?;
        return Ok(Json(Replayed { replayed: 0, kept: Vec::new(), kept_count: 0, would_replay: Some(meant) }));
    }
    let mut done = queues.replay(&filter).await?;
    let kept_count = done.kept.len();
    done.kept.truncate(LETTERS as usize);
    Ok(Json(Replayed { replayed: done.replayed, kept: done.kept, kept_count, would_replay: None }))
}

/// Deletes dead letters for good.
#[utoipa::path(
    delete, path = "/dlq", tag = "administration",
    params(
        Parameters,
        ("all" = Option<bool>, Query, description = "All of them, if nothing else is given"),
        ("dryRun" = Option<bool>, Query, description = "Only count them")
    ),
    responses(
        (status = 200, description = "How many were deleted", body = Purged),
        (status = 400, description = "Something cannot be meant; nothing was deleted", body = Failure),
        (status = 503, description = "The database is away; try again", body = Failure),
    )
)]
async fn purge(State(queues): State<Queues>, query: Query) -> Result<Json<Purged>, ApiError> {
    let filter = bounded(filter(&query)?, query.flag("all")?)?;
    if query.flag("dryRun")? {
        return Ok(Json(Purged { purged: 0, would_purge: Some(count(&queues, &filter).await?) }));
    }
    Ok(Json(Purged { purged: queues.purge(&filter).await?, would_purge: None }))
}
