//! Writing manual operations: each in a transaction of its own, whose outcome is known even if the connection breaks.

use reveille_pg::audit::Entry;
use sqlx::{Connection as _, Row as _};
use std::sync::Arc;

use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, Channel, WakeUp, WriteBatch, WriterOptions};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Cancelled, Obstacle, Operated, Operator, steps_before, tasks_before};
use crate::error::{Error, Result};
use crate::events::{Cause, TaskEvents};
use crate::flow::Flow;
use crate::name::{of_namespace, of_step};
use crate::task::decision::{Chosen, Inputs};
use crate::task::state::{StepState, TaskState};
use crate::task::stored::{step_state, task_state};
use crate::template::cache::CachedTemplate;

/// The most concurrent operations: a small part of a pool, because bulk operations are not urgent.
pub(super) const CONCURRENCY: usize = 4;

/// A manual change of a step or a task.
#[derive(Clone)]
pub(crate) enum Change {
    Step(StepChange),
    Task(TaskChange),
}

/// A manual change of a step.
#[derive(Clone)]
pub(crate) struct StepChange {
    pub(super) task: Uuid,
    pub(super) cached: Arc<CachedTemplate>,
    pub(super) index: usize,
    pub(super) part: Option<i32>,
    /// The public name of the step.
    pub(super) step: String,
    /// The name of the operation.
    pub(super) name: &'static str,
    pub(super) to: StepState,
    pub(super) body: Option<String>,
    pub(super) chosen: Chosen,
    pub(super) inputs: Inputs,
}

/// A manual change of a task.
#[derive(Clone)]
pub(crate) struct TaskChange {
    pub(super) task: Uuid,
    pub(super) to: TaskState,
}

impl StepChange {
    fn outcome(&self) -> &'static str {
        match self.to {
            StepState::Complete => "completed_manually",
            StepState::ResolvedManually => "resolved_manually",
            _ => "reset",
        }
    }
}

impl Change {
    fn task(&self) -> Uuid {
        match self {
            Change::Step(change) => change.task,
            Change::Task(change) => change.task,
        }
    }

    /// Decodes an outcome of `functions/operate_step.sql` or `functions/end_task.sql`. `None`: it is unknown.
    fn decode(&self, text: &str) -> Option<ChangeOutcome> {
        let task = self.task();
        let mut words = text.split(' ');
        let outcome = match (words.next()?, self) {
            ("no_task", _) => ChangeOutcome::Refused(Error::NoTask { task }),
            ("no_step", Change::Step(change)) => {
                ChangeOutcome::Refused(Error::NoStep { task, step: change.step.clone() })
            }
            ("following_begun", _) => self.refused(Obstacle::Begun),
            ("already_decided", _) => self.refused(Obstacle::Decided),
            ("step", Change::Step(_)) => self.refused(Obstacle::Step(step_state(words.next()?)?)),
            ("task", Change::Step(_)) => self.refused(Obstacle::Task(task_state(words.next()?)??)),
            ("task", Change::Task(_)) => self.refused(Obstacle::Itself(task_state(words.next()?)??)),
            ("done", Change::Step(change)) => {
                let (before, state) = (step_state(words.next()?)?, step_state(words.next()?)?);
                let task_state = task_state(words.next()?)?;
                let step_name = change.step.clone();
                let operated = Operated { task_uuid: task, step_name, before, state, task_state };
                let (mut readied, mut any_ready) = (false, false);
                for word in words.by_ref() {
                    match word {
                        "readied" => readied = true,
                        "any_ready" => any_ready = true,
                        _ => return None,
                    }
                }
                ChangeOutcome::Operated { operated, readied, any_ready }
            }
            (ended @ ("ended" | "repeated"), Change::Task(change)) => {
                let cancelled_steps = words.next()?.parse().ok()?;
                let repeated = ended == "repeated";
                ChangeOutcome::Cancelled(Cancelled { task_uuid: task, state: change.to, cancelled_steps, repeated })
            }
            _ => return None,
        };
        words.next().is_none().then_some(outcome)
    }

