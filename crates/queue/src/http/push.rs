//! `POST /push`.

use std::fmt::Display;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use reveille_web::{ApiError, Body, Failure, List, Principal, RawBody, TraceContext};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::field::{self, Raw};
use super::schema::{ELEMENTS_MAX, Name};
use super::scope;
use crate::http::api_error::{at, missing};
use crate::message::{NewMessage, PushStatus, Pushed};
use crate::queues::Queues;

/// Messages to push.
#[derive(Deserialize, ToSchema)]
#[schema(as = PushRequest)]
pub(super) struct Items<'a> {
    #[serde(borrow)]
    #[schema(required, value_type = Vec<Item<'_>>, max_items = 10_000)]
    items: Option<List<Item<'a>, ELEMENTS_MAX>>,
}

/// A message to push.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PushItem)]
pub(super) struct Item<'a> {
    /// The queue; created if it does not exist.
    #[serde(borrow)]
    #[schema(value_type = Name)]
    queue: Raw<'a>,
    /// The partition, in which messages are in order; `Default` if it is not given.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Name>)]
    partition: Raw<'a>,
    /// Any JSON; it is delivered byte by byte as pushed. Null if it is not given.
    #[serde(borrow, default)]
    #[schema(required = false, value_type = Value)]
    payload: Raw<'a>,
    /// The producer's id: a second message with the same id in the same partition is a duplicate. A number counts as
    /// its text.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Name>)]
    transaction_id: Raw<'a>,
    /// An id for tracing; by default the trace of the header `traceparent`, as 32 hexadecimal digits.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Name>)]
    trace_id: Raw<'a>,
}

impl Item<'_> {
    /// The message. `element` is the path of this item, for errors.
    pub(super) fn message(&self, element: impl Display) -> Result<NewMessage, ApiError> {
        let queue = field::text(self.queue, format_args!("{element}queue"))?;
        let message = NewMessage {
            queue: queue.ok_or_else(|| missing(format_args!("{element}queue")))?,
            partition: field::text(self.partition, format_args!("{element}partition"))?,
            payload: self.payload.unwrap_or(RawValue::NULL).to_owned(),
            transaction_id: field::name(self.transaction_id, format_args!("{element}transactionId"))?,
            trace_id: field::name(self.trace_id, format_args!("{element}traceId"))?,
            // It is set from the authenticated client, never from the request.
            producer: None,
        };
        message.check().map_err(|error| at(element, error))?;
        Ok(message)
    }
}

/// The result of a pushed message.
#[derive(Serialize, ToSchema)]
#[schema(as = PushResult)]
pub(super) struct PushResult {
    /// Its index in the request.
    index: usize,
    transaction_id: String,
    /// `queued`, `duplicate`, `buffered` (until maintenance ends) or `failed`.
    status: &'static str,
    /// Its id; of a duplicate the id of the original; null if it failed.
    message_id: Option<String>,
    partition_id: String,
    trace_id: Option<String>,
    #[serde(rename = "queueName")]
    queue_name: String,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The part of a message that the response repeats.
pub(super) struct Label {
    queue: String,
    trace_id: Option<String>,
}

impl Label {
    pub(super) fn of(message: &NewMessage) -> Label {
        Label { queue: message.queue.clone(), trace_id: message.trace_id.clone() }
    }
}

impl PushResult {
    pub(super) fn new(index: usize, Label { queue, trace_id }: Label, pushed: Pushed) -> PushResult {
        let (status, error) = match pushed.status {
            PushStatus::Queued => ("queued", None),
            PushStatus::Duplicate => ("duplicate", None),
            PushStatus::Buffered => ("buffered", None),
            PushStatus::Failed(reason) => ("failed", Some(reason)),
        };
        PushResult {
            index,
            transaction_id: pushed.transaction_id,
            status,
            message_id: error.is_none().then(|| pushed.message_id.to_string()),
            partition_id: pushed.partition_id.to_string(),
            trace_id,
            queue_name: queue,
            error,
        }
    }
}

/// Pushes messages. The response has one result per message, in order.
#[utoipa::path(
    post, path = "/push", tag = "messages", request_body = Items<'_>,
    responses(
        (status = 201, description = "The result of each message", body = Vec<PushResult>),
        (status = 400, description = "A parameter is invalid; nothing was pushed", body = Failure),
        (status = 413, description = "The body is too large", body = Failure),
        (status = 415, description = "The body is not JSON", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
pub(super) async fn push(
    State(queues): State<Queues>,
    principal: Principal,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<(StatusCode, Json<Vec<PushResult>>), ApiError> {
    let mut messages = read(&body)?;
    messages.iter_mut().try_for_each(|message| scope::produce(&principal, message))?;
    if let Some(context) = TraceContext::of(&headers) {
        // The consumer continues the trace of the producer.
        for message in messages.iter_mut().filter(|message| message.trace_id.is_none()) {
            message.trace_id = Some(context.trace_id());
        }
    }
    let labels: Vec<Label> = messages.iter().map(Label::of).collect();
    let (pushed, _charge) = body.run_to_completion(async move { queues.push(messages).await }).await?;
    let pushed = pushed?;
    let results = labels
        .into_iter()
        .zip(pushed)
        .enumerate()
        .map(|(index, (label, pushed))| PushResult::new(index, label, pushed));
    Ok((StatusCode::CREATED, Json(results.collect())))
}

fn read(body: &Body) -> Result<Vec<NewMessage>, ApiError> {
    let Items { items } = body.json()?;
    let items = items.ok_or_else(|| missing("items"))?;
    items.0.iter().enumerate().map(|(index, item)| item.message(format_args!("items[{index}]."))).collect()
}
