//! `POST /workers/claim`: ready steps, or the first that become ready while the request waits.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use reveille_web::{ApiError, Body, Failure, Id, Principal, Role, SPAN_TARGET, is_collected, trace_id_of};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::WAIT_MS_MAX;
use super::schema::{Label, Token, whole};
use crate::claim::{ClaimRequest, ClaimedStep};
use crate::error::Error;
use crate::flow::Flow;

/// The default lease in milliseconds.
pub(super) const LEASE_MS: u64 = 60_000;
/// The default wait in milliseconds.
const WAIT_MS: u64 = 30_000;

/// A claim.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ClaimRequest)]
struct Request {
    /// The worker's name, as the history shows it.
    #[schema(value_type = Label)]
    worker: String,
    /// The namespaces to claim from.
    #[schema(value_type = Vec<Label>, min_items = 1, max_items = 1_000)]
    namespaces: Vec<String>,
    /// Only steps with these names; default: all.
    #[schema(value_type = Option<Vec<Label>>, max_items = 1_000)]
    steps: Option<Vec<String>>,
    /// Only steps with one of these callables, instead of `steps`.
    #[schema(value_type = Option<Vec<Label>>, min_items = 1, max_items = 1_000)]
    callables: Option<Vec<String>>,
    /// The most steps to claim; default 1.
    #[schema(minimum = 1, maximum = 1_000)]
    #[serde(default, deserialize_with = "whole")]
    max_steps: Option<u64>,
    /// The lease in milliseconds: a heartbeat has to extend it before it ends. Default 60000.
    #[schema(minimum = 100, maximum = 86_400_000)]
    #[serde(default, deserialize_with = "whole")]
    lease_ms: Option<u64>,
    /// How long to wait in milliseconds if no step is ready; default 30000.
    #[schema(maximum = 600_000)]
    #[serde(default, deserialize_with = "whole")]
    wait_ms: Option<u64>,
}

/// Claimed steps.
#[derive(Serialize, ToSchema)]
#[schema(as = ClaimResult)]
struct Claimed<'a> {
    steps: Vec<Step<'a>>,
}

/// A claimed step with everything that its handler needs.
#[derive(Serialize, ToSchema)]
#[schema(as = ClaimedStep)]
struct Step<'a> {
    /// Identifies the claim in reports.
    #[schema(value_type = Token)]
    token: String,
    #[schema(value_type = Id)]
    task_uuid: String,
    namespace: &'a str,
    name: &'a str,
    /// The handler's name.
    callable: &'a str,
    /// The handler's settings from the template.
    #[schema(value_type = Value)]
    initialization: &'a RawValue,
    /// The number of this attempt, from 1.
    attempt: u32,
    max_attempts: u32,
    /// The lease in milliseconds: a heartbeat has to extend it before it ends.
    lease_ms: u64,
    /// The longest this attempt may take, heartbeats or not.
    timeout_ms: Option<u64>,
    /// The context of the task.
    #[schema(value_type = Value)]
    context: &'a RawValue,
    /// The correlation id of the task.
    correlation_id: Option<&'a str>,
    /// The input of this batch.
    #[schema(value_type = Value)]
    input: Option<&'a RawValue>,
    /// The checkpoint of an earlier attempt.
    #[schema(value_type = Value)]
    checkpoint: Option<&'a RawValue>,
    /// The results of all steps before it, by step name.
    #[schema(value_type = Value)]
    results: &'a RawValue,
}

impl<'a> Step<'a> {
    fn of(step: &'a ClaimedStep) -> Step<'a> {
        let ms = |duration: Duration| duration.as_millis() as u64;
        Step {
            token: step.token.to_string(),
            task_uuid: step.token.task.to_string(),
            namespace: &step.namespace,
            name: &step.name,
            callable: &step.callable,
            initialization: &step.initialization,
            attempt: step.attempt,
            max_attempts: step.max_attempts,
            lease_ms: ms(step.lease),
            timeout_ms: step.timeout.map(ms),
            context: &step.context,
            correlation_id: step.correlation_id.as_deref(),
            input: step.input.as_deref(),
            checkpoint: step.checkpoint.as_deref(),
            results: &step.results,
        }
    }
}

/// Reports a span for a step of a traced task, at its claim.
fn trace(step: &ClaimedStep) {
    let Some(trace) = step.correlation_id.as_deref().and_then(trace_id_of) else { return };
    let name = format!("claim {}", step.name);
    tracing::trace!(
        target: SPAN_TARGET, name, trace, reveille.namespace = step.namespace, reveille.step = step.name,
        reveille.task = %step.token.task, reveille.attempt = step.attempt,
    );
}

/// Claims ready steps, and waits for the first if there are none.
#[utoipa::path(
    post, path = "/workers/claim", tag = "workers", request_body = Request,
    responses(
        (status = 200, description = "Claimed steps", body = Claimed<'_>),
        (status = 204, description = "No step became ready in time"),
        (status = 400, description = "A parameter is invalid; nothing was claimed", body = Failure),
        (status = 503, description = "Too many requests are waiting, or the database is unavailable; retry", body = Failure),
    )
)]
pub(super) async fn claim(State(flow): State<Flow>, principal: Principal, body: Body) -> Result<Response, ApiError> {
    let Request { worker, namespaces, steps, callables, max_steps, lease_ms, wait_ms } = body.json()?;
    namespaces.iter().try_for_each(|namespace| principal.require_namespace(Role::Worker, namespace))?;
    // While it waits, a claim is charged only for what was parsed.
    let _charge = body.into_charge();
    let wait_ms = wait_ms.unwrap_or(WAIT_MS);
    if wait_ms > WAIT_MS_MAX {
        return Err(ApiError::bad_request(format!(
            "invalid parameter `wait_ms`: must be at most {WAIT_MS_MAX}, got {wait_ms}"
        )));
    }
    let lease = Duration::from_millis(lease_ms.unwrap_or(LEASE_MS));
    let request = ClaimRequest { name: worker, namespaces, steps, lease };
    let deadline = (wait_ms > 0).then(|| Instant::now() + Duration::from_millis(wait_ms));
    let want = max_steps.unwrap_or(1) as usize;
    let claimed = match callables {
        Some(callables) => flow.claim_callables(&request, &callables, want, deadline).await,
        None => flow.claim(&request, want, deadline).await,
    };
    match claimed {
        Ok(claimed) if !claimed.is_empty() => {
            if is_collected() {
                claimed.iter().for_each(trace);
            }
            Ok(Json(Claimed { steps: claimed.iter().map(Step::of).collect() }).into_response())
        }
        // A server that stops answers waiting claims instead of cutting them off.
        Ok(_) | Err(Error::Wake(reveille_wake::Error::Closed { .. })) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(error) => Err(error.into()),
    }
}
