//! `POST /workers/heartbeat`, `…/complete`, `…/fail`, `…/checkpoint` and `…/release`: reports of workers on their
//! steps.
//!
//! Workers collect their reports, so every route takes a list and answers each item at its position: an invalid token,
//! a result that violates the template or a lost lease affects only its own item.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use reveille_web::{ApiError, Body, Failure as Failed, Principal, Role};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::batch_item::{failure, object, sent_token};
use super::claim::LEASE_MS;
use super::given;
use super::schema::{Token as TokenSchema, whole};
use super::scope;
use crate::claim::renew::Renewal;
use crate::claim::token::Token;
use crate::claim::{LEASE_MIN, check_lease};
use crate::complete::{AttemptResult, Failure, Refused, ReportAnswer, StepReport};
use crate::flow::Flow;
use crate::json;

/// Items in one request: as many as one claim returns.
const ITEMS_MAX: usize = crate::claim::WANT_MAX;

/// An item of a report: it carries a token.
trait Report: DeserializeOwned {
    fn token(&self) -> &str;
}

macro_rules! reports {
    ($($report:ident),*) => { $(impl Report for $report {
        fn token(&self) -> &str {
            &self.token
        }
    })* };
}
reports!(Heartbeat, Complete, Fail, Checkpoint, Release);

/// The list of a request. Each item is parsed on its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Steps {
    steps: Option<Vec<Box<RawValue>>>,
}

/// Steps whose leases are extended.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = HeartbeatRequest)]
#[expect(dead_code, reason = "each item is parsed on its own, described here")]
struct Heartbeats {
    #[schema(max_items = 1_000)]
    steps: Vec<Heartbeat>,
}

/// A step whose lease is extended.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Heartbeat {
    #[schema(value_type = TokenSchema)]
    token: String,
    /// The new lease in milliseconds from now; default 60000. A lease is never shortened.
    #[schema(minimum = 100, maximum = 86_400_000)]
    #[serde(default, deserialize_with = "whole")]
    lease_ms: Option<u64>,
    /// Progress to save: if the worker dies, the next attempt resumes from it.
    #[schema(required = false, value_type = serde_json::Value)]
    #[serde(default, deserialize_with = "given")]
    checkpoint: Option<json::Json>,
}

/// Steps to complete.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CompleteRequest)]
#[expect(dead_code, reason = "each item is parsed on its own, described here")]
struct Completes {
    #[schema(max_items = 1_000)]
    steps: Vec<Complete>,
}

/// A step to complete.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Complete {
    #[schema(value_type = TokenSchema)]
    token: String,
    /// Any JSON that the template's `result_schema` allows; default null. The result of a decision names the steps to
    /// create in `decision_point_outcome`; that of a batchable step lists the batches in `batch_processing_outcome`.
    #[schema(required = false, value_type = serde_json::Value)]
    #[serde(default)]
    result: json::Json,
}

/// Failed attempts.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FailRequest)]
#[expect(dead_code, reason = "each item is parsed on its own, described here")]
struct Fails {
    #[schema(max_items = 1_000)]
    steps: Vec<Fail>,
}

/// A failed attempt.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Fail {
    #[schema(value_type = TokenSchema)]
    token: String,
    #[serde(deserialize_with = "failure")]
    error: Failure,
}

/// Steps whose progress is saved.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CheckpointRequest)]
#[expect(dead_code, reason = "each item is parsed on its own, described here")]
struct Checkpoints {
    #[schema(max_items = 1_000)]
    steps: Vec<Checkpoint>,
}

/// A step whose progress is saved.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Checkpoint {
    #[schema(value_type = TokenSchema)]
    token: String,
    /// Any JSON.
    #[schema(value_type = serde_json::Value)]
    checkpoint: json::Json,
    /// Also releases the step: the next claim resumes from this checkpoint. The attempt is not counted.
    #[serde(default, rename = "yield")]
    #[schema(required = false)]
    yields: bool,
}

/// Steps to release.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReleaseRequest)]
#[expect(dead_code, reason = "each item is parsed on its own, described here")]
struct Releases {
    #[schema(max_items = 1_000)]
    steps: Vec<Release>,
}

/// A step to release.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Release {
    #[schema(value_type = TokenSchema)]
    token: String,
}

/// The outcome of each item, in the order of the request.
#[derive(Serialize, ToSchema)]
#[schema(as = StepReports)]
pub(super) struct ReportResponse {
    results: Vec<ReportOutcome>,
}

/// The outcome of one item.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = StepReport)]
struct ReportOutcome {
    /// The token as it was sent; null if there was none.
    token: Option<String>,
    /// Whether the report was applied.
    ok: bool,
    /// The state of the step now.
    #[serde(skip_serializing_if = "Option::is_none")]
    step_state: Option<&'static str>,
    /// The state in which the task ended; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    task_state: Option<&'static str>,
    /// Whether the same report had been applied before.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeated: Option<bool>,
    /// Why the report was rejected: `lost` if the lease was lost or the task has ended, `invalid` if the item is
    /// invalid and can be corrected and sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The reason as a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl ReportOutcome {
    fn rejected(token: Option<String>, reason: &'static str, error: impl Into<String>) -> ReportOutcome {
        ReportOutcome { token, reason: Some(reason), error: Some(error.into()), ..ReportOutcome::default() }
    }

