//! `POST /workers/heartbeat`, `…/complete`, `…/fail`, `…/checkpoint` and `…/release`: what workers say of the steps they have.
//!
//! Workers collect what they have to say. So every route takes a list, and answers for each element in its place: a token that is none, a result that the template does not allow or a
//! step that somebody else has by now is told where it stands, and the others count.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use web::{Body, Failure as Failed, Refusal};

use super::claim::LEASE_MS;
use super::element::{failure, object, presented};
use super::form::{Token as TokenForm, whole};
use super::given;
use crate::claim::renew::Renewal;
use crate::claim::token::Token;
use crate::claim::{LEASE_MIN, check_lease};
use crate::complete::{AttemptResult, Failure, Refused, ReportAnswer, StepReport};
use crate::exact;
use crate::flow::Flow;

/// Elements of one call: as many as one claim takes.
const ELEMENTS_MAX: usize = crate::claim::WANT_MAX;

/// What a worker says of a step beside its token.
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

/// A list of what is said.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Steps {
    steps: Option<Vec<Box<RawValue>>>,
}

/// Steps that a worker is still at.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = HeartbeatRequest)]
#[expect(dead_code, reason = "each element is read by itself, described here")]
struct Heartbeats {
    #[schema(max_items = 1_000)]
    steps: Vec<Heartbeat>,
}

/// A step that a worker is still at.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Heartbeat {
    #[schema(value_type = TokenForm)]
    token: String,
    /// Milliseconds from now; 60000 if it is not given. A lease never becomes shorter.
    #[schema(minimum = 100, maximum = 86_400_000)]
    #[serde(default, deserialize_with = "whole")]
    lease_ms: Option<u64>,
    /// How far it has come: whoever goes on, should the worker die, begins there.
    #[schema(required = false, value_type = serde_json::Value)]
    #[serde(default, deserialize_with = "given")]
    checkpoint: Option<exact::Json>,
}

/// Steps that are done.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CompleteRequest)]
#[expect(dead_code, reason = "each element is read by itself, described here")]
struct Completes {
    #[schema(max_items = 1_000)]
    steps: Vec<Complete>,
}

/// A step that is done.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Complete {
    #[schema(value_type = TokenForm)]
    token: String,
    /// Any JSON that the template allows; none is null. Of a decision it names the steps that come to be, in `decision_point_outcome`; of a step that is divided the parts, in
    /// `batch_processing_outcome`.
    #[schema(required = false, value_type = serde_json::Value)]
    #[serde(default)]
    result: exact::Json,
}

/// Steps that failed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FailRequest)]
#[expect(dead_code, reason = "each element is read by itself, described here")]
struct Fails {
    #[schema(max_items = 1_000)]
    steps: Vec<Fail>,
}

/// A step that failed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Fail {
    #[schema(value_type = TokenForm)]
    token: String,
    #[serde(deserialize_with = "failure")]
    error: Failure,
}

/// Steps whose progress is to be kept.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CheckpointRequest)]
#[expect(dead_code, reason = "each element is read by itself, described here")]
struct Checkpoints {
    #[schema(max_items = 1_000)]
    steps: Vec<Checkpoint>,
}

/// A step whose progress is to be kept.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Checkpoint {
    #[schema(value_type = TokenForm)]
    token: String,
    /// Any JSON.
    #[schema(value_type = serde_json::Value)]
    checkpoint: exact::Json,
    /// Whether the worker gives the step back, to whoever claims it next and goes on from here. That is not charged.
    #[serde(default, rename = "yield")]
    #[schema(required = false)]
    yields: bool,
}

/// Steps that are given back.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReleaseRequest)]
#[expect(dead_code, reason = "each element is read by itself, described here")]
struct Releases {
    #[schema(max_items = 1_000)]
    steps: Vec<Release>,
}

/// A step that is given back.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Release {
    #[schema(value_type = TokenForm)]
    token: String,
}

/// What became of what was said, in its order.
#[derive(Serialize, ToSchema)]
#[schema(as = StepReports)]
pub(super) struct Told {
    results: Vec<Outcome>,
}

