//! Ending attempts: what a worker says of a step, fenced by its claim, and how its task goes on.

use std::sync::Arc;

use futures_util::future::try_join_all;
use pg::{Schema, Sql};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;
use wake::{BatchResult, BatchedWrite, Channel, WakeUp, WriteBatch};

use crate::catalog::Kept;
use crate::error::{Error, Result};
use crate::event_driven::{Cause, News, count_settled};
use crate::flat::flat;
use crate::flow::Flow;
use crate::json::Json;
use crate::name::{of_namespace, of_step};
use crate::task::decision::{Chosen, Inputs, decided};
use crate::task::state::{StepState, TaskState};
use crate::template::schema::SchemaError;
use crate::template::{StepDefinition, StepKind};
use crate::token::{NotAToken, Token};

/// The error of a last attempt whose lease has ended.
const GONE: &str = r#"{"message":"the worker was not heard of any more","type":"lease_ended","retryable":false}"#;

/// The end of an attempt.
#[derive(Debug)]
pub struct Ended {
    /// Of which claim.
    pub token: Token,
    /// How it ended.
    pub said: Said,
}

/// What a worker says of a step.
#[derive(Debug)]
pub enum Said {
    /// It is done. The result of a decision, or of a step that is divided, says how its task goes on: see [`Decision`](crate::Decision).
    Complete(Json),
    /// It failed.
    Failed(Failure),
    /// It is not done, and goes on from this checkpoint when somebody claims it next. Not charged.
    Yielded(Box<RawValue>),
    /// It was not begun with, or is to be begun with again: a worker that stops gives its steps back. Not charged.
    GivenBack,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StepFailure)]
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
    #[schema(value_type = Option<serde_json::Value>)]
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
pub struct Settled {
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
    /// Its lease ended and somebody else has the step, or its task was cancelled. Its effect must not be applied.
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
    pub async fn settle(&self, ended: Vec<Ended>) -> Result<Vec<std::result::Result<Settled, Refused>>> {
        let mut writes = Vec::with_capacity(ended.len());
        for ended in &ended {
            writes.push(self.write(ended).await?);
        }
        try_join_all(writes.into_iter().map(|write| self.submitted(write))).await
    }

    /// Ends one attempt. Who keeps the word can say it again.
    pub(crate) async fn settle_one(&self, ended: &Ended) -> Result<Counted> {
        self.submitted(self.write(ended).await?).await
    }

    async fn submitted(&self, write: std::result::Result<Write, Refused>) -> Result<Counted> {
        match write {
            Err(refused) => Ok(Err(refused)),
            Ok(write) => {
                let token = write.token;
                let fate = self.inner.settles.submit(write).await?;
                self.inner.providers.ended(&[token]);
                if let Some(settled) = fate.0.as_ref().ok().filter(|settled| !settled.repeated) {
                    count_settled(settled.step.name(), settled.task.map(TaskState::name));
                }
                Ok(fate.0)
            }
        }
    }

    /// Ends last attempts whose leases have ended. Somebody else may have, or the worker has come back.
    pub(crate) async fn end_leases(&self, tokens: Vec<Token>) -> Result<()> {
        let mut writes = Vec::with_capacity(tokens.len());
        for token in tokens {
            let Some(kept) = self.inner.numbered(token.template).await? else { continue };
            let body = Some(GONE.to_owned());
            writes.push(Write { token, kept, verb: "l", body, delay_ms: None, chosen: None, inputs: None });
        }
        try_join_all(writes.into_iter().map(|write| self.inner.settles.submit(write))).await?;
        Ok(())
    }

    /// What is sent of it, unless it is refused before that.
    async fn write(&self, Ended { token, said }: &Ended) -> Result<std::result::Result<Write, Refused>> {
        self.inner.follow_namespaces().await;
        let token = *token;
        let kept = self.inner.numbered(token.template).await?;
        let kept = kept.filter(|kept| (token.slot as usize) < kept.template.steps.len());
        let Some(kept) = kept else { return Ok(Err(Refused::invalid("token", NotAToken))) };
        if let Said::Complete(result) = said {
            match kept.allows_result(token.slot as usize, result).await {
                Ok(()) => {}
                Err(SchemaError::Invalid(reason)) => return Ok(Err(Refused::invalid("result", reason))),
                Err(SchemaError::Busy) => return Err(Error::Busy { what: "result" }),
            }
        }
        Ok(Write::new(token, kept, said))
    }
}