    fn applied(token: String) -> ReportOutcome {
        ReportOutcome { token: Some(token), ok: true, ..ReportOutcome::default() }
    }

    fn of(token: Token, answer: ReportAnswer) -> ReportOutcome {
        let token = token.to_string();
        match answer {
            Ok(reported) => ReportOutcome {
                step_state: Some(reported.step.name()),
                task_state: reported.task.map(|task| task.name()),
                repeated: Some(reported.repeated),
                ..ReportOutcome::applied(token)
            },
            Err(refused) => ReportOutcome::refused(token, &refused),
        }
    }

    fn refused(token: String, refused: &Refused) -> ReportOutcome {
        let reason = match refused {
            Refused::Lost => "lost",
            Refused::Invalid { .. } => "invalid",
        };
        ReportOutcome::rejected(Some(token), reason, refused.to_string())
    }
}

/// The items of a request: outcomes of those that are invalid by position, and those to apply in order.
struct ParsedReports<T> {
    outcomes: Vec<Option<ReportOutcome>>,
    reports: Vec<(Token, T)>,
}

impl<T: Report> ParsedReports<T> {
    /// Parses each item on its own. The client has to be a worker of all namespaces.
    async fn parse(flow: &Flow, principal: &Principal, body: &Body) -> Result<ParsedReports<T>, ApiError> {
        let Steps { steps } = body.json()?;
        let steps = steps.ok_or_else(|| ApiError::bad_request("missing parameter `steps`"))?;
        if steps.len() > ITEMS_MAX {
            let message = format!("invalid parameter `steps`: at most {ITEMS_MAX} are allowed, got {}", steps.len());
            return Err(ApiError::bad_request(message));
        }
        let (mut outcomes, mut reports) = (Vec::new(), Vec::new());
        for step in steps {
            let sent = sent_token(&step);
            let into_charge = object(&step).and_then(|report: T| {
                let token: Result<Token, _> = report.token().parse();
                token.map(|token| (token, report)).map_err(|error| format!("token: {error}"))
            });
            match into_charge {
                Ok(report) => {
                    outcomes.push(None);
                    reports.push(report);
                }
                Err(error) => outcomes.push(Some(ReportOutcome::rejected(sent, "invalid", error))),
            }
        }
        let tasks = reports.iter().map(|(token, _)| token.task).collect();
        scope::require_tasks(flow, principal, Role::Worker, tasks).await?;
        Ok(ParsedReports { outcomes, reports })
    }
}

/// Puts the outcomes of the applied items into the gaps left by the invalid ones.
fn merged(outcomes: Vec<Option<ReportOutcome>>, applied: Vec<ReportOutcome>) -> Json<ReportResponse> {
    let mut applied = applied.into_iter();
    let results = outcomes.into_iter().filter_map(|outcome| outcome.or_else(|| applied.next())).collect();
    Json(ReportResponse { results })
}

/// Applies reports that end attempts.
async fn end_attempts<T: Report>(
    flow: &Flow,
    principal: &Principal,
    body: &Body,
    result_of: fn(T) -> AttemptResult,
) -> Result<Json<ReportResponse>, ApiError> {
    let ParsedReports { outcomes, reports } = ParsedReports::<T>::parse(flow, principal, body).await?;
    let tokens: Vec<Token> = reports.iter().map(|(token, _)| *token).collect();
    let ended = reports.into_iter().map(|(token, report)| StepReport { token, result: result_of(report) }).collect();
    let answers = flow.report(ended).await?;
    let applied = tokens.into_iter().zip(answers).map(|(token, answer)| ReportOutcome::of(token, answer)).collect();
    Ok(merged(outcomes, applied))
}

/// Extends leases. An item with an invalid lease is rejected at its position.
async fn extend_leases(flow: &Flow, alive: Vec<Renewal>) -> Result<Vec<ReportOutcome>, ApiError> {
    let checked: Vec<Result<(), String>> =
        alive.iter().map(|alive| check_lease(alive.lease).map_err(|error| error.to_string())).collect();
    let tokens: Vec<String> = alive.iter().map(|alive| alive.token.to_string()).collect();
    let good: Vec<Renewal> =
        alive.into_iter().zip(&checked).filter(|(_, checked)| checked.is_ok()).map(|(alive, _)| alive).collect();
    let mut answers = if good.is_empty() { Vec::new() } else { flow.heartbeat(good).await? }.into_iter();
    let outcomes = tokens.into_iter().zip(checked).map(|(token, checked)| match checked {
        Err(error) => ReportOutcome::rejected(Some(token), "invalid", error),
        Ok(()) => match answers.next() {
            Some(Ok(())) => ReportOutcome::applied(token),
            Some(Err(refused)) => ReportOutcome::refused(token, &refused),
            None => ReportOutcome::refused(token, &Refused::Lost),
        },
    });
    Ok(outcomes.collect())
}

