//! `POST /ack` and `POST /ack/batch`.

use std::fmt::Display;

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, Id, List, RawBody};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::field::{self, Raw};
use super::schema::{ELEMENTS_MAX, Name, Verdict};
use crate::consume::ack::{Ack, AckStatus, Acked};
use crate::http::api_error::{at, invalid, missing};
use crate::queues::Queues;

/// An ack of one message.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AckRequest)]
pub(super) struct Said<'a> {
    /// The message, as it was popped,
    #[serde(borrow, default)]
    #[schema(required, value_type = Name)]
    transaction_id: Raw<'a>,
    /// and its partition.
    #[serde(borrow, default)]
    #[schema(required, value_type = Id)]
    partition_id: Raw<'a>,
    /// `completed` (or `success`, or none), `failed`, `dlq`, or `retry`, which charges nothing.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Verdict>)]
    status: Raw<'a>,
    /// Under which lease it was popped. With it, an ack that comes too late is refused.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    lease_id: Raw<'a>,
    /// Whose ack it is, if no lease says so.
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
    /// Whose acks they are that name no group.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Name>)]
    consumer_group: Raw<'a>,
    #[serde(borrow)]
    #[schema(required, value_type = Vec<Said<'_>>, max_items = 10_000)]
    acknowledgments: Option<List<Said<'a>, ELEMENTS_MAX>>,
}

/// The answer to an ack.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AckResult)]
pub(super) struct Told {
    /// Its place in the request.
    index: usize,
    transaction_id: String,
    /// Whether it counts.
    success: bool,
    /// Why it does not.
    error: Option<String>,
    queue_name: Option<String>,
    partition_name: Option<String>,
    /// Whether the partition is free again.
    lease_released: bool,
    /// Whether the message went to the dead letters.
    dlq: bool,
}

impl Said<'_> {
    /// The ack it means. `place` names it in a refusal.
    pub(super) fn ack(&self, place: impl Display) -> Result<Ack, ApiError> {
        let transaction_id = field::name(self.transaction_id, format_args!("{place}transactionId"))?;
        let partition = field::name(self.partition_id, format_args!("{place}partitionId"))?;
        let missing = |what| missing(format_args!("{place}{what}"));
        let partition = partition.ok_or_else(|| missing("partitionId"))?;
        let unknown = |_| {
            invalid(
                format_args!("{place}partitionId"),
                format_args!("must be the id of a partition, got {partition:?}"),
            )
        };
        let ack = Ack {
            transaction_id: transaction_id.ok_or_else(|| missing("transactionId"))?,
            partition_id: partition.parse().map_err(unknown)?,
            status: self.status(&place)?,
            lease_id: field::name(self.lease_id, format_args!("{place}leaseId"))?.map(|text| lease(&text)),
            group: field::name(self.consumer_group, format_args!("{place}consumerGroup"))?,
            error: field::explanation(self.error, format_args!("{place}error"))?,
        };
        ack.check().map_err(|error| at(place, error))?;
        Ok(ack)
    }

    fn status(&self, place: impl Display) -> Result<AckStatus, ApiError> {
        let status = field::name(self.status, format_args!("{place}status"))?;
        match status.as_deref() {
            None | Some("completed" | "success" | "true") => Ok(AckStatus::Completed),
            Some("failed" | "false") => Ok(AckStatus::Failed),
            Some("dlq") => Ok(AckStatus::DeadLetter),
            Some("retry") => Ok(AckStatus::Retry),
            Some(other) => {
                let known = "must be `completed`, `success`, `failed`, `dlq` or `retry`";
                Err(invalid(format_args!("{place}status"), format_args!("{known}, got {other:?}")))
            }
        }
    }
}

/// The lease that a text names. One that cannot be a lease is one that never was: what it fences is refused.
pub(super) fn lease(text: &str) -> Uuid {
    text.parse().unwrap_or_else(|_| Uuid::nil())
}

impl Told {
    pub(super) fn new(index: usize, transaction_id: String, acked: Acked) -> Told {
        let Acked { outcome, dead_lettered, lease_released, queue, partition } = acked;
        Told {
            index,
            transaction_id,
            success: outcome.is_ok(),
            error: outcome.err().map(|refusal| refusal.to_string()),
            queue_name: queue,
            partition_name: partition,
            lease_released,
            dlq: dead_lettered,
        }
    }
}

/// Acks one message.
#[utoipa::path(
    post, path = "/ack", tag = "messages", request_body = Said<'_>,
    responses(
        (status = 200, description = "Whether it counts; an array of one", body = Vec<Told>),
        (status = 400, description = "Something cannot be meant; nothing was acked", body = Failure),
        (status = 503, description = "The database is away; try again", body = Failure),
    )
)]
pub(super) async fn ack(State(queues): State<Queues>, RawBody(body): RawBody) -> Result<Json<Vec<Told>>, ApiError> {
    let ack = body.json::<Said<'_>>()?.ack("")?;
    acked(&queues, vec![ack]).await
}

/// Acks messages. Each has an answer of its own, in order.
#[utoipa::path(
    post, path = "/ack/batch", tag = "messages", request_body = Batch<'_>,
    responses(
        (status = 200, description = "Whether each counts", body = Vec<Told>),
        (status = 400, description = "Something cannot be meant; nothing was acked", body = Failure),
        (status = 503, description = "The database is away; try again", body = Failure),
    )
)]
pub(super) async fn ack_batch(
    State(queues): State<Queues>,
    RawBody(body): RawBody,
) -> Result<Json<Vec<Told>>, ApiError> {
    let acks = read(&body)?;
    acked(&queues, acks).await
}

fn read(body: &Body) -> Result<Vec<Ack>, ApiError> {
    let Batch { consumer_group, acknowledgments } = body.json()?;
    let group = field::name(consumer_group, "consumerGroup")?;
    let said = acknowledgments.ok_or_else(|| missing("acknowledgments"))?;
    let ack = |(index, said): (usize, &Said<'_>)| {
        let ack = said.ack(format_args!("acknowledgments[{index}]."))?;
        Ok(Ack { group: ack.group.or_else(|| group.clone()), ..ack })
    };
    said.0.iter().enumerate().map(ack).collect()
}

async fn acked(queues: &Queues, acks: Vec<Ack>) -> Result<Json<Vec<Told>>, ApiError> {
    let transactions: Vec<String> = acks.iter().map(|ack| ack.transaction_id.clone()).collect();
    let acked = queues.ack(acks).await?;
    let told = transactions.into_iter().zip(acked).enumerate();
    Ok(Json(told.map(|(index, (transaction, acked))| Told::new(index, transaction, acked)).collect()))
}
