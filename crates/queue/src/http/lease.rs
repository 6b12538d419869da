//! `POST /lease/{leaseId}/extend`.
//!
//! The response is an object, not an array: the older client takes an array for a failure.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure, Path, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ack::lease;
use crate::consume::pop::LONGEST;
use crate::http::api_error::invalid;
use crate::queues::Queues;

/// The time to extend a lease to.
#[derive(Deserialize, ToSchema)]
#[schema(as = ExtendRequest)]
struct ExtendRequest {
    /// Seconds from now; the default is the lease time of the queue. A lease never becomes shorter.
    #[schema(exclusive_minimum = 0)]
    seconds: Option<f64>,
}

/// An extended lease. Its end is repeated under each name that a client reads.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExtendResult)]
pub(super) struct Extended {
    lease_id: String,
    /// Whether it was extended.
    success: bool,
    /// The number of its partitions.
    renewed: usize,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    #[schema(value_type = Option<String>, format = DateTime)]
    new_expires_at: Option<Timestamp>,
    #[serde(rename = "lease_expires_at")]
    #[schema(value_type = Option<String>, format = DateTime)]
    lease_expires_at: Option<Timestamp>,
    /// Why it was not extended.
    error: Option<&'static str>,
}

/// Extends a lease.
#[utoipa::path(
    post, path = "/lease/{leaseId}/extend", tag = "messages", request_body = Option<ExtendRequest>,
    params(("leaseId" = String, Path, description = "The lease, as it was popped")),
    responses(
        (status = 200, description = "When the lease expires, or that it is over", body = Extended),
        (status = 400, description = "A parameter is invalid", body = Failure),
        (status = 503, description = "The database is not available; retry", body = Failure),
    )
)]
pub(super) async fn extend(
    State(queues): State<Queues>,
    Path(lease_id): Path<String>,
    body: Body,
) -> Result<Json<Extended>, ApiError> {
    let by = match body.json::<ExtendRequest>()?.seconds {
        None => None,
        Some(seconds) if seconds > 0.0 => Some(Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST)),
        Some(seconds) => return Err(invalid("seconds", format_args!("must be greater than 0, got {seconds}"))),
    };
    let extended = queues.extend(lease(&lease_id), by).await?;
    let until = extended.map(|extended| Timestamp(extended.until));
    Ok(Json(Extended {
        lease_id,
        success: extended.is_some(),
        renewed: extended.map_or(0, |extended| extended.partitions),
        expires_at: until,
        new_expires_at: until,
        lease_expires_at: until,
        error: extended.is_none().then_some("the lease has expired or was released"),
    }))
}
