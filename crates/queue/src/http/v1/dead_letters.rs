//! `GET /v1/dead_letters`, and one of them: showing, replaying, deleting.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use reveille_web::{ApiError, Body, Failure, Path, Principal, Query, Role, Time, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{NO_PAYLOADS, limit};
use crate::admin::dead_letters::{DeadLetter, DeadLetterFilter};
use crate::http::field::Raw;
use crate::http::schema::Name;
use crate::queues::Queues;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(one, delete)).routes(routes!(replay))
}

/// A message that a consumer group gave up.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueDeadLetter)]
pub(super) struct Letter {
    id: i64,
    message_id: String,
    transaction_id: String,
    queue: String,
    partition: String,
    partition_id: String,
    offset: i64,
    /// The consumer group; `__QUEUE_MODE__`: reading without a group, or an operator.
    group: String,
    error: Option<String>,
    /// How often it had been retried.
    retries: u32,
    trace_id: Option<String>,
    producer: Option<String>,
    /// As it was pushed.
    #[schema(value_type = Value)]
    payload: Option<Box<RawValue>>,
    /// Why the payload cannot be shown.
    unreadable: Option<String>,
    /// When the message was stored, and when the group gave it up.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    failed_at: Timestamp,
}

impl Letter {
    pub(super) fn of(principal: &Principal, letter: DeadLetter) -> Letter {
        let is_readable = letter.payload.is_some();
        let payload = letter.payload.filter(|_| principal.sees_payloads());
        Letter {
            id: letter.id,
            message_id: letter.message_id.to_string(),
            transaction_id: letter.transaction_id,
            queue: letter.queue,
            partition: letter.partition,
            partition_id: letter.partition_id.to_string(),
            offset: letter.offset,
            group: letter.group,
            error: letter.error,
            retries: letter.retries,
            trace_id: letter.trace_id,
            producer: letter.producer,
            unreadable: match (is_readable, payload.is_some()) {
                (false, _) => Some("this server cannot decrypt it".to_owned()),
                (true, false) => Some(NO_PAYLOADS.to_owned()),
                (true, true) => None,
            },
            payload,
            created_at: Timestamp(letter.created_at),
            failed_at: Timestamp(letter.failed_at),
        }
    }
}

/// A page of dead letters.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueDeadLetterPage)]
struct LetterPage {
    dead_letters: Vec<Letter>,
    /// The `after` of the next page, if there may be more.
    next: Option<i64>,
}

/// A filter and a page of dead letters.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct Parameters {
    /// Those of this queue.
    #[param(value_type = Option<Name>)]
    queue: Option<String>,
    /// Those of partitions of this name.
    #[param(value_type = Option<Name>)]
    partition: Option<String>,
    /// Those of this consumer group.
    #[param(value_type = Option<Name>)]
    group: Option<String>,
    /// Those whose error contains this text, in upper or lower case.
    #[param(value_type = Option<Name>)]
    error: Option<String>,
    /// Those that failed at this time or later.
    #[param(value_type = Option<Time>)]
    from: Option<String>,
    /// Those that failed before this time.
    #[param(value_type = Option<Time>)]
    to: Option<String>,
    /// The last one of the page before: `next`.
    #[param(minimum = 0)]
    after: Option<i64>,
    /// The most dead letters; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// The payload to replay a dead letter with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QueueReplayOne)]
struct Edited<'a> {
    /// Any JSON. Missing: as it was pushed.
    #[serde(borrow, default, deserialize_with = "given")]
    #[schema(required = false, value_type = Value)]
    payload: Raw<'a>,
}

/// Null is a payload, too.
fn given<'de: 'a, 'a, D: serde::Deserializer<'de>>(from: D) -> Result<Raw<'a>, D::Error> {
    <&'a RawValue>::deserialize(from).map(Some)
}

/// A dead letter that was replayed or deleted.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueDeadLetterDone)]
struct Done {
    id: i64,
    /// `replayed` or `deleted`.
    result: &'static str,
}