/// What became of what was said of a step.
#[derive(Serialize, ToSchema)]
#[schema(as = StepReport)]
struct Outcome {
    /// As it was presented; null if there was none.
    token: Option<String>,
    /// Whether it counts.
    ok: bool,
    /// Where the step is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    step_state: Option<&'static str>,
    /// Where its task ended; not there if it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    task_state: Option<&'static str>,
    /// Whether the same had been said before.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeated: Option<bool>,
    /// Why it does not count: `lost` if somebody else has the step by now, or its task is over; `invalid` if it cannot be meant, and something else may be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The same in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Outcome {
    fn refused(token: Option<String>, reason: &'static str, error: impl Into<String>) -> Outcome {
        let error = Some(error.into());
        Outcome { token, ok: false, step_state: None, task_state: None, repeated: None, reason: Some(reason), error }
    }

    fn counts(token: String) -> Outcome {
        let token = Some(token);
        Outcome { token, ok: true, step_state: None, task_state: None, repeated: None, reason: None, error: None }
    }

    fn of(token: Token, answer: ReportAnswer) -> Outcome {
        let token = token.to_string();
        match answer {
            Ok(settled) => Outcome {
                step_state: Some(settled.step.name()),
                task_state: settled.task.map(|task| task.name()),
                repeated: Some(settled.repeated),
                ..Outcome::counts(token)
            },
            Err(refused) => Outcome::lost(token, &refused),
        }
    }

    fn lost(token: String, refused: &Refused) -> Outcome {
        let reason = match refused {
            Refused::Lost => "lost",
            Refused::Invalid { .. } => "invalid",
        };
        Outcome::refused(Some(token), reason, refused.to_string())
    }
}

/// What can be told at once, and where the answers to the rest belong.
struct Sorted<T> {
    told: Vec<Option<Outcome>>,
    said: Vec<(Token, T)>,
}

impl<T: Report> Sorted<T> {
    /// Reads each element by itself.
    fn read(body: &Body) -> Result<Sorted<T>, Refusal> {
        let Steps { steps } = body.json()?;
        let steps = steps.ok_or_else(|| Refusal::bad("steps: it is missing"))?;
        if steps.len() > ELEMENTS_MAX {
            return Err(Refusal::bad(format!("steps: there are {}; the limit is {ELEMENTS_MAX}", steps.len())));
        }
        let (mut told, mut said) = (Vec::new(), Vec::new());
        for step in steps {
            let presented = presented(&step);
            let read = object(&step).and_then(|said: T| {
                let token: Result<Token, _> = said.token().parse();
                token.map(|token| (token, said)).map_err(|error| format!("token: {error}"))
            });
            match read {
                Ok(one) => {
                    told.push(None);
                    said.push(one);
                }
                Err(error) => told.push(Some(Outcome::refused(presented, "invalid", error))),
            }
        }
        Ok(Sorted { told, said })
    }
}

/// Everything in its place.
fn merged(told: Vec<Option<Outcome>>, answers: Vec<Outcome>) -> Json<Told> {
    let mut answers = answers.into_iter();
    let results = told.into_iter().filter_map(|told| told.or_else(|| answers.next())).collect();
    Json(Told { results })
}

/// Ends attempts.
async fn settled<T: Report>(flow: &Flow, body: &Body, said: fn(T) -> AttemptResult) -> Result<Json<Told>, Refusal> {
    let Sorted { told, said: all } = Sorted::<T>::read(body)?;
    let tokens: Vec<Token> = all.iter().map(|(token, _)| *token).collect();
    let ended = all.into_iter().map(|(token, one)| StepReport { token, result: said(one) }).collect();
    let answers = flow.report(ended).await?;
    Ok(merged(told, tokens.into_iter().zip(answers).map(|(token, answer)| Outcome::of(token, answer)).collect()))
}

/// Makes leases last. What of that cannot be meant is told in its place.
async fn renewed(flow: &Flow, alive: Vec<Renewal>) -> Result<Vec<Outcome>, Refusal> {
    let checked: Vec<Result<(), String>> =
        alive.iter().map(|alive| check_lease(alive.lease).map_err(|error| error.to_string())).collect();
    let tokens: Vec<String> = alive.iter().map(|alive| alive.token.to_string()).collect();
    let good: Vec<Renewal> =
        alive.into_iter().zip(&checked).filter(|(_, checked)| checked.is_ok()).map(|(alive, _)| alive).collect();
    let mut answers = if good.is_empty() { Vec::new() } else { flow.heartbeat(good).await? }.into_iter();
    let told = tokens.into_iter().zip(checked).map(|(token, checked)| match checked {
        Err(error) => Outcome::refused(Some(token), "invalid", error),
        Ok(()) => match answers.next() {
            Some(Ok(())) => Outcome::counts(token),
            Some(Err(refused)) => Outcome::lost(token, &refused),
            None => Outcome::lost(token, &Refused::Lost),
        },
    });
    Ok(told.collect())
}

