//! Ending attempts: what a worker says of a step, fenced by its claim, and how its task goes on.

use std::sync::Arc;

use futures_util::future::try_join_all;
use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, Channel, WakeUp, WriteBatch};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::catalog::CachedTemplate;
use crate::claim::token::{NotAToken, Token};
use crate::error::{Error, Result};
use crate::event_driven::{Cause, News, count_reported};
use crate::flat::flat;
use crate::flow::Flow;
use crate::json::Json;
use crate::name::{of_namespace, of_step};
use crate::query::audit::Outcome;
use crate::stored::{attempt_outcome, task_state};
use crate::task::decision::{Chosen, Inputs, decided};
use crate::task::state::{StepState, TaskState};
use crate::template::schema::SchemaError;
use crate::template::{StepDefinition, StepKind};

/// The error of a last attempt whose lease has ended.
const GONE: &str = r#"{"message":"the worker was not heard of any more","type":"lease_ended","retryable":false}"#;

/// The end of an attempt.
#[derive(Debug)]
pub struct StepReport {
    /// Of which claim.
    pub token: Token,
    /// How it ended.
    pub result: AttemptResult,
}

/// What a worker says of a step.
#[derive(Debug)]
pub enum AttemptResult {
    /// It is done. The result of a decision, or of a step that is divided, says how its task goes on: see [`Decision`](crate::Decision).
    Complete(Json),
    /// It failed.
    Failed(Failure),
    /// The step is not complete: the next claim resumes from this checkpoint. The attempt is not charged.
    Yielded(Box<RawValue>),
    /// It was not begun with, or is to be begun with again: a worker that stops gives its steps back. Not charged.
    GivenBack,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "http", schema(as = StepFailure))]
pub struct Failure {
    /// In a sentence.
    pub message: String,
    /// What kind of failure.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Whether another attempt may succeed.
    #[serde(default = "yes")]
    pub retryable: bool,
    /// As of HTTP, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i32>,
    /// Whatever helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "http", schema(value_type = Option<serde_json::Value>))]
    pub context: Option<Json>,
    /// The handler's own pause before the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_delay_ms: Option<u32>,
}

fn yes() -> bool {
    true
}

/// What became of a step and its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportedStep {
    /// Where the step is now.
    pub step: StepState,
    /// Where its task ended; `None` if it goes on.
    pub task: Option<TaskState>,
    /// The same had been said before; it counts once.
    pub repeated: bool,
}

/// Why what was said does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The lease ended and another worker has the step, or the task was cancelled. The effect must not be applied.
    #[error("the step is not this worker's any more")]
    Lost,
    /// It is not what the template allows. The step is still this worker's: say something else of it.
    #[error("{what}: {reason}")]
    Invalid {
        /// Which part of what was said.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl Flow {
    /// Ends attempts. Each has an honest answer of its own, in order: what is wrong with one is no matter of the others.
    ///
    /// # Errors
    /// The database's; what was said may be said again.
    pub async fn report(&self, ended: Vec<StepReport>) -> Result<Vec<std::result::Result<ReportedStep, Refused>>> {
        let mut writes = Vec::with_capacity(ended.len());
        for ended in &ended {
            writes.push(self.write(ended).await?);
        }
        try_join_all(writes.into_iter().map(|write| self.submitted(write))).await
    }

    /// Ends one attempt. Who keeps the word can say it again.
    pub(crate) async fn report_one(&self, ended: &StepReport) -> Result<ReportAnswer> {
        self.submitted(self.write(ended).await?).await
    }

    async fn submitted(&self, write: std::result::Result<Write, Refused>) -> Result<ReportAnswer> {
        match write {
            Err(refused) => Ok(Err(refused)),
            Ok(write) => {
                let token = write.token;
                let outcome = self.inner.reports.submit(write).await?;
                self.inner.providers.ended(&[token]);
                if let Some(settled) = outcome.completed.as_ref().ok().filter(|settled| !settled.repeated) {
                    count_reported(settled.step.name(), settled.task.map(TaskState::name));
                }
                Ok(outcome.completed)
            }
        }
    }

    /// Ends last attempts whose leases have ended. Another process may have done so, or the worker may be back.
    pub(crate) async fn end_leases(&self, tokens: Vec<Token>) -> Result<()> {
        let mut writes = Vec::with_capacity(tokens.len());
        for token in tokens {
            let Some(kept) = self.inner.numbered(token.template).await? else { continue };
            let body = Some(GONE.to_owned());
            writes.push(Write {
                token,
                kept,
                kind: Kind::LeaseEnded,
                body,
                delay_ms: None,
                chosen: None,
                inputs: None,
            });
        }
        try_join_all(writes.into_iter().map(|write| self.inner.reports.submit(write))).await?;
        Ok(())
    }

    /// What is sent of it, unless it is refused before that.
    async fn write(&self, StepReport { token, result }: &StepReport) -> Result<std::result::Result<Write, Refused>> {
        self.inner.follow_namespaces().await;
        let token = *token;
        let kept = self.inner.numbered(token.template).await?;
        let kept = kept.filter(|kept| (token.slot as usize) < kept.template.steps.len());
        let Some(kept) = kept else { return Ok(Err(Refused::invalid("token", NotAToken))) };
        if let AttemptResult::Complete(json) = result {
            match kept.allows_result(token.slot as usize, json).await {
                Ok(()) => {}
                Err(SchemaError::Invalid(reason)) => return Ok(Err(Refused::invalid("result", reason))),
                Err(SchemaError::Busy) => return Err(Error::Busy { what: "result" }),
            }
        }
        Ok(Write::new(token, kept, result))
    }
}