/// Dead letters, newest first. A page ends early if its payloads are large.
#[utoipa::path(
    get, path = "/dead_letters", tag = "queues", params(Parameters),
    responses(
        (status = 200, description = "The dead letters", body = LetterPage),
        (status = 400, description = "A parameter is invalid", body = Failure),
    )
)]
async fn list(State(queues): State<Queues>, principal: Principal, query: Query) -> Result<Json<LetterPage>, ApiError> {
    let filter = DeadLetterFilter {
        queue: query.name("queue"),
        partition: query.name("partition"),
        group: query.name("group"),
        error: query.name("error"),
        from: query.time("from")?,
        before: query.time("to")?,
        ..DeadLetterFilter::default()
    };
    let after = query.number("after", 0..=i64::MAX as u64)?.map(|after| after as i64);
    let page = queues.dead_letters_after(&filter, after, limit(&query)?).await?;
    let dead_letters = page.rows.into_iter().map(|letter| Letter::of(&principal, letter)).collect();
    Ok(Json(LetterPage { dead_letters, next: page.next }))
}

fn only(id: i64) -> DeadLetterFilter {
    DeadLetterFilter { ids: Some(vec![id]), ..DeadLetterFilter::default() }
}

/// A dead letter, if the client has the role for its queue.
async fn found(queues: &Queues, principal: &Principal, role: Role, id: i64) -> Result<DeadLetter, ApiError> {
    let letter = queues.dead_letters_after(&only(id), None, 1).await?.rows.pop().ok_or_else(|| none(id))?;
    principal.require_queue(role, &letter.queue)?;
    Ok(letter)
}

fn none(id: i64) -> ApiError {
    ApiError::not_found(format!("there is no dead letter {id}"))
}

/// A dead letter.
#[utoipa::path(
    get, path = "/dead_letters/{id}", tag = "queues", params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "The dead letter", body = Letter),
        (status = 400, description = "The id is not a number", body = Failure),
        (status = 404, description = "There is no such dead letter", body = Failure),
    )
)]
async fn one(
    State(queues): State<Queues>,
    principal: Principal,
    Path(id): Path<i64>,
) -> Result<Json<Letter>, ApiError> {
    let letter = found(&queues, &principal, Role::Viewer, id).await?;
    Ok(Json(Letter::of(&principal, letter)))
}

/// Deletes a dead letter.
#[utoipa::path(
    delete, path = "/dead_letters/{id}", tag = "queues", params(("id" = i64, Path, description = "Its number")),
    responses(
        (status = 200, description = "It is deleted", body = Done),
        (status = 400, description = "The id is not a number", body = Failure),
        (status = 404, description = "There is no such dead letter", body = Failure),
    )
)]
async fn delete(
    State(queues): State<Queues>,
    principal: Principal,
    Path(id): Path<i64>,
) -> Result<Json<Done>, ApiError> {
    found(&queues, &principal, Role::Admin, id).await?;
    match queues.purge_step(&only(id), 1).await? {
        (0, _) => Err(none(id)),
        _ => Ok(Json(Done { id, result: "deleted" })),
    }
}

/// Pushes a dead letter to its queue and partition again, as it was or with another payload. It is a new message at the
/// end, for every consumer group.
#[utoipa::path(
    post, path = "/dead_letters/{id}/replay", tag = "queues", params(("id" = i64, Path, description = "Its number")),
    request_body = Edited<'_>,
    responses(
        (status = 200, description = "It is a message again", body = Done),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
        (status = 404, description = "There is no such dead letter", body = Failure),
        (status = 409, description = "Its queue does not take it now; it stays", body = Failure),
    )
)]
async fn replay(
    State(queues): State<Queues>,
    principal: Principal,
    Path(id): Path<i64>,
    body: Body,
) -> Result<Json<Done>, ApiError> {
    found(&queues, &principal, Role::Operator, id).await?;
    if let Some(payload) = body.json::<Edited<'_>>()?.payload {
        let done = queues.replay_edited(id, payload).await?;
        return done.map(|()| Json(Done { id, result: "replayed" })).ok_or_else(|| none(id));
    }
    let step = queues.replay_step(&only(id), 0, 1).await?;
    match (step.kept.into_iter().next(), step.replayed) {
        (Some((_, why)), _) => Err(ApiError::new(StatusCode::CONFLICT, format!("dead letter {id}: {why}"))),
        (None, 0) => Err(none(id)),
        (None, _) => Ok(Json(Done { id, result: "replayed" })),
    }
}
