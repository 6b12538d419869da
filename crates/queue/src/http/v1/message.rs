//! `GET /v1/messages/{partition_id}/{transaction_id}`: one message, and where it comes from.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Failure, Id, Path, Principal, Role, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::dead_letters::Letter;
use super::messages::shown;
use super::visible;
use crate::admin::message_pages::{Content, MessageInfo};
use crate::admin::messages::Reader;
use crate::admin::replay::REPLAYED;
use crate::admin::resources::Page;
use crate::admin::traces::Trace;
use crate::http::api_error::invalid;
use crate::http::schema::Name;
use crate::id::PartitionId;
use crate::queues::Queues;

/// Traces of a message that are shown.
const TRACES: u32 = 100;

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(one))
}

/// A message with its state in each consumer group, its traces and its dead letters.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueMessageDetail)]
struct Detail {
    queue: String,
    partition: String,
    partition_id: String,
    transaction_id: String,
    /// The message itself; null if only dead letters of it are left.
    message: Option<Stored>,
    /// The consumer groups that read its partition.
    consumer_groups: Vec<GroupState>,
    /// What consumers recorded about it, and whether it is a replayed dead letter: then one has the event `replayed`.
    /// In order, the first 100.
    traces: Vec<Note>,
    /// Its dead letters, newest first.
    dead_letters: Vec<Letter>,
}

/// A stored message.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueStoredMessage)]
struct Stored {
    id: String,
    offset: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// `pending`, `processing` or `completed`.
    status: &'static str,
    trace_id: Option<String>,
    /// Who pushed it.
    producer: Option<String>,
    /// Whether it is stored encrypted.
    encrypted: bool,
    /// As it was pushed.
    #[schema(value_type = Value)]
    payload: Option<Box<RawValue>>,
    /// Why the payload cannot be shown.
    unreadable: Option<String>,
}

/// The state of a message in a consumer group.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueMessageGroup)]
struct GroupState {
    group: String,
    status: &'static str,
    #[schema(value_type = Option<String>, format = DateTime)]
    leased_until: Option<Timestamp>,
    retries: u32,
}

impl From<Reader> for GroupState {
    fn from(reader: Reader) -> GroupState {
        GroupState {
            group: reader.group,
            status: reader.status.name(),
            leased_until: reader.leased_until.map(Timestamp),
            retries: reader.retries,
        }
    }
}

/// A note about a message.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueMessageTrace)]
struct Note {
    group: String,
    event: String,
    names: Vec<String>,
    worker: Option<String>,
    #[schema(value_type = Value)]
    data: Box<RawValue>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl Note {
    fn of(principal: &Principal, trace: Trace) -> Note {
        // Consumers record parts of payloads; where a message comes from is recorded by the engine.
        let is_visible = principal.sees_payloads() || trace.event_type == REPLAYED;
        Note {
            group: trace.group,
            event: trace.event_type,
            names: trace.names,
            worker: trace.worker,
            data: if is_visible { trace.data } else { RawValue::NULL.to_owned() },
            created_at: Timestamp(trace.created_at),
        }
    }
}

/// A message with its payload, its state in each consumer group, its traces and its dead letters.
#[utoipa::path(
    get, path = "/messages/{partition_id}/{transaction_id}", tag = "queues",
    params(
        ("partition_id" = Id, Path, description = "Its partition"),
        ("transaction_id" = Name, Path, description = "Its transaction id")
    ),
    responses(
        (status = 200, description = "The message", body = Detail),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such message, and no dead letter of it", body = Failure),
    )
)]
async fn one(
    State(queues): State<Queues>,
    principal: Principal,
    Path((partition_id, transaction_id)): Path<(String, String)>,
) -> Result<Json<Detail>, ApiError> {
    let not_an_id = |_| invalid("partition_id", format_args!("must be the id of a partition, got {partition_id:?}"));
    let id: PartitionId = partition_id.parse().map_err(not_an_id)?;
    let found = queues.message_info(id, &transaction_id).await?;
    let letters = queues.dead_letters_of(id, &transaction_id).await?;
    let names = found.as_ref().map(|info| (info.message.queue.clone(), info.message.partition.clone()));
    let names = names.or_else(|| letters.first().map(|letter| (letter.queue.clone(), letter.partition.clone())));
    let Some((queue, partition)) = names else {
        return Err(ApiError::not_found(format!("the partition has no message {transaction_id:?}")));
    };
    principal.require_queue(Role::Viewer, &queue)?;
    let traces = queues.traces(id, &transaction_id, Page { limit: TRACES, offset: 0 }).await?.rows;
    let (message, readers) = found.map_or((None, Vec::new()), |info| {
        let status = info.status().name();
        let MessageInfo { message, encrypted, content, readers } = info;
        let content = visible(&principal, content);
        (Some(Stored::of(message, status, encrypted, content)), readers)
    });
    Ok(Json(Detail {
        queue,
        partition,
        partition_id,
        transaction_id,
        message,
        consumer_groups: readers.into_iter().map(Into::into).collect(),
        traces: traces.into_iter().map(|trace| Note::of(&principal, trace)).collect(),
        dead_letters: letters.into_iter().map(|letter| Letter::of(&principal, letter)).collect(),
    }))
}

impl Stored {
    fn of(
        message: crate::admin::messages::MessageState,
        status: &'static str,
        encrypted: bool,
        content: Content,
    ) -> Stored {
        let (payload, unreadable) = shown(content);
        Stored {
            id: message.id.to_string(),
            offset: message.offset,
            created_at: Timestamp(message.created_at),
            status,
            trace_id: message.trace_id,
            producer: message.producer,
            encrypted,
            payload,
            unreadable,
        }
    }
}
