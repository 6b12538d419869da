//! `POST /v1/dead_letters/replay` and `/purge`: all dead letters of a filter, in steps.
//!
//! A dry run answers how many there are, some of them, and `up_to`. A client passes `up_to` and `next` on to each step,
//! so that it touches what it has shown and nothing that failed since. It shows progress, and stops between two steps.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, Principal, Role, Time, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::admin::dead_letters::{DeadLetter, DeadLetterFilter};
use crate::admin::replay::STEP_MAX;
use crate::http::api_error::invalid;
use crate::http::schema::Name;
use crate::queues::Queues;

/// Dead letters that a dry run shows.
const SAMPLE: u32 = 10;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(replay)).routes(routes!(purge))
}

/// Which dead letters, and how many of them in this step.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QueueDeadLetterStep)]
struct Request {
    /// Those of this queue.
    #[schema(value_type = Option<Name>)]
    queue: Option<String>,
    /// Those of partitions of this name.
    #[schema(value_type = Option<Name>)]
    partition: Option<String>,
    /// Those of this consumer group.
    #[schema(value_type = Option<Name>)]
    group: Option<String>,
    /// Those whose error contains this text, in upper or lower case.
    #[schema(value_type = Option<Name>)]
    error: Option<String>,
    /// Those that failed at this time or later.
    #[schema(value_type = Option<Time>)]
    from: Option<String>,
    /// Those that failed before this time.
    #[schema(value_type = Option<Time>)]
    to: Option<String>,
    /// Those up to this number: `up_to` of the dry run.
    #[schema(minimum = 0)]
    up_to: Option<i64>,
    /// Required if no filter is given.
    all: Option<bool>,
    /// Only counts them, and shows some.
    dry_run: Option<bool>,
    /// Continues after this number: `next` of the step before.
    #[schema(minimum = 0)]
    after: Option<i64>,
    /// The most of this step; default and maximum 200.
    #[schema(minimum = 1, maximum = 200)]
    limit: Option<u32>,
}

impl Request {
    fn filter(self) -> Result<(DeadLetterFilter, Step), ApiError> {
        let time = |name: &str, text: Option<&str>| {
            let read =
                |text: &str| reveille_web::parse_timestamp(text).ok_or_else(|| ApiError::not_a_timestamp(name, text));
            text.map(read).transpose()
        };
        let limit = self.limit.unwrap_or(STEP_MAX);
        if !(1..=STEP_MAX).contains(&limit) {
            return Err(invalid("limit", format_args!("must be between 1 and {STEP_MAX}, got {limit}")));
        }
        let after = self.after.unwrap_or_default();
        let step = Step { limit, after, dry_run: self.dry_run.unwrap_or_default() };
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let filter = DeadLetterFilter {
            from: time("from", self.from.as_deref())?,
            before: time("to", self.to.as_deref())?,
            queue: given(self.queue),
            partition: given(self.partition),
            group: given(self.group),
            error: given(self.error),
            up_to: self.up_to,
            ..DeadLetterFilter::default()
        };
        let DeadLetterFilter { queue, partition, group, error, from, before, .. } = &filter;
        let texts = [queue, partition, group, error].into_iter().any(Option::is_some);
        if texts || from.is_some() || before.is_some() || self.all.unwrap_or_default() {
            return Ok((filter, step));
        }
        Err(invalid("queue", "a filter or `all` is required"))
    }
}

struct Step {
    limit: u32,
    after: i64,
    dry_run: bool,
}

/// What a step did, or a dry run found.
#[derive(Serialize, ToSchema, Default)]
#[schema(as = QueueDeadLetterStepResult)]
struct Done {
    /// How many were replayed or deleted.
    done: u64,
    /// Those that could not be replayed, and stay.
    kept: Vec<Kept>,
    /// If there may be more, the `after` of the next step.
    next: Option<i64>,
    /// Of a dry run: how many match, up to 100 000.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// Of a dry run: the newest of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    up_to: Option<i64>,
    /// Of a dry run: some of them, newest first, without payloads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sample: Vec<Sample>,
}

/// A dead letter that was not replayed.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueDeadLetterKept)]
struct Kept {
    id: i64,
    reason: String,
}

/// A dead letter without its payload.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueDeadLetterSample)]
struct Sample {
    id: i64,
    transaction_id: String,
    queue: String,
    partition: String,
    group: String,
    error: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    failed_at: Timestamp,
}

impl From<DeadLetter> for Sample {
    fn from(letter: DeadLetter) -> Sample {
        Sample {
            id: letter.id,
            transaction_id: letter.transaction_id,
            queue: letter.queue,
            partition: letter.partition,
            group: letter.group,
            error: letter.error,
            failed_at: Timestamp(letter.failed_at),
        }
    }
}

/// Requires the role for what the filter may match.
fn require(principal: &Principal, role: Role, filter: &DeadLetterFilter) -> Result<(), ApiError> {
    match &filter.queue {
        Some(queue) => principal.require_queue(role, queue),
        None => principal.require(role),
    }
}

async fn preview(queues: &Queues, filter: &DeadLetterFilter) -> Result<Json<Done>, ApiError> {
    let matching = queues.matching(filter).await?;
    let sample = queues.dead_letters_after(filter, None, SAMPLE).await?.rows;
    Ok(Json(Done {
        count: Some(matching.count),
        up_to: matching.up_to,
        sample: sample.into_iter().map(Into::into).collect(),
        ..Done::default()
    }))
}

/// Replays some of the dead letters of a filter, oldest first, or shows what a replay would touch. Each is a new message
/// at the end of its partition, for every consumer group; it keeps its transaction id if that is free.
#[utoipa::path(
    post, path = "/dead_letters/replay", tag = "queues", request_body = Request,
    responses(
        (status = 200, description = "What was replayed, and where to continue", body = Done),
        (status = 400, description = "A parameter is invalid; nothing was replayed", body = Failure),
        (status = 409, description = "Pushes are under maintenance, or a queue was changed meanwhile", body = Failure),
    )
)]
async fn replay(State(queues): State<Queues>, principal: Principal, body: Body) -> Result<Json<Done>, ApiError> {
    let (filter, Step { limit, after, dry_run }) = body.json::<Request>()?.filter()?;
    require(&principal, Role::Operator, &filter)?;
    if dry_run {
        return preview(&queues, &filter).await;
    }
    let step = queues.replay_step(&filter, after, limit).await?;
    Ok(Json(Done {
        done: step.replayed as u64,
        kept: step.kept.into_iter().map(|(id, reason)| Kept { id, reason }).collect(),
        next: step.next,
        ..Done::default()
    }))
}

/// Deletes some of the dead letters of a filter, oldest first, or shows what a purge would touch.
#[utoipa::path(
    post, path = "/dead_letters/purge", tag = "queues", request_body = Request,
    responses(
        (status = 200, description = "How many were deleted, and where to continue", body = Done),
        (status = 400, description = "A parameter is invalid; nothing was deleted", body = Failure),
    )
)]
async fn purge(State(queues): State<Queues>, principal: Principal, body: Body) -> Result<Json<Done>, ApiError> {
    let (filter, Step { limit, dry_run, .. }) = body.json::<Request>()?.filter()?;
    require(&principal, Role::Admin, &filter)?;
    if dry_run {
        return preview(&queues, &filter).await;
    }
    let (done, next) = queues.purge_step(&filter, limit).await?;
    Ok(Json(Done { done, next, ..Done::default() }))
}
