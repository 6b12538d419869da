//! `GET /v1/queues/{queue}/messages`, `GET /v1/queues/{queue}/peek`.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Failure, Path, Principal, Query, Time, Timestamp};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{limit, no_queue, visible, word};
use crate::admin::message_pages::{BrowseFilter, BrowsedMessage, Content};
use crate::admin::messages::MessageStatus;
use crate::http::api_error::invalid;
use crate::http::schema::{Name, QueueMessageKey, QueueMessageStatus};
use crate::queues::Queues;

const STATUSES: [(&str, MessageStatus); 3] = [
    ("pending", MessageStatus::Pending),
    ("processing", MessageStatus::Processing),
    ("completed", MessageStatus::Completed),
];

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(peek))
}

/// A message of a queue.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueMessage)]
struct Message {
    id: String,
    transaction_id: String,
    partition: String,
    partition_id: String,
    /// Its position in the partition.
    offset: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// `pending`: a consumer group has not consumed it, or there is none; `processing`: it is leased; `completed`:
    /// every group has consumed it.
    status: &'static str,
    /// The numbers of consumer groups that read its partition, and of those that have consumed it.
    groups: u64,
    consumed_by: u64,
    #[schema(value_type = Option<String>, format = DateTime)]
    leased_until: Option<Timestamp>,
    /// How often it was retried; known of the next message of a group.
    retries: u32,
    trace_id: Option<String>,
    /// Who pushed it.
    producer: Option<String>,
    /// As it was pushed; missing unless it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    payload: Option<Box<RawValue>>,
    /// Why the payload cannot be shown: this server does not have its key, for example.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

impl Message {
    fn of(principal: &Principal, message: BrowsedMessage) -> Message {
        let (payload, unreadable) = shown(visible(principal, message.content));
        Message {
            id: message.id.to_string(),
            transaction_id: message.transaction_id,
            partition: message.partition,
            partition_id: message.partition_id.to_string(),
            offset: message.offset,
            created_at: Timestamp(message.created_at),
            status: message.status.name(),
            groups: message.groups,
            consumed_by: message.consumed_by,
            leased_until: message.leased_until.map(Timestamp),
            retries: message.retries,
            trace_id: message.trace_id,
            producer: message.producer,
            payload,
            unreadable,
        }
    }
}

/// A payload, or why it cannot be shown.
pub(super) fn shown(content: Content) -> (Option<Box<RawValue>>, Option<String>) {
    match content {
        Content::Omitted => (None, None),
        Content::Json(json) => (Some(json), None),
        Content::Unreadable(why) => (None, Some(why)),
    }
}

/// A page of messages.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueMessagePage)]
struct MessagePage {
    messages: Vec<Message>,
    /// The `after` of the next page, if there is more.
    next: Option<String>,
}

/// What a consumer group gets next.
#[derive(Serialize, ToSchema)]
#[schema(as = QueuePeek)]
struct Peeked {
    messages: Vec<Message>,
}

/// A filter and a page of messages.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `list`, described here")]
struct Parameters {
    /// Those of this partition.
    #[param(value_type = Option<Name>)]
    partition: Option<String>,
    /// Those with this status.
    #[param(value_type = Option<QueueMessageStatus>)]
    status: Option<String>,
    /// Those stored at this time or later.
    #[param(value_type = Option<Time>)]
    from: Option<String>,
    /// Those stored before this time.
    #[param(value_type = Option<Time>)]
    to: Option<String>,
    /// Whether to return payloads; default false.
    payloads: Option<bool>,
    /// The `next` of the page before.
    #[param(value_type = Option<QueueMessageKey>)]
    after: Option<String>,
    /// The most messages; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// Messages of a queue, newest first. Nothing is leased. A page is short or empty where messages were deleted or have
/// another status.
#[utoipa::path(
    get, path = "/queues/{queue}/messages", tag = "queues",
    params(("queue" = Name, Path, description = "The queue"), Parameters),
    responses(
        (status = 200, description = "The messages", body = MessagePage),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such queue", body = Failure),
    )
)]
async fn list(
    State(queues): State<Queues>,
    principal: Principal,
    Path(queue): Path<String>,
    query: Query,
) -> Result<Json<MessagePage>, ApiError> {
    let filter = BrowseFilter {
        partition: query.name("partition"),
        status: word(&query, "status", &STATUSES)?,
        from: query.time("from")?,
        before: query.time("to")?,
    };
    let not_a_key = |text: &str| invalid("after", format_args!("must be the `next` of another page, got {text:?}"));
    let after = query.text("after").map(|text| text.parse().map_err(|()| not_a_key(text))).transpose()?;
    let page = queues.browse(&queue, &filter, after, limit(&query)?, query.flag("payloads")?).await?;
    let page = page.ok_or_else(|| no_queue(&queue))?;
    Ok(Json(MessagePage {
        messages: page.rows.into_iter().map(|message| Message::of(&principal, message)).collect(),
        next: page.next.map(|next| next.to_string()),
    }))
}

/// Which messages to look at.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `peek`, described here")]
struct PeekParameters {
    /// The consumer group; default: reading without a group. A group that does not exist has consumed nothing.
    #[param(value_type = Option<Name>)]
    group: Option<String>,
    /// Those of this partition.
    #[param(value_type = Option<Name>)]
    partition: Option<String>,
    /// The most messages; default 100.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// What a consumer group has not consumed, oldest first, with payloads. Nothing is leased or moved.
#[utoipa::path(
    get, path = "/queues/{queue}/peek", tag = "queues",
    params(("queue" = Name, Path, description = "The queue"), PeekParameters),
    responses(
        (status = 200, description = "The messages", body = Peeked),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 404, description = "There is no such queue", body = Failure),
    )
)]
async fn peek(
    State(queues): State<Queues>,
    principal: Principal,
    Path(queue): Path<String>,
    query: Query,
) -> Result<Json<Peeked>, ApiError> {
    let messages = queues.peek(&queue, query.text("group"), query.text("partition"), limit(&query)?).await?;
    let messages = messages.ok_or_else(|| no_queue(&queue))?;
    Ok(Json(Peeked { messages: messages.into_iter().map(|message| Message::of(&principal, message)).collect() }))
}
