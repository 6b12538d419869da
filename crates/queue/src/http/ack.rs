//! `POST /ack` and `POST /ack/batch`.

use std::fmt::Display;

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, Id, List, Principal, RawBody};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::field::{self, Raw};
use super::schema::{self, ELEMENTS_MAX, Name};
use super::scope;
use crate::consume::ack::{Ack, AckStatus, Acked};
use crate::http::api_error::{at, invalid, missing};
use crate::queues::Queues;

/// An ack of one message.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AckRequest)]
pub(super) struct AckRequest<'a> {
    /// The transaction id of the message.
    #[serde(borrow, default)]
    #[schema(required, value_type = Name)]
    transaction_id: Raw<'a>,
    /// The id of its partition.
    #[serde(borrow, default)]
    #[schema(required, value_type = Id)]
    partition_id: Raw<'a>,
    /// `completed` or `success` (the default), `failed`, `dlq`, or `retry`, which charges no retry.
    #[serde(borrow, default)]
    #[schema(value_type = Option<schema::AckStatus>)]
    status: Raw<'a>,
    /// The lease of the batch. With it, an ack after the end of the lease is rejected.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    lease_id: Raw<'a>,
    /// The consumer group, if no lease is given.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Name>)]
    consumer_group: Raw<'a>,
    /// Why it failed.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    error: Raw<'a>,
}

/// Acks of several messages.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AckBatchRequest)]
struct Batch<'a> {
    /// The consumer group of acks without one.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Name>)]
    consumer_group: Raw<'a>,
    #[serde(borrow)]
    #[schema(required, value_type = Vec<AckRequest<'_>>, max_items = 10_000)]
    acknowledgments: Option<List<AckRequest<'a>, ELEMENTS_MAX>>,
}

/// The answer to an ack.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AckResult)]
pub(super) struct AckResult {
    /// Its index in the request.
    index: usize,
    transaction_id: String,
    /// Whether the ack was accepted.
    success: bool,
    /// Why it was not accepted.
    error: Option<String>,
    queue_name: Option<String>,
    partition_name: Option<String>,
    /// Whether the partition is free again.
    lease_released: bool,
    /// Whether the message became a dead letter.
    dlq: bool,
}

impl AckRequest<'_> {
    /// The ack. `element` is the path of this item, for errors.
    pub(super) fn ack(&self, element: impl Display) -> Result<Ack, ApiError> {
        let transaction_id = field::name(self.transaction_id, format_args!("{element}transactionId"))?;
        let partition = field::name(self.partition_id, format_args!("{element}partitionId"))?;
        let missing = |what| missing(format_args!("{element}{what}"));
        let partition = partition.ok_or_else(|| missing("partitionId"))?;
        let unknown = |_| {
            invalid(
                format_args!("{element}partitionId"),
                format_args!("must be the id of a partition, got {partition:?}"),
            )
        };
        let ack = Ack {
            transaction_id: transaction_id.ok_or_else(|| missing("transactionId"))?,
            partition_id: partition.parse().map_err(unknown)?,
            status: self.status(&element)?,
            lease_id: field::name(self.lease_id, format_args!("{element}leaseId"))?.map(|text| lease(&text)),
            group: field::name(self.consumer_group, format_args!("{element}consumerGroup"))?,
            error: field::explanation(self.error, format_args!("{element}error"))?,
        };
        ack.check().map_err(|error| at(element, error))?;
        Ok(ack)
    }

    fn status(&self, element: impl Display) -> Result<AckStatus, ApiError> {
        let status = field::name(self.status, format_args!("{element}status"))?;
        match status.as_deref() {
            None | Some("completed" | "success" | "true") => Ok(AckStatus::Completed),
            Some("failed" | "false") => Ok(AckStatus::Failed),
            Some("dlq") => Ok(AckStatus::DeadLetter),
            Some("retry") => Ok(AckStatus::Retry),
            Some(other) => {
                let known = "must be `completed`, `success`, `failed`, `dlq` or `retry`";
                Err(invalid(format_args!("{element}status"), format_args!("{known}, got {other:?}")))
            }
        }
    }
}

/// The lease of a text. A text that is not a UUID is a lease that never existed, so its acks are rejected.
pub(super) fn lease(text: &str) -> Uuid {
    text.parse().unwrap_or_else(|_| Uuid::nil())
}

impl AckResult {
    pub(super) fn new(index: usize, transaction_id: String, acked: Acked) -> AckResult {
        let Acked { outcome, dead_lettered, lease_released, queue, partition } = acked;
        AckResult {
            index,
            transaction_id,
            success: outcome.is_ok(),
            error: outcome.err().map(|error| error.to_string()),
            queue_name: queue,
            partition_name: partition,
            lease_released,
            dlq: dead_lettered,
        }
    }
}

/// Acks one message.
#[utoipa::path(
    post, path = "/ack", tag = "messages", request_body = AckRequest<'_>,
    responses(
        (status = 200, description = "Whether it was accepted; an array of one", body = Vec<AckResult>),
        (status = 400, description = "A parameter is invalid; nothing was acked", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
pub(super) async fn ack(
    State(queues): State<Queues>,
    principal: Principal,
    RawBody(body): RawBody,
) -> Result<Json<Vec<AckResult>>, ApiError> {
    let ack = body.json::<AckRequest<'_>>()?.ack("")?;
    acked(&queues, &principal, vec![ack]).await
}

/// Acks messages. The response has one result per ack, in order.
#[utoipa::path(
    post, path = "/ack/batch", tag = "messages", request_body = Batch<'_>,
    responses(
        (status = 200, description = "Whether each was accepted", body = Vec<AckResult>),
        (status = 400, description = "A parameter is invalid; nothing was acked", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
pub(super) async fn ack_batch(
    State(queues): State<Queues>,
    principal: Principal,
    RawBody(body): RawBody,
) -> Result<Json<Vec<AckResult>>, ApiError> {
    let acks = read(&body)?;
    acked(&queues, &principal, acks).await
}

fn read(body: &Body) -> Result<Vec<Ack>, ApiError> {
    let Batch { consumer_group, acknowledgments } = body.json()?;
    let group = field::name(consumer_group, "consumerGroup")?;
    let items = acknowledgments.ok_or_else(|| missing("acknowledgments"))?;
    let ack = |(index, item): (usize, &AckRequest<'_>)| {
        let ack = item.ack(format_args!("acknowledgments[{index}]."))?;
        Ok(Ack { group: ack.group.or_else(|| group.clone()), ..ack })
    };
    items.0.iter().enumerate().map(ack).collect()
}

async fn acked(queues: &Queues, principal: &Principal, acks: Vec<Ack>) -> Result<Json<Vec<AckResult>>, ApiError> {
    scope::ack(queues, principal, &acks).await?;
    let transactions: Vec<String> = acks.iter().map(|ack| ack.transaction_id.clone()).collect();
    let acked = queues.ack(acks).await?;
    let results = transactions.into_iter().zip(acked).enumerate();
    Ok(Json(results.map(|(index, (transaction, acked))| AckResult::new(index, transaction, acked)).collect()))
}