/// What became of what was said of a step.
pub(crate) type Counted = std::result::Result<Settled, Refused>;

impl Refused {
    fn invalid(what: &'static str, reason: impl ToString) -> Refused {
        Refused::Invalid { what, reason: reason.to_string() }
    }
}

impl Write {
    fn new(token: Token, kept: Arc<Kept>, said: &Said) -> std::result::Result<Write, Refused> {
        let step = &kept.template.steps[token.slot as usize];
        let (mut chosen, mut inputs, mut delay_ms) = (None, None, None);
        let (verb, body) = match said {
            Said::Complete(result) => {
                let invalid = |reason: String| Refused::invalid("result", reason);
                (chosen, inputs) = decided(&kept.template, step, result).map_err(invalid)?;
                ("c", Some(result.get().to_owned()))
            }
            Said::Failed(failure) => {
                delay_ms = failure.retry_delay_ms.map(i64::from);
                let body = serde_json::to_string(failure).expect("a failure is JSON");
                (if failure.retryable { "f" } else { "F" }, Some(body))
            }
            Said::Yielded(checkpoint) => ("y", Some(checkpoint.get().to_owned())),
            Said::GivenBack => ("g", None),
        };
        Ok(Write { token, kept, verb, body, delay_ms, chosen, inputs })
    }

    /// Whether this report is one of those after which an attempt is stored with that outcome.
    fn may_have_ended(&self, outcome: char) -> bool {
        match self.verb {
            "c" => outcome == 'c',
            // The last attempt that may be tried again fails for good.
            "f" => matches!(outcome, 'f' | 'e'),
            "F" => outcome == 'e',
            "y" => outcome == 'y',
            "g" => outcome == 'g',
            _ => true,
        }
    }
}

pub(crate) struct Write {
    token: Token,
    kept: Arc<Kept>,
    verb: &'static str,
    body: Option<String>,
    delay_ms: Option<i64>,
    chosen: Chosen,
    inputs: Inputs,
}

/// What became of it, if it was still this worker's, and whether steps became ready and somebody watches.
pub(crate) struct Fate(std::result::Result<Settled, Refused>, bool, bool);

/// Sends ends of attempts.
pub(crate) struct Settles {
    news: Arc<News>,
    channel: Channel,
    watch: Channel,
    leases: Channel,
    settle: Sql,
}

impl Settles {
    pub(crate) fn new(schema: &Schema, news: Arc<News>, channel: Channel, watch: Channel, leases: Channel) -> Settles {
        Settles { news, channel, watch, leases, settle: schema.sql(pg::statement!("settle_steps")) }
    }
}

impl BatchedWrite for Settles {
    type Write = Write;
    type Key = (Uuid, i32);
    type Outcome = Fate;
    const RECORDS_OUTCOMES: bool = true;

    fn key(&self, write: &Write) -> (Uuid, i32) {
        (write.token.task, write.token.ordinal)
    }

    fn bytes(&self, write: &Write) -> usize {
        let inputs = write.inputs.iter().flatten().map(String::len).sum::<usize>();
        100 + write.body.as_ref().map_or(0, String::len) + inputs
    }