    fn refused(&self, obstacle: Obstacle) -> ChangeOutcome {
        let task = self.task();
        let (step, operation) = match self {
            Change::Step(change) => (Some(change.step.clone()), change.name),
            Change::Task(TaskChange { to: TaskState::Cancelled, .. }) => (None, "cancel"),
            Change::Task(_) => (None, "resolve"),
        };
        ChangeOutcome::Refused(Error::NotAllowed { task, step, operation, obstacle })
    }
}

/// The outcome of a change.
pub(crate) enum ChangeOutcome {
    /// The step was changed. `readied`: children became ready. `any_ready`: any step of the task may have.
    Operated {
        operated: Operated,
        readied: bool,
        any_ready: bool,
    },
    Cancelled(Cancelled),
    Refused(Error),
}

impl Change {
    /// The row of the audit.
    fn entry(&self, effect: Effect) -> Option<Entry> {
        if effect == Effect::Preview {
            return None;
        }
        let (action, target) = match self {
            Change::Step(change) => (change.name, format!("{}/{}", change.task, change.step)),
            Change::Task(change) => (change.to.name(), change.task.to_string()),
        };
        let kind = if matches!(self, Change::Step(_)) { "step.operate" } else { "task.end" };
        Entry::new(kind, target).map(|entry| entry.detail(format!("{{\"operation\":\"{action}\"}}")))
    }
}

impl ChangeOutcome {
    fn has_changed(&self) -> bool {
        match self {
            ChangeOutcome::Operated { .. } => true,
            ChangeOutcome::Cancelled(cancelled) => !cancelled.repeated,
            ChangeOutcome::Refused(_) => false,
        }
    }

    pub(super) fn operated(self) -> Result<Operated> {
        match self {
            ChangeOutcome::Operated { operated, .. } => Ok(operated),
            ChangeOutcome::Refused(error) => Err(error),
            ChangeOutcome::Cancelled(_) => Err(sqlx::Error::RowNotFound.into()),
        }
    }

    pub(super) fn cancelled(self) -> Result<Cancelled> {
        match self {
            ChangeOutcome::Cancelled(cancelled) => Ok(cancelled),
            ChangeOutcome::Refused(error) => Err(error),
            ChangeOutcome::Operated { .. } => Err(sqlx::Error::RowNotFound.into()),
        }
    }
}

impl Flow {
    pub(super) async fn change(&self, change: Change, operator: &Operator, effect: Effect) -> Result<ChangeOutcome> {
        self.inner.track_namespaces().await;
        Ok(self
            .inner
            .operations
            .submit(Write { entry: change.entry(effect), change, operator: operator.clone(), effect })
            .await?)
    }
}

/// Whether a change is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Apply,
    /// The outcome is computed, and nothing is changed.
    Preview,
}

/// A change with its author.
pub(crate) struct Write {
    change: Change,
    operator: Operator,
    effect: Effect,
    /// The row of the audit.
    entry: Option<Entry>,
}

/// Writes manual operations.
pub(crate) struct Operations {
    task_events: Arc<TaskEvents>,
    channel: Channel,
    watch: Channel,
    overdue: Channel,
    operate: Sql,
    end: Sql,
}

impl Operations {
    pub(crate) fn new(
        schema: &Schema,
        task_events: Arc<TaskEvents>,
        channel: Channel,
        watch: Channel,
        overdue: Channel,
    ) -> Operations {
        Operations {
            task_events,
            channel,
            watch,
            overdue,
            operate: schema.sql(reveille_pg::statement!("operate_step")),
            end: schema.sql(reveille_pg::statement!("end_task")),
        }
    }

    /// The options of the writer: one operation per transaction.
    pub(crate) fn alone(options: WriterOptions) -> WriterOptions {
        WriterOptions { max_writes: 1, concurrency: CONCURRENCY, ..options }
    }

    /// The wake-up for the time limits of the task, if it may continue.
    fn limit(&self, change: &StepChange, outcome: Option<&ChangeOutcome>) -> Option<WakeUp> {
        if matches!(outcome, Some(ChangeOutcome::Operated { any_ready: false, .. })) {
            return None;
        }
        change.cached.template.lifecycle.first_limit().map(|limit| self.overdue.wake_up().after(limit))
    }

