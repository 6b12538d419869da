//! Ending attempts: a worker reports how an attempt ended, fenced by its claim, and the task continues.

use std::sync::Arc;

use futures_util::future::try_join_all;
use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, Channel, Consumer, WakeUp, WriteBatch};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::claim::Claims;
use crate::claim::in_write::{self, completion_readies};
use crate::claim::token::{NotAToken, Token};
use crate::error::{Error, Result};
use crate::events::{Cause, TaskEvents, count_reported};
use crate::flow::Flow;
use crate::json::Json;
use crate::name::{of_namespace, of_step};
use crate::query::audit::Outcome;
use crate::task::decision::{Chosen, Inputs, decided};
use crate::task::state::{StepState, TaskState};
use crate::task::stored::flat;
use crate::task::stored::{attempt_outcome, task_state};
use crate::template::cache::CachedTemplate;
use crate::template::schema::SchemaError;
use crate::template::{StepDefinition, StepKind};

/// The error of a last attempt whose lease ended without a report.
const LEASE_ENDED: &str = r#"{"message":"the lease ended without a report","type":"lease_ended","retryable":false}"#;

/// Reports how an attempt ended.
#[derive(Debug)]
pub struct StepReport {
    /// The claim.
    pub token: Token,
    /// How it ended.
    pub result: AttemptResult,
}

/// How an attempt ended.
#[derive(Debug)]
pub enum AttemptResult {
    /// The step is complete. The result of a decision or a batchable step must contain its outcome: see
    /// [`Decision`](crate::Decision).
    Complete(Json),
    /// The attempt failed.
    Failed(Failure),
    /// The step is not complete: the next claim resumes from this checkpoint. The attempt is not counted.
    Yielded(Box<RawValue>),
    /// The worker releases the step without a result, for example because it stops. The attempt is not counted.
    GivenBack,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "http", schema(as = StepFailure))]
pub struct Failure {
    /// What failed, in a sentence.
    pub message: String,
    /// The kind of failure.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Whether another attempt may succeed.
    #[serde(default = "yes")]
    pub retryable: bool,
    /// The HTTP status code, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i32>,
    /// Details for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "http", schema(value_type = Option<serde_json::Value>))]
    pub context: Option<Json>,
    /// The pause before the next attempt, instead of the template's backoff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_delay_ms: Option<u32>,
}

fn yes() -> bool {
    true
}

/// The effect of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportedStep {
    /// The state of the step.
    pub step: StepState,
    /// The state in which the task ended; `None`: it is open.
    pub task: Option<TaskState>,
    /// Whether the same report was applied before. It is applied once.
    pub repeated: bool,
}