/// Says that workers are still at their steps, and how far they have come. Who is refused has lost the step, and should stop.
#[utoipa::path(
    post, path = "/workers/heartbeat", tag = "workers", request_body = Heartbeats,
    responses(
        (status = 200, description = "Whether each counts", body = Told),
        (status = 400, description = "The list itself cannot be meant; nothing was done", body = Failed),
    )
)]
pub(super) async fn heartbeat(State(flow): State<Flow>, body: Body) -> Result<Json<Told>, Refusal> {
    let Sorted { told, said } = Sorted::<Heartbeat>::read(&body)?;
    let alive = said.into_iter().map(|(token, said)| Renewal {
        token,
        lease: Duration::from_millis(said.lease_ms.unwrap_or(LEASE_MS)),
        checkpoint: said.checkpoint.map(exact::Json::into_raw),
    });
    Ok(merged(told, renewed(&flow, alive.collect()).await?))
}

/// Ends steps that are done.
#[utoipa::path(
    post, path = "/workers/complete", tag = "workers", request_body = Completes,
    responses(
        (status = 200, description = "Whether each counts", body = Told),
        (status = 400, description = "The list itself cannot be meant; nothing was done", body = Failed),
    )
)]
pub(super) async fn complete(State(flow): State<Flow>, body: Body) -> Result<Json<Told>, Refusal> {
    settled::<Complete>(&flow, &body, |said| AttemptResult::Complete(said.result)).await
}

/// Ends attempts that failed. Steps that may be tried again are, when their pause is over.
#[utoipa::path(
    post, path = "/workers/fail", tag = "workers", request_body = Fails,
    responses(
        (status = 200, description = "Whether each counts", body = Told),
        (status = 400, description = "The list itself cannot be meant; nothing was done", body = Failed),
    )
)]
pub(super) async fn fail(State(flow): State<Flow>, body: Body) -> Result<Json<Told>, Refusal> {
    settled::<Fail>(&flow, &body, |said| AttemptResult::Failed(said.error)).await
}

/// Gives steps back that were not begun with, or are to be begun with again. That is not charged.
#[utoipa::path(
    post, path = "/workers/release", tag = "workers", request_body = Releases,
    responses(
        (status = 200, description = "Whether each counts", body = Told),
        (status = 400, description = "The list itself cannot be meant; nothing was done", body = Failed),
    )
)]
pub(super) async fn release(State(flow): State<Flow>, body: Body) -> Result<Json<Told>, Refusal> {
    settled::<Release>(&flow, &body, |_| AttemptResult::GivenBack).await
}

/// Keeps how far steps have come; those that yield are given back, to go on from there.
#[utoipa::path(
    post, path = "/workers/checkpoint", tag = "workers", request_body = Checkpoints,
    responses(
        (status = 200, description = "Whether each counts", body = Told),
        (status = 400, description = "The list itself cannot be meant; nothing was done", body = Failed),
    )
)]
pub(super) async fn checkpoint(State(flow): State<Flow>, body: Body) -> Result<Json<Told>, Refusal> {
    let Sorted { mut told, said } = Sorted::<Checkpoint>::read(&body)?;
    let (mut alive, mut ended) = (Vec::new(), Vec::new());
    // Where the answers belong: those that stay, those that yield.
    let (mut stay, mut go) = (Vec::new(), Vec::new());
    let open: Vec<usize> = (0..told.len()).filter(|place| told[*place].is_none()).collect();
    for (place, (token, Checkpoint { checkpoint, yields, .. })) in open.into_iter().zip(said) {
        let checkpoint = checkpoint.into_raw();
        if yields {
            ended.push(StepReport { token, result: AttemptResult::Yielded(checkpoint) });
            go.push((place, token));
        } else {
            // No lease becomes shorter by this.
            alive.push(Renewal { token, lease: LEASE_MIN, checkpoint: Some(checkpoint) });
            stay.push(place);
        }
    }
    let (kept, left) = (renewed(&flow, alive).await?, flow.report(ended).await?);
    for (place, outcome) in stay.into_iter().zip(kept) {
        told[place] = Some(outcome);
    }
    for ((place, token), answer) in go.into_iter().zip(left) {
        told[place] = Some(Outcome::of(token, answer));
    }
    Ok(Json(Told { results: told.into_iter().flatten().collect() }))
}
