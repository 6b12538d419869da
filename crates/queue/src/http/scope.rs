//! Checks the queue of requests that name a partition by its id.
//!
//! The middleware of all routes compares roles with names in paths and parameters. The queue of a partition is
//! found first; but only for a client whose role is limited to some queues. Partitions are kept in memory.

use std::sync::LazyLock;

use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use reveille_web::{ApiError, Need, Needs, Principal, Role, proceed};

use super::access;
use super::admin::partition;
use crate::consume::ack::Ack;
use crate::id::PartitionId;
use crate::message::NewMessage;
use crate::queues::Queues;

/// The needs of all routes.
static NEEDS: LazyLock<Needs> = LazyLock::new(|| Needs::new(access::NEEDS));

/// The path parameter that names a partition.
const PARTITION: &str = "partitionId";

/// Requires the role `producer` for the queue of a message, and records the producer.
pub(super) fn produce(principal: &Principal, message: &mut NewMessage) -> Result<(), ApiError> {
    principal.require_queue(Role::Producer, &message.queue)?;
    message.producer = principal.producer().map(str::to_owned);
    Ok(())
}

/// Requires the role `worker` for the queues of acks.
pub(super) async fn ack(
    queues: &Queues,
    principal: &Principal,
    acks: impl IntoIterator<Item = &Ack>,
) -> Result<(), ApiError> {
    let partitions = acks.into_iter().map(|ack| ack.partition_id);
    require_partitions(queues, principal, Role::Worker, partitions).await
}

/// Requires a role for the queues of partitions. Partitions that do not exist need the role for everything.
pub(super) async fn require_partitions(
    queues: &Queues,
    principal: &Principal,
    role: Role,
    partitions: impl IntoIterator<Item = PartitionId>,
) -> Result<(), ApiError> {
    if principal.may(role) {
        return Ok(());
    }
    let inner = &queues.inner;
    let mut numbers = Vec::new();
    for partition in partitions {
        numbers.push(inner.ids.number(partition).ok_or_else(|| missing(partition))?);
    }
    let found = inner.find_partitions(None, numbers.iter().copied()).await?;
    for number in numbers {
        let partition_ref = found.get(&number).ok_or_else(|| missing(inner.ids.partition(number)))?;
        principal.require_queue(role, &partition_ref.queue)?;
    }
    Ok(())
}

fn missing(partition: PartitionId) -> ApiError {
    ApiError::not_found(format!("there is no partition {partition}"))
}

/// Middleware: requires the role of a route for the queue of the partition in its path.
pub(super) async fn of_partition(State(queues): State<Queues>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let Some(path) = path.filter(|path| path.contains("{partitionId}")) else { return proceed(next, request).await };
    let need = NEEDS.of(request.method(), &path);
    let (mut parts, body) = request.into_parts();
    let checked = async {
        let Some(Need::Role(role, _)) = need else { return Ok(()) };
        let principal = Principal::from_request_parts(&mut parts, &()).await?;
        if principal.may(role) {
            return Ok(());
        }
        let parameters = RawPathParams::from_request_parts(&mut parts, &()).await;
        let parameters = parameters.map_err(|error| ApiError::bad_request(error.body_text()))?;
        let id = parameters.iter().find(|(name, _)| *name == PARTITION).map_or("", |(_, value)| value);
        require_partitions(&queues, &principal, role, [partition(id)?]).await
    };
    match checked.await {
        Ok(()) => proceed(next, Request::from_parts(parts, body)).await,
        Err(error) => error.into_response(),
    }
}
