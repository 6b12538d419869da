//! `POST /configure`, `DELETE /resources/queues/{queue}`, `DELETE /queues/{queue}/clear`.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::routing;
use reveille_web::{ApiError, Body, Failure, Path, Principal, Query, Role};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::queue_options::GivenOptions;
use crate::admin::configure::{Change, Settings};
use crate::error::Error;
use crate::http::api_error::{invalid, missing};
use crate::http::field::{self, Raw};
use crate::http::schema::Name;
use crate::queues::Queues;

pub(super) fn configuration() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(configure))
}

pub(super) fn routes() -> OpenApiRouter<Queues> {
    OpenApiRouter::new().routes(routes!(clear)).route("/queues/{queue}/{*rest}", routing::delete(clear_slashed))
}

/// A queue to create or to change.
#[derive(Deserialize, ToSchema)]
#[schema(as = ConfigureRequest)]
struct ConfigureRequest<'a> {
    /// Its name.
    #[serde(borrow, default)]
    #[schema(required, value_type = Name)]
    queue: Raw<'a>,
    /// Its namespace; the default of a new queue is its name up to the first dot.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Name>)]
    namespace: Raw<'a>,
    /// Its task; the default of a new queue is its name between the first two dots.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Name>)]
    task: Raw<'a>,
    /// The options to change. A missing or null option stays as it is.
    #[serde(borrow, default)]
    #[schema(value_type = Option<GivenOptions>)]
    options: Option<HashMap<String, &'a RawValue>>,
}

/// The options of a queue.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = QueueOptions)]
pub(super) struct Set {
    /// The lease time in seconds.
    lease_time: i32,
    /// How often a message that fails, or whose lease expires, is redelivered before it becomes a dead letter.
    retry_limit: i32,
    /// The delay of a redelivery in milliseconds. The default is only echoed: there is no delay until it is set.
    retry_delay: i32,
    /// The most messages that are not consumed; 0: any number.
    max_size: i64,
    /// Seconds after which a message is deleted. The default is only echoed: none is deleted until it is set.
    ttl: i32,
    dead_letter_queue: bool,
    dlq_after_max_retries: bool,
    /// Of the queues of a namespace, the one with the highest priority is read first.
    priority: i32,
    /// Seconds before a message can be read.
    delayed_processing: i32,
    /// Seconds after the last push before a partition can be read.
    window_buffer: i32,
    /// Seconds after which a message is deleted, consumed or not; 0: never.
    retention_seconds: i32,
    /// Seconds after which a message is deleted that every consumer group has consumed; 0: never.
    completed_retention_seconds: i32,
    /// Whether the two options above apply. If not, `consumedRetentionSeconds` does.
    retention_enabled: bool,
    encryption_enabled: bool,
    /// Seconds that a message waits for a consumer group before the group skips it; 0: without limit.
    max_wait_time_seconds: i32,
    /// Whether a lease that expires without an ack counts against `retryLimit`.
    charge_expired_leases: bool,
    /// Seconds after which a message is deleted that every consumer group has consumed, unless `retentionEnabled`; 0:
    /// never.
    consumed_retention_seconds: i32,
}

impl From<Settings> for Set {
    fn from(settings: Settings) -> Set {
        Set {
            lease_time: settings.lease_seconds,
            retry_limit: settings.retry_limit,
            retry_delay: settings.retry_delay_ms.unwrap_or(Settings::RETRY_DELAY_MS),
            max_size: settings.max_size,
            ttl: settings.ttl_seconds.unwrap_or(Settings::TTL_SECONDS),
            dead_letter_queue: settings.dead_letter_queue,
            dlq_after_max_retries: settings.dlq_after_max_retries,
            priority: settings.priority,
            delayed_processing: settings.delayed_processing_seconds,
            window_buffer: settings.window_buffer_seconds,
            retention_seconds: settings.retention_seconds,
            completed_retention_seconds: settings.completed_retention_seconds,
            retention_enabled: settings.retention_enabled,
            encryption_enabled: settings.encryption_enabled,
            max_wait_time_seconds: settings.max_wait_time_seconds,
            charge_expired_leases: settings.charge_expired_leases,
            consumed_retention_seconds: settings.consumed_retention_seconds,
        }
    }
}

/// A configured queue.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ConfigureResult)]
struct Configured {
    configured: bool,
    queue_id: String,
    /// The id of its default partition.
    partition_id: String,
    queue: String,
    namespace: String,
    task: String,
    options: Set,
}