    fn wake_ups(&self, write: &Write, fate: Option<&Fate>) -> Vec<WakeUp> {
        let template = &write.kept.template;
        let step = &template.steps[write.token.slot as usize];
        let name = |step: &StepDefinition| of_step(&template.namespace, &step.name);
        // Whoever watches elsewhere is rung by the statement itself, which knows whether anybody does.
        let (next, watched) = fate.map_or((true, false), |Fate(_, readied, watched)| (*readied, *watched));
        // What these make ready is not among what counts as readied.
        let opens = write.verb == "c" && matches!(step.kind, StepKind::Decision | StepKind::Batchable);
        let opens =
            opens && fate.is_none_or(|Fate(settled, ..)| settled.as_ref().is_ok_and(|settled| !settled.repeated));
        let failed =
            fate.is_none_or(|Fate(settled, ..)| settled.as_ref().is_ok_and(|settled| settled.step == StepState::Error));
        let mut wake_ups = Vec::new();
        if failed && write.verb != "c" {
            // What is under way beside it is the engine's to watch now.
            wake_ups.push(self.leases.wake_up());
        }
        if next || opens {
            // What is tried again is found by who looks; what it made ready is behind it, or behind what was skipped.
            let children = || step.children.iter().map(|child| name(&template.steps[*child]));
            let mut keys: Vec<String> = match (write.verb, step.kind) {
                ("c", StepKind::Decision | StepKind::Batchable) => template.steps.iter().map(name).collect(),
                ("c", _) => children().collect(),
                // A part that fails may be the last that was waited for.
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
    ) -> pg::Result<BatchResult<Self::Outcome>> {
        let writes = &batch.writes;
        // Most flights have neither.
        let chosen = writes.iter().any(|write| write.chosen.is_some());
        let chosen = chosen.then(|| flat(writes.iter().map(|write| write.chosen.as_deref().unwrap_or_default())));
        let inputs = writes.iter().any(|write| write.inputs.is_some());
        let inputs = inputs.then(|| flat(writes.iter().map(|write| write.inputs.as_deref().unwrap_or_default())));
        let ((chosen_lasts, chosen), (input_lasts, inputs)) = (chosen.unzip(), inputs.unzip());
        let query = batch
            .query(&self.settle)
            .bind(writes.iter().map(|write| write.token.task).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.token.ordinal).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.token.fence).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.verb).collect::<Vec<_>>())
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

    fn decode(&self, write: &Write, text: &str) -> Option<Fate> {
        Some(self.outcome(write, text))
    }
}

impl Settles {
    fn outcome(&self, write: &Write, text: &str) -> Fate {
        let mut letters = text.chars();
        let first = letters.next();
        let repeated = first == Some('d');
        let verdict = if repeated { letters.next() } else { first };
        // The claim has ended before, with another report: this one does not count.
        if repeated && !verdict.is_some_and(|verdict| write.may_have_ended(verdict)) {
            return Fate(Err(Refused::Lost), false, false);
        }
        let step = match verdict {
            Some('c') => StepState::Complete,
            Some('w' | 'f') => StepState::WaitingForRetry,
            Some('e' | 'p') => StepState::Error,
            Some('r' | 'g' | 'y') => StepState::Enqueued,
            Some('l') if !repeated => StepState::Enqueued,
            // It was made for another template, or for another step of it.
            Some('x') if !repeated => return Fate(Err(Refused::invalid("token", NotAToken)), false, false),
            // Its lease had ended, or nothing is known of it.
            _ => return Fate(Err(Refused::Lost), false, false),
        };
        let task = letters.next().and_then(|state| match state {
            'c' => Some(TaskState::Complete),
            'e' => Some(TaskState::Error),
            'x' => Some(TaskState::Cancelled),
            'm' => Some(TaskState::ResolvedManually),
            _ => None,
        });
        // What is to be tried again, or given back, is to be found by who waits.
        let readied = text.contains('+') || matches!(step, StepState::WaitingForRetry | StepState::Enqueued);
        // A pause before another attempt makes nothing ready; a decision and a batch may.
        let opened = text.contains('+') || write.inputs.is_some() || write.chosen.is_some();
        match task {
            _ if repeated => {}
            Some(_) => self.news.tell(Some(&write.kept.template.namespace), write.token.task, Cause::Ended),
            None if opened || step == StepState::Enqueued => {
                self.news.tell(Some(&write.kept.template.namespace), write.token.task, Cause::Settled);
            }
            None => {}
        }
        Fate(Ok(Settled { step, task, repeated }), readied && !repeated, text.contains('!'))
    }
}
