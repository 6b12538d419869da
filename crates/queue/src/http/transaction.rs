//! `POST /transaction`.

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, List, Principal, RawBody};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::field::{self, Raw};
use super::schema::ELEMENTS_MAX;
use super::{ack, push, scope};
use crate::error::Error;
use crate::http::api_error::{invalid, missing};
use crate::queues::Queues;
use crate::transaction::{Done, Operation};

/// The operations of a transaction.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TransactionRequest)]
struct TransactionRequest<'a> {
    #[serde(borrow)]
    #[schema(required, value_type = Vec<Step<'_>>, min_items = 1, max_items = 10_000)]
    operations: Option<List<&'a RawValue, ELEMENTS_MAX>>,
    /// Leases that must not have expired; otherwise nothing is done. An ack without a lease uses the one on its
    /// partition.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Vec<String>>, max_items = 10_000)]
    required_leases: Option<List<&'a RawValue, ELEMENTS_MAX>>,
    /// Rejected: not supported by this server.
    #[serde(borrow, default)]
    #[schema(ignore)]
    kv: Raw<'a>,
    #[serde(borrow, default)]
    #[schema(ignore)]
    timers: Raw<'a>,
}

/// An operation: messages, as for a push, or an ack.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schema(as = TransactionOperation)]
#[expect(dead_code, reason = "read by `read_one`, described here")]
enum Step<'a> {
    Push(push::Items<'a>),
    Ack(ack::AckRequest<'a>),
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Raw<'a>,
}

#[derive(Deserialize)]
struct Items<'a> {
    #[serde(borrow)]
    items: Option<List<push::Item<'a>, ELEMENTS_MAX>>,
}

/// The result of a transaction.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TransactionResult)]
pub(super) struct TransactionResult {
    transaction_id: String,
    /// Whether it was committed. If not, nothing was changed.
    success: bool,
    /// Why it was rolled back.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The result of each message and ack, in order.
    results: Vec<Part>,
}

/// The result of a message or an ack.
#[derive(Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[schema(as = TransactionPart)]
enum Part {
    Push(push::PushResult),
    Ack(ack::AckResult),
}

/// The part of a message or ack that the response repeats.
enum Label {
    Push(push::Label),
    Ack(String),
}

/// Pushes and acks in one transaction: all are done, or none.
#[utoipa::path(
    post, path = "/transaction", tag = "messages", request_body = TransactionRequest<'_>,
    responses(
        (status = 200, description = "Whether it was committed", body = TransactionResult),
        (status = 400, description = "A parameter is invalid; nothing was changed", body = Failure),
        (status = 503, description = "The database is not available, and nothing was changed; retry", body = Failure),
    )
)]
pub(super) async fn transaction(
    State(queues): State<Queues>,
    principal: Principal,
    RawBody(body): RawBody,
) -> Result<Json<TransactionResult>, ApiError> {
    let (mut operations, leases) = read(&body)?;
    for operation in &mut operations {
        match operation {
            Operation::Push(messages) => messages.iter_mut().try_for_each(|it| scope::produce(&principal, it))?,
            Operation::Ack(ack) => scope::ack(&queues, &principal, [&*ack]).await?,
        }
    }
    let labels: Vec<Label> = operations.iter().flat_map(labels).collect();
    let transaction_id = Uuid::now_v7().to_string();
    match queues.transaction(operations, &leases).await {
        Ok(done) => {
            let each = labels.into_iter().zip(done).enumerate();
            let results = each.map(|(index, (label, done))| part(index, label, done)).collect();
            Ok(Json(TransactionResult { transaction_id, success: true, error: None, results }))
        }
        Err(Error::RolledBack { reason }) => {
            Ok(Json(TransactionResult { transaction_id, success: false, error: Some(reason), results: Vec::new() }))
        }
        Err(error) => Err(error.into()),
    }
}

fn read(body: &Body) -> Result<(Vec<Operation>, Vec<Uuid>), ApiError> {
    let TransactionRequest { operations, required_leases, kv, timers } = body.json()?;
    // They decide whether the transaction commits, so ignoring them would be wrong.
    for (name, value) in [("kv", kv), ("timers", timers)] {
        if value.is_some() {
            return Err(invalid(name, "not supported by this server"));
        }
    }
    let operations = operations.map(|operations| operations.0).filter(|operations| !operations.is_empty());
    let operations = operations.ok_or_else(|| invalid("operations", "must not be empty"))?;
    let mut elements = 0;
    let mut read_all = Vec::with_capacity(operations.len());
    for (index, operation) in operations.into_iter().enumerate() {
        let operation = read_one(index, operation)?;
        elements += match &operation {
            Operation::Push(messages) => messages.len(),
            Operation::Ack(_) => 1,
        };
        // Each operation is bounded; this bounds all of them together.
        if elements > ELEMENTS_MAX {
            return Err(invalid("operations", format_args!("must have at most {ELEMENTS_MAX} messages and acks")));
        }
        read_all.push(operation);
    }
    let mut leases: Vec<Uuid> = Vec::new();
    for (index, lease) in required_leases.map(|leases| leases.0).unwrap_or_default().into_iter().enumerate() {
        leases.extend(field::name(Some(lease), format_args!("requiredLeases[{index}]"))?.map(|text| ack::lease(&text)));
    }
    Ok((read_all, leases))
}

fn read_one(index: usize, operation: &RawValue) -> Result<Operation, ApiError> {
    let element = format!("operations[{index}]");
    let unreadable = |error| invalid(&element, error);
    let Kind { kind } = serde_json::from_str(operation.get()).map_err(unreadable)?;
    match field::text(kind, format_args!("{element}.type"))?.as_deref() {
        Some("push") => {
            let Items { items } = serde_json::from_str(operation.get()).map_err(unreadable)?;
            let items = items.ok_or_else(|| missing(format_args!("{element}.items")))?;
            let message = |(at, item): (usize, &push::Item<'_>)| item.message(format_args!("{element}.items[{at}]."));
            Ok(Operation::Push(items.0.iter().enumerate().map(message).collect::<Result<_, _>>()?))
        }
        Some("ack") => {
            let ack: ack::AckRequest<'_> = serde_json::from_str(operation.get()).map_err(unreadable)?;
            ack.ack(format_args!("{element}.")).map(Operation::Ack)
        }
        _ => Err(invalid(format_args!("{element}.type"), "must be `push` or `ack`")),
    }
}

fn labels(operation: &Operation) -> Vec<Label> {
    match operation {
        Operation::Push(messages) => messages.iter().map(|message| Label::Push(push::Label::of(message))).collect(),
        Operation::Ack(ack) => vec![Label::Ack(ack.transaction_id.clone())],
    }
}

fn part(index: usize, label: Label, done: Done) -> Part {
    match (label, done) {
        (Label::Push(label), Done::Pushed(pushed)) => Part::Push(push::PushResult::new(index, label, pushed)),
        (Label::Ack(transaction), Done::Acked(acked)) => Part::Ack(ack::AckResult::new(index, transaction, acked)),
        _ => unreachable!("answers come in the order of what they answer"),
    }
}