/// Why a report is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The lease ended, or an operator or the end of the task took the step away. The result must not be used.
    #[error("the worker does not hold the step any more")]
    Lost,
    /// The template does not allow it. The worker still holds the step and must send another report.
    #[error("{what}: {reason}")]
    Invalid {
        /// The rejected part of the report.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl Flow {
    /// Ends attempts. One answer per report, in order: a rejected report does not affect the others.
    ///
    /// # Errors
    /// A database error. The reports may be sent again.
    pub async fn report(&self, ended: Vec<StepReport>) -> Result<Vec<std::result::Result<ReportedStep, Refused>>> {
        let mut writes = Vec::with_capacity(ended.len());
        for ended in &ended {
            writes.push(self.write(ended).await?);
        }
        try_join_all(writes.into_iter().map(|write| self.submitted(write))).await
    }

    /// Submits a write and returns its outcome. After an error the report may be sent again. The first poll adds the write
    /// to the next write batch, unless too many are waiting.
    pub(crate) async fn submitted(&self, write: std::result::Result<Write, Refused>) -> Result<ReportAnswer> {
        match write {
            Err(refused) => Ok(Err(refused)),
            Ok(write) => {
                let token = write.token;
                let outcome = self.inner.reports.submit(write).await?;
                self.inner.providers.ended(&[token]);
                if let Some(reported) = outcome.completed.as_ref().ok().filter(|reported| !reported.repeated) {
                    count_reported(reported.step.name(), reported.task.map(TaskState::name));
                }
                Ok(outcome.completed)
            }
        }
    }

    /// Ends last attempts whose leases have ended, unless another process has, or the worker has reported meanwhile.
    pub(crate) async fn end_leases(&self, tokens: Vec<Token>) -> Result<()> {
        let mut writes = Vec::with_capacity(tokens.len());
        for token in tokens {
            let Some(cached) = self.inner.template_by_id(token.template).await? else { continue };
            let body = Some(LEASE_ENDED.to_owned());
            let kind = Kind::LeaseEnded;
            writes.push(Write { token, cached, kind, body, delay_ms: None, chosen: None, inputs: None });
        }
        try_join_all(writes.into_iter().map(|write| self.inner.reports.submit(write))).await?;
        Ok(())
    }

    /// The write for a report, unless the report is rejected before it is sent.
    pub(crate) async fn write(
        &self,
        StepReport { token, result }: &StepReport,
    ) -> Result<std::result::Result<Write, Refused>> {
        self.inner.track_namespaces().await;
        let token = *token;
        let cached = self.inner.template_by_id(token.template).await?;
        let cached = cached.filter(|cached| (token.slot as usize) < cached.template.steps.len());
        let Some(cached) = cached else { return Ok(Err(Refused::invalid("token", NotAToken))) };
        if let AttemptResult::Complete(json) = result {
            match cached.allows_result(token.slot as usize, json).await {
                Ok(()) => {}
                Err(SchemaError::Invalid(reason)) => return Ok(Err(Refused::invalid("result", reason))),
                Err(SchemaError::Busy) => return Err(Error::Busy { what: "result" }),
            }
        }
        Ok(Write::new(token, cached, result))
    }
}

/// The answer to a report.
pub(crate) type ReportAnswer = std::result::Result<ReportedStep, Refused>;

impl Refused {
    fn invalid(what: &'static str, reason: impl ToString) -> Refused {
        Refused::Invalid { what, reason: reason.to_string() }
    }
}

impl Write {
    fn new(token: Token, cached: Arc<CachedTemplate>, result: &AttemptResult) -> std::result::Result<Write, Refused> {
        let step = &cached.template.steps[token.slot as usize];
        let (mut chosen, mut inputs, mut delay_ms) = (None, None, None);
        let (kind, body) = match result {
            AttemptResult::Complete(result) => {
                let invalid = |reason: String| Refused::invalid("result", reason);
                (chosen, inputs) = decided(&cached.template, step, result).map_err(invalid)?;
                (Kind::Complete, Some(result.get().to_owned()))
            }
            AttemptResult::Failed(failure) => {
                delay_ms = failure.retry_delay_ms.map(i64::from);
                let body = serde_json::to_string(failure).expect("a failure is JSON");
                (if failure.retryable { Kind::Failed } else { Kind::FailedForGood }, Some(body))
            }
            AttemptResult::Yielded(checkpoint) => (Kind::Yielded, Some(checkpoint.get().to_owned())),
            AttemptResult::GivenBack => (Kind::GivenBack, None),
        };
        Ok(Write { token, cached, kind, body, delay_ms, chosen, inputs })
    }
}

/// The kind of a report, as in `step_report.report`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Complete,
    Failed,
    FailedForGood,
    Yielded,
    GivenBack,
    /// Reported by the engine itself.
    LeaseEnded,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Complete => "complete",
            Kind::Failed => "failed",
            Kind::FailedForGood => "failed_for_good",
            Kind::Yielded => "yielded",
            Kind::GivenBack => "given_back",
            Kind::LeaseEnded => "lease_ended",
        }
    }

    /// The state of the step if this claim ended before with that outcome. `None`: another report did, so reject this.
    fn repeats(self, outcome: Outcome) -> Option<StepState> {
        match (self, outcome) {
            (Kind::Complete, Outcome::Complete) => Some(StepState::Complete),
            (Kind::Failed, Outcome::Failed) => Some(StepState::WaitingForRetry),
            // A retryable failure of the last attempt is permanent.
            (Kind::Failed | Kind::FailedForGood, Outcome::FailedForGood) => Some(StepState::Error),
            (Kind::Yielded, Outcome::Yielded) | (Kind::GivenBack, Outcome::GivenBack) => Some(StepState::Enqueued),
            _ => None,
        }
    }
}