/// What became of what was said of a step.
pub(crate) type ReportAnswer = std::result::Result<ReportedStep, Refused>;

impl Refused {
    fn invalid(what: &'static str, reason: impl ToString) -> Refused {
        Refused::Invalid { what, reason: reason.to_string() }
    }
}

impl Write {
    fn new(token: Token, kept: Arc<CachedTemplate>, said: &AttemptResult) -> std::result::Result<Write, Refused> {
        let step = &kept.template.steps[token.slot as usize];
        let (mut chosen, mut inputs, mut delay_ms) = (None, None, None);
        let (kind, body) = match said {
            AttemptResult::Complete(result) => {
                let invalid = |reason: String| Refused::invalid("result", reason);
                (chosen, inputs) = decided(&kept.template, step, result).map_err(invalid)?;
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
        Ok(Write { token, kept, kind, body, delay_ms, chosen, inputs })
    }
}

/// What is reported about an attempt, as `step_report.report` has it.
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

    /// The step's state after an attempt of this claim ended before with that outcome. `None`: that was another report, so this one is refused.
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
    kept: Arc<CachedTemplate>,
    kind: Kind,
    body: Option<String>,
    delay_ms: Option<i64>,
    chosen: Chosen,
    inputs: Inputs,
}

/// What a report led to.
pub(crate) struct ReportOutcome {
    /// The step and its task, if the claim still held the step.
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

/// Sends ends of attempts.
pub(crate) struct Reports {
    news: Arc<News>,
    channel: Channel,
    watch: Channel,
    leases: Channel,
    report: Sql,
}

impl Reports {
    pub(crate) fn new(schema: &Schema, news: Arc<News>, channel: Channel, watch: Channel, leases: Channel) -> Reports {
        Reports { news, channel, watch, leases, report: schema.sql(reveille_pg::statement!("complete_steps")) }
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
        let template = &write.kept.template;
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
            // The engine watches the leases of the task's other steps now.
            wake_ups.push(self.leases.wake_up());
        }
        if readied || creates {
            // A step that is tried again wakes its own name. Steps that became ready are its children, or lie behind those that were skipped.
            let children = || step.children.iter().map(|child| name(&template.steps[*child]));
            let mut keys: Vec<String> = match (write.kind, step.kind) {
                (Kind::Complete, StepKind::Decision | StepKind::Batchable) => template.steps.iter().map(name).collect(),
                (Kind::Complete, _) => children().collect(),
                // A part that fails may be the last one that its children waited for.
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
        let query = batch
            .query(&self.report)
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
        batch.result(self, &query.fetch_one(conn).await?)
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
        // A step that is ready again, or will be after a pause, has to be found by waiting claims as well.
        readied |= matches!(state, StepState::WaitingForRetry | StepState::Enqueued);
        Some(ReportOutcome { completed: Ok(ReportedStep { step: state, task, repeated: false }), readied, watched })
    }

    fn committed(&self, write: &Write, outcome: &ReportOutcome) {
        let Ok(ReportedStep { step, task, repeated: false }) = &outcome.completed else { return };
        // A pause before another attempt makes nothing ready; a decision and a batch may.
        let readied = outcome.readied && *step != StepState::WaitingForRetry;
        let readied = readied || write.inputs.is_some() || write.chosen.is_some();
        let cause = match task {
            Some(_) => Cause::StepReport,
            None if readied => Cause::ReportedStep,
            None => return,
        };
        self.news.tell(Some(&write.kept.template.namespace), write.token.task, cause);
    }
}