/// Extends leases and saves checkpoints. A worker whose item is rejected has lost the step and should stop working on
/// it.
#[utoipa::path(
    post, path = "/workers/heartbeat", tag = "workers", request_body = Heartbeats,
    responses(
        (status = 200, description = "The outcome of each item", body = ReportResponse),
        (status = 400, description = "The list itself is invalid; nothing was done", body = Failed),
    )
)]
pub(super) async fn heartbeat(
    State(flow): State<Flow>,
    principal: Principal,
    body: Body,
) -> Result<Json<ReportResponse>, ApiError> {
    let ParsedReports { outcomes, reports } = ParsedReports::<Heartbeat>::parse(&flow, &principal, &body).await?;
    let alive = reports.into_iter().map(|(token, report)| Renewal {
        token,
        lease: Duration::from_millis(report.lease_ms.unwrap_or(LEASE_MS)),
        checkpoint: report.checkpoint.map(json::Json::into_raw),
    });
    Ok(merged(outcomes, extend_leases(&flow, alive.collect()).await?))
}

/// Completes steps.
#[utoipa::path(
    post, path = "/workers/complete", tag = "workers", request_body = Completes,
    responses(
        (status = 200, description = "The outcome of each item", body = ReportResponse),
        (status = 400, description = "The list itself is invalid; nothing was done", body = Failed),
    )
)]
pub(super) async fn complete(
    State(flow): State<Flow>,
    principal: Principal,
    body: Body,
) -> Result<Json<ReportResponse>, ApiError> {
    end_attempts::<Complete>(&flow, &principal, &body, |report| AttemptResult::Complete(report.result)).await
}

/// Reports failed attempts. A step with attempts left is retried after its backoff.
#[utoipa::path(
    post, path = "/workers/fail", tag = "workers", request_body = Fails,
    responses(
        (status = 200, description = "The outcome of each item", body = ReportResponse),
        (status = 400, description = "The list itself is invalid; nothing was done", body = Failed),
    )
)]
pub(super) async fn fail(
    State(flow): State<Flow>,
    principal: Principal,
    body: Body,
) -> Result<Json<ReportResponse>, ApiError> {
    end_attempts::<Fail>(&flow, &principal, &body, |report| AttemptResult::Failed(report.error)).await
}

/// Releases steps that were not started or have to start again. The attempt is not counted.
#[utoipa::path(
    post, path = "/workers/release", tag = "workers", request_body = Releases,
    responses(
        (status = 200, description = "The outcome of each item", body = ReportResponse),
        (status = 400, description = "The list itself is invalid; nothing was done", body = Failed),
    )
)]
pub(super) async fn release(
    State(flow): State<Flow>,
    principal: Principal,
    body: Body,
) -> Result<Json<ReportResponse>, ApiError> {
    end_attempts::<Release>(&flow, &principal, &body, |_| AttemptResult::GivenBack).await
}

/// Saves the progress of steps. Steps with `yield` are also released, and resume from the checkpoint.
#[utoipa::path(
    post, path = "/workers/checkpoint", tag = "workers", request_body = Checkpoints,
    responses(
        (status = 200, description = "The outcome of each item", body = ReportResponse),
        (status = 400, description = "The list itself is invalid; nothing was done", body = Failed),
    )
)]
pub(super) async fn checkpoint(
    State(flow): State<Flow>,
    principal: Principal,
    body: Body,
) -> Result<Json<ReportResponse>, ApiError> {
    let ParsedReports { mut outcomes, reports } = ParsedReports::<Checkpoint>::parse(&flow, &principal, &body).await?;
    let (mut alive, mut ended) = (Vec::new(), Vec::new());
    // The positions of the items that keep their step, and of those that yield it.
    let (mut stay, mut go) = (Vec::new(), Vec::new());
    let open: Vec<usize> = (0..outcomes.len()).filter(|position| outcomes[*position].is_none()).collect();
    for (position, (token, Checkpoint { checkpoint, yields, .. })) in open.into_iter().zip(reports) {
        let checkpoint = checkpoint.into_raw();
        if yields {
            ended.push(StepReport { token, result: AttemptResult::Yielded(checkpoint) });
            go.push((position, token));
        } else {
            // A lease is never shortened, so the shortest one keeps it as it is.
            alive.push(Renewal { token, lease: LEASE_MIN, checkpoint: Some(checkpoint) });
            stay.push(position);
        }
    }
    let (renewed, reported) = (extend_leases(&flow, alive).await?, flow.report(ended).await?);
    for (position, outcome) in stay.into_iter().zip(renewed) {
        outcomes[position] = Some(outcome);
    }
    for ((position, token), answer) in go.into_iter().zip(reported) {
        outcomes[position] = Some(ReportOutcome::of(token, answer));
    }
    Ok(Json(ReportResponse { results: outcomes.into_iter().flatten().collect() }))
}
