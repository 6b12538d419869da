//! `GET /pop/…`: messages that are there, or that arrive while the client waits.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use reveille_web::{ApiError, Failure, Path, Query, SPAN_TARGET, Timestamp, is_collected, trace_id_of};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use super::schema::Name;
use crate::consume::pop::{BATCH_MAX, Batch, LONGEST, PARTITIONS_MAX, Pop, Source, Subscription};
use crate::error::Error;
use crate::http::api_error::invalid;
use crate::message::Message;
use crate::queues::Queues;

/// The batch size if the client leaves it to the server: large enough for a round trip, small enough for a lease.
const AUTOPILOT_BATCH: u64 = 200;
/// The default wait.
const TIMEOUT_MS: u64 = 30_000;

/// The parameters of a pop.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `how`, described here")]
struct Parameters {
    /// The most messages; default 1, more with `autopilot`.
    batch: Option<u64>,
    /// Whether to wait if there are no messages.
    wait: Option<bool>,
    /// The longest wait in milliseconds; default 30000.
    timeout: Option<u64>,
    /// The consumer group.
    #[param(rename = "consumerGroup", value_type = Option<Name>)]
    consumer_group: Option<String>,
    /// Whether the messages are acked by the pop itself.
    #[param(rename = "autoAck")]
    auto_ack: Option<bool>,
    /// Where a new group begins: `all`, or `new` for later messages only.
    #[param(rename = "subscriptionMode")]
    subscription_mode: Option<String>,
    /// Where a new group begins: a timestamp, or `now`.
    #[param(rename = "subscriptionFrom")]
    subscription_from: Option<String>,
    /// The most partitions; default 1.
    partitions: Option<u64>,
    /// Lets the server choose parameters that are not given.
    autopilot: Option<bool>,
}

/// The queues to pop from.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "read by `pop_space`, described here")]
struct Space {
    /// All queues of this namespace.
    #[param(value_type = Option<Name>)]
    namespace: Option<String>,
    /// All queues of this task; with `namespace`, those that have both.
    #[param(value_type = Option<Name>)]
    task: Option<String>,
}

/// Leased messages.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PopResult)]
struct Popped<'a> {
    success: bool,
    /// The queue, the partition and its id of the first message.
    queue: &'a str,
    partition: &'a str,
    partition_id: String,
    /// The lease to ack the messages with; empty after `autoAck`.
    lease_id: &'a str,
    consumer_group: &'a str,
    /// The number of partitions that the messages are from.
    partitions_claimed: usize,
    messages: Vec<Delivered<'a>>,
}

/// A message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PoppedMessage)]
struct Delivered<'a> {
    id: String,
    transaction_id: &'a str,
    trace_id: Option<&'a str>,
    /// As it was pushed.
    #[schema(value_type = Value)]
    data: &'a RawValue,
    /// The authenticated producer.
    producer_sub: Option<&'a str>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    queue: &'a str,
    partition: &'a str,
    partition_id: String,
    lease_id: &'a str,
    consumer_group: &'a str,
    /// How often the first message of the partition was retried for this group, after a failure or a lease that
    /// expired.
    retry_count: u32,
}

/// Pops from the partitions of a queue that have waited longest.
#[utoipa::path(
    get, path = "/pop/queue/{queue}", tag = "messages",
    params(("queue" = Name, Path, description = "The queue; it need not exist yet"), Parameters),
    responses(
        (status = 200, description = "Messages", body = Popped<'_>),
        (status = 204, description = "There are none, or none came in time"),
        (status = 400, description = "A parameter is invalid; nothing was leased", body = Failure),
        (status = 503, description = "Too many wait, or the database is away; try again", body = Failure),
    )
)]
pub(super) async fn pop_queue(
    State(queues): State<Queues>,
    method: Method,
    Path(queue): Path<String>,
    query: Query,
) -> Result<Response, ApiError> {
    pop(&queues, &method, Source::Queue { queue, partition: None }, &query).await
}