pub(crate) struct Write {
    token: Token,
    cached: Arc<CachedTemplate>,
    kind: Kind,
    body: Option<String>,
    delay_ms: Option<i64>,
    chosen: Chosen,
    inputs: Inputs,
}

/// The outcome of a report.
pub(crate) struct ReportOutcome {
    /// The effect on the step and its task, if the claim held the step.
    completed: ReportAnswer,
    /// Whether steps became ready.
    readied: bool,
    /// Whether a client watches the task.
    watched: bool,
}

impl ReportOutcome {
    fn refused(refused: Refused) -> ReportOutcome {
        ReportOutcome { completed: Err(refused), readied: false, watched: false }
    }

    /// Whether this report ended the attempt, and not an earlier one.
    fn is_first(&self) -> bool {
        self.completed.as_ref().is_ok_and(|completed| !completed.repeated)
    }
}

/// Writes reports.
pub(crate) struct Reports {
    task_events: Arc<TaskEvents>,
    channel: Channel,
    watch: Channel,
    leases: Channel,
    claims: Consumer<Claims>,
    report: Sql,
    and_claim: Sql,
}

impl Reports {
    pub(crate) fn new(
        schema: &Schema,
        task_events: Arc<TaskEvents>,
        channel: Channel,
        watch: Channel,
        leases: Channel,
        claims: Consumer<Claims>,
    ) -> Reports {
        let report = schema.sql(reveille_pg::statement!("complete_steps"));
        let and_claim = schema.sql(reveille_pg::statement!("complete_and_claim_steps"));
        Reports { task_events, channel, watch, leases, claims, report, and_claim }
    }
}

impl BatchedWrite for Reports {
    type Write = Write;
    type Key = (Uuid, i32);
    type Outcome = ReportOutcome;
    const RECORDS_OUTCOMES: bool = true;

    fn key(&self, write: &Write) -> (Uuid, i32) {
        (write.token.task, write.token.ordinal)
    }

    fn bytes(&self, write: &Write) -> usize {
        let inputs = write.inputs.iter().flatten().map(String::len).sum::<usize>();
        100 + write.body.as_ref().map_or(0, String::len) + inputs
    }

