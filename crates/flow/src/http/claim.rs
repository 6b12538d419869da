//! `POST /workers/claim`: steps that are ready, or that become ready while the worker waits.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;
use utoipa::ToSchema;
use web::{Body, Failure, Id, Refusal};

use super::WAIT_MS_MAX;
use super::form::{Label, Token, whole};
use crate::claim::{ClaimRequest, ClaimedStep};
use crate::error::Error;
use crate::flow::Flow;

/// Milliseconds that a worker has a step that does not say.
pub(super) const LEASE_MS: u64 = 60_000;
/// Milliseconds that a worker waits that does not say.
const WAIT_MS: u64 = 30_000;

/// What a worker wants.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ClaimRequest)]
struct Wish {
    /// What the worker is called, in the history of what it does.
    #[schema(value_type = Label)]
    worker: String,
    /// In which namespaces it works.
    #[schema(value_type = Vec<Label>, min_items = 1, max_items = 1_000)]
    namespaces: Vec<String>,
    /// On the steps of these names; on all, if it is not given.
    #[schema(value_type = Option<Vec<Label>>, max_items = 1_000)]
    steps: Option<Vec<String>>,
    /// On the steps that one of these callables carries out, instead of `steps`.
    #[schema(value_type = Option<Vec<Label>>, min_items = 1, max_items = 1_000)]
    callables: Option<Vec<String>>,
    /// Steps at most; 1 if it is not given.
    #[schema(minimum = 1, maximum = 1_000)]
    #[serde(default, deserialize_with = "whole")]
    max_steps: Option<u64>,
    /// Milliseconds that it has them before it has to say that it is still alive; 60000 if it is not given.
    #[schema(minimum = 100, maximum = 86_400_000)]
    #[serde(default, deserialize_with = "whole")]
    lease_ms: Option<u64>,
    /// Milliseconds that it waits if there is none; 30000 if it is not given.
    #[schema(maximum = 600_000)]
    #[serde(default, deserialize_with = "whole")]
    wait_ms: Option<u64>,
}

/// Steps to work on.
#[derive(Serialize, ToSchema)]
#[schema(as = ClaimResult)]
struct Claimed<'a> {
    steps: Vec<Step<'a>>,
}

/// A step to work on, with all that its handler needs.
#[derive(Serialize, ToSchema)]
#[schema(as = ClaimedStep)]
struct Step<'a> {
    /// What to present when it has ended.
    #[schema(value_type = Token)]
    token: String,
    #[schema(value_type = Id)]
    task_uuid: String,
    namespace: &'a str,
    name: &'a str,
    /// What carries it out.
    callable: &'a str,
    /// What that is told beside its inputs.
    #[schema(value_type = Value)]
    initialization: &'a RawValue,
    /// Which attempt this is, from 1.
    attempt: u32,
    max_attempts: u32,
    /// For how long it is this worker's, unless it says that it is still alive.
    lease_ms: u64,
    /// How long this attempt may take.
    timeout_ms: Option<u64>,
    /// What the task works on.
    #[schema(value_type = Value)]
    context: &'a RawValue,
    /// What the task belongs to.
    correlation_id: Option<&'a str>,
    /// What this part of a batch is to work on.
    #[schema(value_type = Value)]
    input: Option<&'a RawValue>,
    /// How far an attempt before it has come.
    #[schema(value_type = Value)]
    checkpoint: Option<&'a RawValue>,
    /// The results of all steps before it, by their names.
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

/// Claims steps for a worker, and waits for the first.
#[utoipa::path(
    post, path = "/workers/claim", tag = "workers", request_body = Wish,
    responses(
        (status = 200, description = "Steps", body = Claimed<'_>),
        (status = 204, description = "There are none, or none came in time"),
        (status = 400, description = "Something cannot be meant; nothing was claimed", body = Failure),
        (status = 503, description = "Too many wait, or the database is away; try again", body = Failure),
    )
)]
pub(super) async fn claim(State(flow): State<Flow>, body: Body) -> Result<Response, Refusal> {
    let Wish { worker, namespaces, steps, callables, max_steps, lease_ms, wait_ms } = body.json()?;
    // While it waits, a claim holds only what was parsed.
    let _charge = body.parsed();
    let wait_ms = wait_ms.unwrap_or(WAIT_MS);
    if wait_ms > WAIT_MS_MAX {
        return Err(Refusal::bad(format!("wait_ms: it is {wait_ms}; it must be at most {WAIT_MS_MAX}")));
    }
    let lease = Duration::from_millis(lease_ms.unwrap_or(LEASE_MS));
    let claimant = ClaimRequest { name: worker, namespaces, steps, lease };
    let deadline = (wait_ms > 0).then(|| Instant::now() + Duration::from_millis(wait_ms));
    let want = max_steps.unwrap_or(1) as usize;
    let claimed = match callables {
        Some(callables) => flow.claim_callables(&claimant, &callables, want, deadline).await,
        None => flow.claim(&claimant, want, deadline).await,
    };
    match claimed {
        Ok(claimed) if !claimed.is_empty() => {
            Ok(Json(Claimed { steps: claimed.iter().map(Step::of).collect() }).into_response())
        }
        // Who waits while the server stops is answered, not cut off.
        Ok(_) | Err(Error::Wake(wake::Error::Closed { .. })) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(error) => Err(error.into()),
    }
}