/// Pops from one partition of a queue.
#[utoipa::path(
    get, path = "/pop/queue/{queue}/partition/{partition}", tag = "messages",
    params(
        ("queue" = Name, Path, description = "The queue; it need not exist yet"),
        ("partition" = Name, Path, description = "The partition; it need not exist yet"),
        Parameters
    ),
    responses(
        (status = 200, description = "Messages", body = Popped<'_>),
        (status = 204, description = "There are none, or none came in time"),
        (status = 400, description = "A parameter is invalid; nothing was leased", body = Failure),
        (status = 503, description = "Too many wait, or the database is away; try again", body = Failure),
    )
)]
pub(super) async fn pop_partition(
    State(queues): State<Queues>,
    method: Method,
    Path((queue, partition)): Path<(String, String)>,
    query: Query,
) -> Result<Response, ApiError> {
    pop(&queues, &method, Source::Queue { queue, partition: Some(partition) }, &query).await
}

/// Pops from a queue, or a partition, whose name has slashes that the client did not escape.
pub(super) async fn pop_slashed(
    State(queues): State<Queues>,
    method: Method,
    Path((queue, rest)): Path<(String, String)>,
    query: Query,
) -> Result<Response, ApiError> {
    pop(&queues, &method, slashed(&format!("{queue}/{rest}")), &query).await
}

/// Pops from all queues of a namespace, of a task, or of both; those of a higher priority first.
#[utoipa::path(
    get, path = "/pop", tag = "messages", params(Space, Parameters),
    responses(
        (status = 200, description = "Messages", body = Popped<'_>),
        (status = 204, description = "There are none, or none came in time"),
        (status = 400, description = "A parameter is invalid; nothing was leased", body = Failure),
        (status = 503, description = "Too many wait, or the database is away; try again", body = Failure),
    )
)]
pub(super) async fn pop_space(
    State(queues): State<Queues>,
    method: Method,
    query: Query,
) -> Result<Response, ApiError> {
    let source = Source::Space { namespace: query.name("namespace"), task: query.name("task") };
    pop(&queues, &method, source, &query).await
}

async fn pop(queues: &Queues, method: &Method, source: Source, query: &Query) -> Result<Response, ApiError> {
    // A HEAD is routed as GET, and its response has no body: the messages would be leased without being delivered.
    if *method != Method::GET {
        return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, format!("{method} cannot pop")));
    }
    let (pop, wait) = how(source, query)?;
    let deadline = wait.map(|wait| Instant::now() + wait);
    match queues.pop(pop, deadline).await {
        Ok(Some(batch)) => {
            if is_collected() {
                trace(&batch);
            }
            Ok(answer(&batch))
        }
        // Waiting pops get a response when the server stops.
        Ok(None) | Err(Error::Wake(reveille_wake::Error::Closed { .. })) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(error) => Err(error.into()),
    }
}

/// Reports a span for each message of a trace, from its push to now.
fn trace(batch: &Batch) {
    for message in &batch.messages {
        let Some(trace) = message.trace_id.as_deref().and_then(trace_id_of) else { continue };
        let started = u64::try_from(message.created_at.unix_timestamp_nanos()).unwrap_or_default();
        let name = format!("deliver {}", message.queue);
        tracing::trace!(
            target: SPAN_TARGET, name, trace, started_ns = started, messaging.destination.name = message.queue,
            messaging.message.id = %message.id, reveille.group = batch.group, reveille.retries = message.retries,
        );
    }
}

/// The pop, and how long to wait.
fn how(source: Source, query: &Query) -> Result<(Pop, Option<Duration>), ApiError> {
    if query.flag("conflation")? {
        return Err(invalid("conflation", "not supported by this server"));
    }
    let default = if query.flag("autopilot")? { AUTOPILOT_BATCH } else { 1 };
    let batch = query.number("batch", 1..=BATCH_MAX as u64)?.unwrap_or(default);
    let partitions = query.number("partitions", 1..=PARTITIONS_MAX as u64)?.unwrap_or(1);
    let timeout = query.number("timeout", 0..=LONGEST.as_millis() as u64)?.unwrap_or(TIMEOUT_MS);
    let pop = Pop {
        group: query.name("consumerGroup"),
        batch: batch as usize,
        partitions: partitions as usize,
        auto_ack: query.flag("autoAck")?,
        subscription: subscription(query),
        ..Pop::new(source)
    };
    Ok((pop, query.flag("wait")?.then(|| Duration::from_millis(timeout))))
}

/// Where a new group begins. Unknown values mean all messages, as clients expect.
fn subscription(query: &Query) -> Subscription {
    let from = match query.text("subscriptionFrom") {
        Some("now" | "new") => Some(Subscription::New),
        Some(time) => reveille_web::parse_timestamp(time).map(Subscription::Since),
        None => None,
    };
    from.unwrap_or_else(|| match query.text("subscriptionMode") {
        Some("new" | "now") => Subscription::New,
        _ => Subscription::All,
    })
}