/// Creates a queue, or changes its options.
#[utoipa::path(
    post, path = "/configure", tag = "administration", request_body = ConfigureRequest<'_>,
    responses(
        (status = 200, description = "The queue as it is now", body = Configured),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn configure(
    State(queues): State<Queues>,
    principal: Principal,
    body: Body,
) -> Result<Json<Configured>, ApiError> {
    let (queue, namespace, task, change) = read(&body)?;
    principal.require_queue(Role::Operator, &queue)?;
    let configured = queues.configure(&queue, namespace.as_deref(), task.as_deref(), &change).await;
    let configured = configured.map_err(|error| match error {
        // The request enables encryption, so it is invalid on a server without a key.
        Error::NoKey { .. } => invalid("encryptionEnabled", "this server has no encryption key"),
        error => error.into(),
    })?;
    Ok(Json(Configured {
        configured: true,
        queue_id: configured.queue_id.to_string(),
        partition_id: configured.partition_id.to_string(),
        queue: configured.queue,
        namespace: configured.namespace,
        task: configured.task,
        options: configured.settings.into(),
    }))
}

type Read = (String, Option<String>, Option<String>, Change);

fn read(body: &Body) -> Result<Read, ApiError> {
    let ConfigureRequest { queue, namespace, task, options } = body.json()?;
    let queue = field::text(queue, "queue")?.ok_or_else(|| missing("queue"))?;
    let change = change(&options.unwrap_or_default())?;
    Ok((queue, field::text(namespace, "namespace")?, field::text(task, "task")?, change))
}

fn change(options: &HashMap<String, &RawValue>) -> Result<Change, ApiError> {
    let number = |name: &str| whole(options.get(name).copied(), name);
    let flag = |name: &str| truth(options.get(name).copied(), name);
    Ok(Change {
        lease_seconds: number("leaseTime")?,
        retry_limit: number("retryLimit")?,
        retry_delay_ms: number("retryDelay")?,
        max_size: number("maxSize")?,
        ttl_seconds: number("ttl")?,
        dead_letter_queue: flag("deadLetterQueue")?,
        dlq_after_max_retries: flag("dlqAfterMaxRetries")?,
        priority: number("priority")?,
        delayed_processing_seconds: number("delayedProcessing")?,
        window_buffer_seconds: number("windowBuffer")?,
        retention_seconds: number("retentionSeconds")?,
        completed_retention_seconds: number("completedRetentionSeconds")?,
        retention_enabled: flag("retentionEnabled")?,
        encryption_enabled: flag("encryptionEnabled")?,
        max_wait_time_seconds: number("maxWaitTimeSeconds")?,
        charge_expired_leases: flag("chargeExpiredLeases")?,
        consumed_retention_seconds: number("consumedRetentionSeconds")?,
    })
}

/// A whole number. Languages without integers write it with a zero fraction.
fn whole(raw: Raw<'_>, what: &str) -> Result<Option<i64>, ApiError> {
    let Some(text) = raw.map(RawValue::get).filter(|text| *text != "null") else { return Ok(None) };
    let fraction = || text.parse::<f64>().ok().filter(|number| number.fract() == 0.0).map(|number| number as i64);
    let number = text.parse::<i64>().ok().or_else(fraction);
    number.map(Some).ok_or_else(|| invalid(what, "must be a whole number"))
}

fn truth(raw: Raw<'_>, what: &str) -> Result<Option<bool>, ApiError> {
    match raw.map(RawValue::get) {
        None | Some("null") => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(invalid(what, "must be true or false")),
    }
}

/// A deleted queue.
#[derive(Serialize, ToSchema)]
#[schema(as = DeleteQueueResult)]
pub(super) struct Deleted {
    deleted: bool,
    queue: String,
    /// Whether it existed.
    existed: bool,
}

/// Deletes a queue with its messages and groups. Succeeds if there is none.
#[utoipa::path(
    delete, path = "/resources/queues/{queue}", tag = "administration",
    params(("queue" = Name, Path, description = "The queue")),
    responses(
        (status = 200, description = "The queue does not exist any more", body = Deleted),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
pub(super) async fn delete(State(queues): State<Queues>, Path(queue): Path<String>) -> Result<Json<Deleted>, ApiError> {
    let existed = queues.delete_queue(&queue).await?;
    Ok(Json(Deleted { deleted: true, queue, existed }))
}

pub(super) async fn delete_slashed(
    state: State<Queues>,
    Path((queue, rest)): Path<(String, String)>,
) -> Result<Json<Deleted>, ApiError> {
    delete(state, Path(format!("{queue}/{rest}"))).await
}

/// The result of clearing a queue.
#[derive(Serialize, ToSchema)]
#[schema(as = ClearResult)]
struct Cleared {
    cleared: bool,
    queue: String,
    /// The partition, if only one was cleared.
    partition: Option<String>,
    /// The number of deleted messages.
    messages: u64,
}

/// Deletes all messages of a queue, or of one of its partitions. Consumer groups continue with the next message.
#[utoipa::path(
    delete, path = "/queues/{queue}/clear", tag = "administration",
    params(
        ("queue" = Name, Path, description = "The queue"),
        ("partition" = Option<Name>, Query, description = "One of its partitions; default: all")
    ),
    responses(
        (status = 200, description = "The messages are deleted", body = Cleared),
        (status = 400, description = "A parameter is invalid; nothing was removed", body = Failure),
        (status = 404, description = "There is no such queue", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
async fn clear(
    State(queues): State<Queues>,
    Path(queue): Path<String>,
    query: Query,
) -> Result<Json<Cleared>, ApiError> {
    let partition = query.name("partition");
    match queues.clear(&queue, partition.as_deref()).await? {
        Some(messages) => Ok(Json(Cleared { cleared: true, queue, partition, messages })),
        None => Err(ApiError::not_found(format!("there is no queue {queue:?}"))),
    }
}

async fn clear_slashed(
    state: State<Queues>,
    Path((queue, rest)): Path<(String, String)>,
    query: Query,
) -> Result<Json<Cleared>, ApiError> {
    match rest.strip_suffix("/clear") {
        Some(rest) => clear(state, Path(format!("{queue}/{rest}")), query).await,
        None => Err(ApiError::not_found("there is nothing of that name to delete")),
    }
}

#[cfg(test)]
mod tests {
    use utoipa::PartialSchema as _;

    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).expect("JSON")
    }

    /// Some languages escape characters without need; the names of options are the same then.
    #[test]
    fn options_may_be_escaped() {
        let text = r#"{"queue": "q", "options": {"\u006ceaseTime": 7, "what\never": 1}}"#;
        let request: ConfigureRequest<'_> = serde_json::from_str(text).expect("it can be read");
        let options = request.options.expect("options");
        assert_eq!(options.get("leaseTime").map(|value| value.get()), Some("7"));
    }

    /// The limits of an option in the document are those of the engine.
    /// Each number that has limits in the document, at its limits and one beyond.
    #[test]
    fn options_have_the_limits_that_are_described() {
        let described = serde_json::to_value(GivenOptions::schema()).expect("JSON");
        let taken = |name: &str, number: i64| {
            let number = raw(&number.to_string());
            let options = HashMap::from([(name.to_owned(), &*number)]);
            change(&options).unwrap_or_else(|_| panic!("{name} = {number}")).check().is_ok()
        };
        let mut numbers = 0;
        for (name, option) in described["properties"].as_object().expect("options") {
            let (Some(least), Some(most)) = (option["minimum"].as_i64(), option["maximum"].as_i64()) else { continue };
            numbers += 1;
            assert_eq!([least, most].map(|number| taken(name, number)), [true; 2], "{name}");
            assert_eq!([least - 1, most + 1].map(|number| taken(name, number)), [false; 2], "{name}");
        }
        assert_eq!(numbers, 12);
    }

    /// Numbers as languages write them are accepted; an error for other values names the option.
    #[test]
    fn options_are_read_by_their_kind() {
        for (json, number) in
            [("null", None), ("0", Some(0)), ("-3", Some(-3)), ("300.0", Some(300)), ("1e3", Some(1_000))]
        {
            assert_eq!(whole(Some(&raw(json)), "ttl").unwrap_or_else(|_| panic!("{json}")), number, "{json}");
        }
        for json in ["1.5", "\"300\"", "true", "[]", "{}"] {
            let error = whole(Some(&raw(json)), "ttl").expect_err(json);
            assert!(format!("{error:?}").contains("`ttl`: must be"), "{json}");
        }
        assert_eq!(truth(Some(&raw("true")), "x").ok(), Some(Some(true)));
        assert_eq!(truth(None, "x").ok(), Some(None));
        for json in ["1", "\"true\"", "[]"] {
            assert!(truth(Some(&raw(json)), "x").is_err(), "{json}");
        }
    }
}