    fn wake_ups(&self, write: &Write, outcome: Option<&ReportOutcome>) -> Vec<WakeUp> {
        let template = &write.cached.template;
        let step = &template.steps[write.token.slot as usize];
        let name = |step: &StepDefinition| of_step(&template.namespace, &step.name);
        // Clients of other processes are notified by the statement itself, which knows whether the task is watched.
        let readied = outcome.is_none_or(|outcome| outcome.readied);
        let watched = outcome.is_some_and(|outcome| outcome.watched);
        // `readied` does not count the steps that a decision or a batch creates.
        let creates = write.kind == Kind::Complete && matches!(step.kind, StepKind::Decision | StepKind::Batchable);
        let creates = creates && outcome.is_none_or(ReportOutcome::is_first);
        let failed = |outcome: &ReportOutcome| {
            outcome.completed.as_ref().is_ok_and(|completed| completed.step == StepState::Error)
        };
        let failed = outcome.is_none_or(failed);
        let mut wake_ups = Vec::new();
        if failed && write.kind != Kind::Complete {
            // The leases of the task's other steps are watched from now on.
            wake_ups.push(self.leases.wake_up());
        }
        if readied || creates {
            // A retry wakes workers of the same step. Otherwise children became ready, or steps after skipped ones.
            let children = || step.children.iter().map(|child| name(&template.steps[*child]));
            let mut keys: Vec<String> = match (write.kind, step.kind) {
                (Kind::Complete, StepKind::Decision | StepKind::Batchable) => template.steps.iter().map(name).collect(),
                (Kind::Complete, _) => children().collect(),
                // A failed part may be the last that its children waited for.
                (_, StepKind::BatchWorker) => children().chain([name(step)]).collect(),
                _ => vec![name(step)],
            };
            if !keys.is_empty() {
                keys.push(of_namespace(&template.namespace));
                wake_ups.push(self.channel.wake_up_keys(keys.iter().map(String::as_str)));
            }
        }
        if watched {
            wake_ups.push(self.watch.wake_up_keys([write.token.task.to_string().as_str()]));
        }
        wake_ups
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Write>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let writes = &batch.writes;
        // Most batches have neither.
        let chosen = writes.iter().any(|write| write.chosen.is_some());
        let chosen = chosen.then(|| flat(writes.iter().map(|write| write.chosen.as_deref().unwrap_or_default())));
        let inputs = writes.iter().any(|write| write.inputs.is_some());
        let inputs = inputs.then(|| flat(writes.iter().map(|write| write.inputs.as_deref().unwrap_or_default())));
        let ((chosen_lasts, chosen), (input_lasts, inputs)) = (chosen.unzip(), inputs.unzip());
        let readies = |write: &&Write| {
            write.kind != Kind::Complete || completion_readies(&write.cached.template, write.token.slot as usize)
        };
        let poll = writes.iter().any(readies).then(|| batch.attach(&self.claims)).flatten();
        let query = batch
            .query(if poll.is_some() { &self.and_claim } else { &self.report })
            .bind(writes.iter().map(|write| write.token.task).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.token.ordinal).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.token.fence).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.kind.word()).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.body.as_deref()).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.delay_ms).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.token.template).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.token.slot).collect::<Vec<_>>())
            .bind(chosen_lasts)
            .bind(chosen)
            .bind(input_lasts)
            .bind(inputs);
        in_write::send(self, conn, batch, query, poll).await
    }

    fn decode(&self, write: &Write, text: &str) -> Option<ReportOutcome> {
        let mut words = text.split(' ');
        let state = match words.next()? {
            "lost" => return Some(ReportOutcome::refused(Refused::Lost)),
            "other_step" => return Some(ReportOutcome::refused(Refused::invalid("token", NotAToken))),
            "repeated" => {
                let repeated = write.kind.repeats(attempt_outcome(words.next()?)?);
                let completed = repeated.map(|step| ReportedStep { step, task: None, repeated: true });
                let completed = completed.ok_or(Refused::Lost);
                return Some(ReportOutcome { completed, readied: false, watched: false });
            }
            "complete" => StepState::Complete,
            "retry" => StepState::WaitingForRetry,
            "failed" | "part_failed" => StepState::Error,
            "released" | "lease_ended" => StepState::Enqueued,
            _ => return None,
        };
        let task = task_state(words.next()?)?;
        let (mut readied, mut watched) = (false, false);
        for word in words {
            match word {
                "readied" => readied = true,
                "watched" => watched = true,
                _ => return None,
            }
        }
        // Waiting claims must find a step that is ready again, at once or after a pause.
        readied |= matches!(state, StepState::WaitingForRetry | StepState::Enqueued);
        Some(ReportOutcome { completed: Ok(ReportedStep { step: state, task, repeated: false }), readied, watched })
    }

    fn committed(&self, write: &Write, outcome: &ReportOutcome) {
        let Ok(ReportedStep { step, task, repeated: false }) = &outcome.completed else { return };
        // A step that waits for a retry is not ready yet. A decision or a batch may have made others ready.
        let readied = outcome.readied && *step != StepState::WaitingForRetry;
        let readied = readied || write.inputs.is_some() || write.chosen.is_some();
        let cause = match task {
            Some(_) => Cause::Ended,
            None if readied => Cause::Reported,
            None => return,
        };
        self.task_events.publish(Some(&write.cached.template.namespace), write.token.task, cause);
    }
}
