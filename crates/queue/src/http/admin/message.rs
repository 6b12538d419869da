//! `/messages/{partitionId}/{transactionId}`: showing, retrying and deleting one message.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use reveille_web::{ApiError, Failure, Id, Path, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::dead_letters::Letter;
use super::messages::{BusStatus, Shown};
use super::partition;
use crate::admin::dead_letters::DeadLetterFilter;
use crate::admin::messages::{MessageStatus, Retried};
use crate::http::schema::Name;
use crate::queues::Queues;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(one, delete)).routes(routes!(retry)).routes(routes!(make_dead_letter)).route(
        "/messages/{partitionId}/{transactionId}/{*rest}",
        get(one_slashed).delete(delete_slashed).post(post_slashed),
    )
}

/// A message with its payload, readers and dead letters.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MessageDetail)]
struct Detail {
    #[serde(flatten)]
    message: Shown,
    /// As it was pushed.
    #[schema(value_type = Value)]
    data: Option<Box<RawValue>>,
    /// The consumer groups that read it.
    consumer_groups: Vec<Reader>,
    /// Its dead letters.
    dead_letters: Vec<Letter>,
}

/// The status of a message for a consumer group.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MessageReader)]
struct Reader {
    name: String,
    status: &'static str,
    #[schema(value_type = Option<String>, format = DateTime)]
    lease_expires_at: Option<Timestamp>,
    retry_count: u32,
}

/// The result of a change of a message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MessageResult)]
struct Done {
    success: bool,
    partition_id: String,
    transaction_id: String,
    /// What was done.
    message: String,
}

/// A message with its payload and readers.
#[utoipa::path(
    get, path = "/messages/{partitionId}/{transactionId}", tag = "administration",
    params(
        ("partitionId" = Id, Path, description = "Its partition"),
        ("transactionId" = Name, Path, description = "Its transaction id")
    ),
    responses(
        (status = 200, description = "Its details", body = Detail),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such message", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn one(
    State(queues): State<Queues>,
    Path((partition_id, transaction)): Path<(String, String)>,
) -> Result<Json<Detail>, ApiError> {
    let id = partition(&partition_id)?;
    let mut dead_letters: Vec<Letter> =
        queues.dead_letters_of(id, &transaction).await?.into_iter().map(Into::into).collect();
    if let Some(detail) = queues.message(id, &transaction).await? {
        let status = detail.status().name();
        let leased_until = detail.readers.iter().filter_map(|reader| reader.leased_until).max().map(Timestamp);
        let consumed_by = detail.readers.iter().filter(|it| it.status == MessageStatus::Completed).count() as u64;
        let total_groups = detail.readers.len() as u64;
        let reader = |reader: crate::admin::messages::Reader| Reader {
            name: reader.group,
            status: reader.status.name(),
            lease_expires_at: reader.leased_until.map(Timestamp),
            retry_count: reader.retries,
        };
        let mut message = Shown::of(detail.message, status, leased_until);
        message.bus_status = BusStatus { consumed_by, total_groups };
        return Ok(Json(Detail {
            message,
            data: Some(detail.payload),
            consumer_groups: detail.readers.into_iter().map(reader).collect(),
            dead_letters,
        }));
    }
    if dead_letters.is_empty() {
        return Err(none(&transaction));
    }
    let letter = dead_letters.remove(0);
    let data = letter.data.clone();
    Ok(Json(Detail { message: Shown::dead(letter), data, consumer_groups: Vec::new(), dead_letters }))
}

fn none(transaction: &str) -> ApiError {
    ApiError::not_found(format!("the partition has no message {transaction:?}"))
}

fn done(partition_id: String, transaction_id: String, message: impl Into<String>) -> Json<Done> {
    Json(Done { success: true, partition_id, transaction_id, message: message.into() })
}