    /// The wake-up for steps that may have become ready.
    fn ready(&self, change: &StepChange, outcome: Option<&ChangeOutcome>) -> Option<WakeUp> {
        let template = &change.cached.template;
        let name = |index: &usize| of_step(&template.namespace, &template.steps[*index].name);
        let mut keys: Vec<String> = match outcome {
            Some(ChangeOutcome::Operated { any_ready: false, readied: true, .. }) => {
                template.steps[change.index].children.iter().map(name).collect()
            }
            Some(ChangeOutcome::Operated { any_ready: false, .. }) => return None,
            _ => (0..template.steps.len()).map(|index| name(&index)).collect(),
        };
        keys.push(of_namespace(&template.namespace));
        Some(self.channel.wake_up_keys(keys.iter().map(String::as_str)))
    }
}

impl BatchedWrite for Operations {
    type Write = Write;
    type Key = Uuid;
    type Outcome = ChangeOutcome;
    const RECORDS_OUTCOMES: bool = true;

    fn key(&self, write: &Write) -> Uuid {
        write.change.task()
    }

    fn bytes(&self, write: &Write) -> usize {
        let Change::Step(change) = &write.change else { return 100 };
        let inputs = change.inputs.iter().flatten().map(String::len).sum::<usize>();
        100 + change.body.as_ref().map_or(0, String::len) + inputs
    }

    fn wake_ups(&self, write: &Write, outcome: Option<&ChangeOutcome>) -> Vec<WakeUp> {
        if write.effect == Effect::Preview || matches!(outcome, Some(ChangeOutcome::Refused(_))) {
            return Vec::new();
        }
        let watch = self.watch.wake_up_keys([write.change.task().to_string().as_str()]);
        let (ready, limit) = match &write.change {
            Change::Step(change) => (self.ready(change, outcome), self.limit(change, outcome)),
            Change::Task(_) => (None, None),
        };
        [watch].into_iter().chain(ready).chain(limit).collect()
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Write>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let [write] = batch.writes[..] else {
            return Err(sqlx::Error::RowNotFound.into());
        };
        let Write { change, operator, effect, entry } = write;
        let query = match change {
            Change::Step(change) => batch
                .query(&self.operate)
                .bind(change.task)
                .bind(change.index as i32)
                .bind(change.part)
                .bind(change.outcome())
                .bind(steps_before(change.to))
                .bind(&operator.name)
                .bind(&operator.reason)
                .bind(&change.body)
                .bind(&change.chosen)
                .bind(&change.inputs)
                .bind(change.cached.template.lifecycle.limit_ms()),
            Change::Task(change) => batch
                .query(&self.end)
                .bind(change.task)
                .bind(change.to.name())
                .bind(tasks_before(change.to))
                .bind(&operator.name)
                .bind(&operator.reason),
        };
        let query = query.bind(*effect == Effect::Preview);
        let Some(entry) = entry else { return batch.result(self, &query.fetch_one(conn).await?) };
        let mut transaction = conn.begin().await?;
        let row = query.fetch_one(&mut *transaction).await?;
        let texts: Vec<Option<String>> = row.try_get(0)?;
        let outcome = texts.first().and_then(Option::as_ref).and_then(|text| self.decode(write, text));
        if outcome.is_some_and(|outcome| outcome.has_changed()) {
            entry.write(&mut transaction).await?;
        }
        transaction.commit().await?;
        batch.result(self, &row)
    }

    fn decode(&self, write: &Write, text: &str) -> Option<ChangeOutcome> {
        write.change.decode(text)
    }

    fn committed(&self, write: &Write, outcome: &ChangeOutcome) {
        if write.effect == Effect::Apply {
            match (&write.change, outcome) {
                (Change::Step(change), ChangeOutcome::Operated { .. }) => {
                    self.task_events.publish(Some(&change.cached.template.namespace), change.task, Cause::Operated);
                }
                (Change::Task(change), ChangeOutcome::Cancelled(_)) => {
                    self.task_events.publish(None, change.task, Cause::Ended)
                }
                _ => {}
            }
        }
    }
}