/// The queue and the partition of a path in which their slashes were not escaped.
fn slashed(path: &str) -> Source {
    match path.split_once("/partition/") {
        Some((queue, partition)) if !partition.is_empty() => Source::partition(queue, partition),
        _ => Source::queue(path),
    }
}

fn answer(batch: &Batch) -> Response {
    let lease = batch.lease_id.map(|lease| lease.to_string()).unwrap_or_default();
    let first = batch.messages.first();
    let popped = Popped {
        success: true,
        queue: first.map_or("", |message| &message.queue),
        partition: first.map_or("", |message| &message.partition),
        partition_id: first.map_or_else(String::new, |message| message.partition_id.to_string()),
        lease_id: &lease,
        consumer_group: &batch.group,
        partitions_claimed: batch.partitions,
        messages: batch.messages.iter().map(|message| delivered(message, &lease, &batch.group)).collect(),
    };
    Json(popped).into_response()
}

fn delivered<'a>(message: &'a Message, lease_id: &'a str, consumer_group: &'a str) -> Delivered<'a> {
    Delivered {
        id: message.id.to_string(),
        transaction_id: &message.transaction_id,
        trace_id: message.trace_id.as_deref(),
        data: &message.payload,
        producer_sub: message.producer.as_deref(),
        created_at: Timestamp(message.created_at),
        queue: &message.queue,
        partition: &message.partition,
        partition_id: message.partition_id.to_string(),
        lease_id,
        consumer_group,
        retry_count: message.retries,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The queue and partition of a path whose slashes were not escaped.
    #[test]
    fn slashes_that_were_not_escaped_belong_to_the_names() {
        for (path, source) in [
            ("a/b", Source::queue("a/b")),
            ("a/b/partition/c", Source::partition("a/b", "c")),
            ("a/partition/b/c", Source::partition("a", "b/c")),
            ("a/partition/", Source::queue("a/partition/")),
            ("a/partition", Source::queue("a/partition")),
        ] {
            assert_eq!(slashed(path), source, "{path}");
        }
    }

    /// The defaults, the parameters of existing clients, and the limits.
    #[test]
    fn parameters_mean_what_clients_mean() {
        let asked = |text: &str| {
            let (pop, wait) = how(Source::queue("q"), &Query::of(text)).unwrap_or_else(|_| panic!("{text}"));
            (pop.batch, pop.partitions, wait.map(|wait| wait.as_millis() as u64))
        };
        assert_eq!(asked(""), (1, 1, None));
        assert_eq!(asked("batch=10&wait=true&timeout=5000"), (10, 1, Some(5_000)));
        assert_eq!(asked("autopilot=true&wait=true"), (200, 1, Some(30_000)));
        assert_eq!(asked("autopilot=true&batch=10"), (10, 1, None));
        assert_eq!(asked("batch=1000000&partitions=1000000"), (BATCH_MAX, PARTITIONS_MAX, None));
        assert_eq!(asked("wait=True&timeout=99999999999"), (1, 1, Some(LONGEST.as_millis() as u64)));
        for text in ["conflation=true", "batch=many", "timeout=-1", "wait=maybe"] {
            assert!(how(Source::queue("q"), &Query::of(text)).is_err(), "{text}");
        }
    }

    /// A timestamp takes precedence over a mode; other values mean all messages.
    #[test]
    fn a_subscription_that_is_not_known_means_everything() {
        let since = reveille_web::parse_timestamp("2026-01-01").map(Subscription::Since).expect("a day");
        for (text, expected) in [
            ("", Subscription::All),
            ("subscriptionMode=new", Subscription::New),
            ("subscriptionMode=now", Subscription::New),
            ("subscriptionMode=from_the_moon", Subscription::All),
            ("subscriptionFrom=now", Subscription::New),
            ("subscriptionFrom=2026-01-01", since),
            ("subscriptionMode=new&subscriptionFrom=2026-01-01", since),
            ("subscriptionMode=new&subscriptionFrom=nonsense", Subscription::New),
        ] {
            assert_eq!(subscription(&Query::of(text)), expected, "{text}");
        }
    }
}