/// Deletes a message and its dead letters. Its transaction id is free again.
#[utoipa::path(
    delete, path = "/messages/{partitionId}/{transactionId}", tag = "administration",
    params(
        ("partitionId" = Id, Path, description = "Its partition"),
        ("transactionId" = Name, Path, description = "Its transaction id")
    ),
    responses(
        (status = 200, description = "It is gone", body = Done),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such message", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn delete(
    State(queues): State<Queues>,
    Path((partition_id, transaction)): Path<(String, String)>,
) -> Result<Json<Done>, ApiError> {
    let id = partition(&partition_id)?;
    let deleted = queues.delete_message(id, &transaction).await?;
    let filter = DeadLetterFilter {
        partition_id: Some(id),
        transaction_id: Some(transaction.clone()),
        ..DeadLetterFilter::default()
    };
    match (deleted, queues.purge(&filter).await?) {
        (false, 0) => Err(none(&transaction)),
        (true, 0) => Ok(done(partition_id, transaction, "the message was deleted")),
        (false, dead) => Ok(done(partition_id, transaction, format!("{dead} dead letters were deleted"))),
        (true, dead) => {
            Ok(done(partition_id, transaction, format!("the message and {dead} dead letters were deleted")))
        }
    }
}

/// Retries a message: its dead letters are replayed, or consumer groups that wait for their retry delay can read it at
/// once.
#[utoipa::path(
    post, path = "/messages/{partitionId}/{transactionId}/retry", tag = "administration",
    params(
        ("partitionId" = Id, Path, description = "Its partition"),
        ("transactionId" = Name, Path, description = "Its transaction id")
    ),
    responses(
        (status = 200, description = "It is retried", body = Done),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such message", body = Failure),
        (status = 409, description = "It has not failed, or its queue cannot take it now", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn retry(
    State(queues): State<Queues>,
    Path((partition_id, transaction)): Path<(String, String)>,
) -> Result<Json<Done>, ApiError> {
    match queues.retry_message(partition(&partition_id)?, &transaction).await? {
        None => Err(none(&transaction)),
        Some(Retried::Nothing) => {
            let why = format!("message {transaction:?} has not failed: there is nothing to try again");
            Err(ApiError::new(StatusCode::CONFLICT, why))
        }
        Some(Retried::Replayed(dead)) => {
            Ok(done(partition_id, transaction, format!("{dead} dead letters are messages again")))
        }
        Some(Retried::Released(groups)) => {
            Ok(done(partition_id, transaction, format!("{groups} consumer groups may try it again now")))
        }
    }
}

/// Makes a message a dead letter: it is not delivered any more.
#[utoipa::path(
    post, path = "/messages/{partitionId}/{transactionId}/dlq", tag = "administration",
    params(
        ("partitionId" = Id, Path, description = "Its partition"),
        ("transactionId" = Name, Path, description = "Its transaction id")
    ),
    responses(
        (status = 200, description = "It is a dead letter", body = Done),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such message", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn make_dead_letter(
    State(queues): State<Queues>,
    Path((partition_id, transaction)): Path<(String, String)>,
) -> Result<Json<Done>, ApiError> {
    if queues.make_dead_letter(partition(&partition_id)?, &transaction, "moved by hand").await? {
        return Ok(done(partition_id, transaction, "the message is a dead letter"));
    }
    Err(none(&transaction))
}

type Three = Path<(String, String, String)>;

async fn one_slashed(state: State<Queues>, Path((id, first, rest)): Three) -> Result<Json<Detail>, ApiError> {
    one(state, Path((id, format!("{first}/{rest}")))).await
}

async fn delete_slashed(state: State<Queues>, Path((id, first, rest)): Three) -> Result<Json<Done>, ApiError> {
    delete(state, Path((id, format!("{first}/{rest}")))).await
}

async fn post_slashed(state: State<Queues>, Path((id, first, rest)): Three) -> Result<Response, ApiError> {
    let name = format!("{first}/{rest}");
    if let Some(name) = name.strip_suffix("/retry") {
        return Ok(retry(state, Path((id, name.to_owned()))).await?.into_response());
    }
    match name.strip_suffix("/dlq") {
        Some(name) => Ok(make_dead_letter(state, Path((id, name.to_owned()))).await?.into_response()),
        None => Err(ApiError::not_found("there is nothing of that name to do with a message")),
    }
}
