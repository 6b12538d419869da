//! `GET /messages`: listing messages.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Failure, Query, Time, Timestamp};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::dead_letters::Letter;
use super::page;
use crate::admin::dead_letters::DeadLetterFilter;
use crate::admin::messages::{ListedMessage, MessageFilter, MessageState, MessageStatus, ReadingMode};
use crate::http::api_error::invalid;
use crate::http::schema::{MessageStatus as Status, Name};
use crate::queues::Queues;

/// The default page size.
const MESSAGES: u32 = 200;
/// How a dead letter is called among messages.
const DEAD: &str = "dead_letter";

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(list))
}

/// A message and its status.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MessageState)]
pub(super) struct Shown {
    id: String,
    transaction_id: String,
    partition_id: String,
    queue: String,
    partition: String,
    namespace: Option<String>,
    task: Option<String>,
    /// `pending`, `processing`, `completed`, or `dead_letter`.
    status: &'static str,
    trace_id: Option<String>,
    producer_sub: Option<String>,
    queue_priority: Option<i32>,
    /// Its position in the partition.
    offset: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<String>, format = DateTime)]
    lease_expires_at: Option<Timestamp>,
    /// The numbers of consumer groups that have consumed it, and of all.
    #[schema(inline)]
    pub(super) bus_status: BusStatus,
}

/// Numbers of consumer groups.
#[derive(Serialize, ToSchema, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct BusStatus {
    pub(super) consumed_by: u64,
    pub(super) total_groups: u64,
}

impl Shown {
    pub(super) fn of(message: MessageState, status: &'static str, lease_expires_at: Option<Timestamp>) -> Shown {
        Shown {
            id: message.id.to_string(),
            transaction_id: message.transaction_id,
            partition_id: message.partition_id.to_string(),
            queue: message.queue,
            partition: message.partition,
            namespace: Some(message.namespace),
            task: Some(message.task),
            status,
            trace_id: message.trace_id,
            producer_sub: message.producer,
            queue_priority: Some(message.priority),
            offset: message.offset,
            created_at: Timestamp(message.created_at),
            lease_expires_at,
            bus_status: BusStatus::default(),
        }
    }

    pub(super) fn dead(letter: Letter) -> Shown {
        Shown {
            id: letter.id,
            transaction_id: letter.transaction_id,
            partition_id: letter.partition_id,
            queue: letter.queue,
            partition: letter.partition,
            namespace: None,
            task: None,
            status: DEAD,
            trace_id: letter.trace_id,
            producer_sub: letter.producer_sub,
            queue_priority: None,
            offset: letter.offset,
            created_at: letter.created_at,
            lease_expires_at: None,
            bus_status: BusStatus::default(),
        }
    }
}

impl From<ListedMessage> for Shown {
    fn from(listed: ListedMessage) -> Shown {
        let shown = Shown::of(listed.message, listed.status.name(), listed.leased_until.map(Timestamp));
        Shown { bus_status: BusStatus { consumed_by: listed.consumed_by, total_groups: listed.groups }, ..shown }
    }
}

/// Messages, newest first.
#[derive(Serialize, ToSchema)]
struct MessageList {
    messages: Vec<Shown>,
    mode: Mode,
}

/// How the queues are read.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ReadingMode)]
struct Mode {
    /// Whether a consumer reads without a consumer group.
    has_queue_mode: bool,
    /// The number of consumer groups.
    bus_groups_count: u64,
    /// `none`, `queue`, `bus`, or `hybrid`.
    r#type: &'static str,
}

impl From<ReadingMode> for Mode {
    fn from(mode: ReadingMode) -> Mode {
        Mode {
            has_queue_mode: mode.without_group,
            bus_groups_count: mode.groups,
            r#type: match (mode.without_group, mode.groups) {
                (false, 0) => "none",
                (true, 0) => "queue",
                (false, _) => "bus",
                (true, _) => "hybrid",
            },
        }
    }
}

/// A filter and a page of messages.
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
    /// Those of queues of this namespace.
    #[param(value_type = Option<Name>)]
    ns: Option<String>,
    /// The same, if `ns` is not given.
    #[param(value_type = Option<Name>)]
    namespace: Option<String>,
    /// Those of queues of this task.
    #[param(value_type = Option<Name>)]
    task: Option<String>,
    /// Their status.
    #[param(value_type = Option<Status>)]
    status: Option<String>,
    /// Those stored at this time or later.
    #[param(value_type = Option<Time>)]
    from: Option<String>,
    /// Those stored before this time.
    #[param(value_type = Option<Time>)]
    to: Option<String>,
    /// The most rows; default 200.
    limit: Option<u32>,
    /// The number of rows to skip.
    offset: Option<u32>,
}

/// Lists messages, newest first.
#[utoipa::path(
    get, path = "/messages", tag = "administration", params(Parameters),
    responses(
        (status = 200, description = "The messages, without their payloads", body = MessageList),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn list(State(queues): State<Queues>, query: Query) -> Result<Json<MessageList>, ApiError> {
    let (filter, page) = (filter(&query)?, page(&query, MESSAGES)?);
    let mode = queues.reading_mode(&filter).await?.into();
    if is_dead(query.text("status")) {
        let filter = DeadLetterFilter {
            queue: filter.queue,
            partition: filter.partition,
            from: filter.from,
            before: filter.before,
            ..DeadLetterFilter::default()
        };
        let letters = queues.dead_letters(&filter, page).await?.rows;
        return Ok(Json(MessageList {
            messages: letters.into_iter().map(|it| Shown::dead(it.into())).collect(),
            mode,
        }));
    }
    let messages = queues.messages(&filter, page).await?.into_iter().map(Into::into).collect();
    Ok(Json(MessageList { messages, mode }))
}

fn is_dead(status: Option<&str>) -> bool {
    matches!(status, Some("dlq" | DEAD))
}

fn filter(query: &Query) -> Result<MessageFilter, ApiError> {
    let status = match query.text("status") {
        None | Some("all") => None,
        Some("pending") => Some(MessageStatus::Pending),
        Some("processing") => Some(MessageStatus::Processing),
        Some("completed") => Some(MessageStatus::Completed),
        dead if is_dead(dead) => None,
        Some(other) => {
            let known = "must be `pending`, `processing`, `completed` or `dlq`";
            return Err(invalid("status", format_args!("{known}, got {other:?}")));
        }
    };
    Ok(MessageFilter {
        queue: query.name("queue"),
        partition: query.name("partition"),
        namespace: query.name("ns").or_else(|| query.name("namespace")),
        task: query.name("task"),
        status,
        from: query.time("from")?,
        before: query.time("to")?,
    })
}
