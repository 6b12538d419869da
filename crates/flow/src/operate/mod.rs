//! Manual operations on steps and tasks: reset, resolve, complete, cancel, resume, delete; and limits.
//!
//! A worker may hold the step that an operator changes. Then the operation takes the step away from it: the worker's
//! report is rejected, and its next heartbeat tells it so. A failed task continues when none of its steps is failed any
//! more. Each operation is one transaction, decided under the task's lock. An operation that is not allowed returns the
//! current state and changes nothing.

mod bulk;
mod change;
mod fork;
pub(crate) mod limit;
mod resume;

use serde::{Deserialize, Serialize};
use sqlx::Row;
use uuid::Uuid;

pub use self::bulk::{BULK_MAX, BulkFailure, BulkFilter, BulkItem, BulkOperation, BulkReport, BulkRequest};
pub(crate) use self::change::Operations;
pub use self::fork::{FORK_STEPS_MAX, Fork, Forked};

use self::change::{Change, ChangeOutcome, Effect, StepChange, TaskChange};
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::json::Json;
use crate::query::task::part_name;
use crate::task::decision::decided;
use crate::task::state::{By, StepState, TaskState};
use crate::task::stored::{ENDED_TASKS, OPEN, STEPS};
use crate::template::cache::CachedTemplate;
use crate::template::{NAME_MAX, StepKind, Template};

/// The longest reason, in characters.
pub const REASON_MAX: usize = 2_000;

/// A manual operation on a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Resets a permanently failed step: its attempts are counted from zero, and its checkpoint is kept.
    ResetForRetry,
    /// Resolves the step without a worker: the steps after it continue. It has no result unless it had one before; a
    /// decision chooses no step, and a batchable step has no parts.
    ResolveManually,
    /// Completes the step with a result, as a worker would.
    CompleteManually {
        /// The result, validated by the template.
        result: Json,
    },
}

impl Operation {
    /// The name of the operation.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::ResetForRetry => "reset_for_retry",
            Operation::ResolveManually => "resolve_manually",
            Operation::CompleteManually { .. } => "complete_manually",
        }
    }

    /// The state after it.
    fn to(&self) -> StepState {
        match self {
            Operation::ResetForRetry => StepState::Pending,
            Operation::ResolveManually => StepState::ResolvedManually,
            Operation::CompleteManually { .. } => StepState::Complete,
        }
    }
}

/// The author of a manual operation, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// The operator's name, shown in the history.
    pub name: String,
    /// The reason, shown in the history.
    pub reason: Option<String>,
}

impl Operator {
    /// Checks the parameters.
    fn check(&self) -> Result<()> {
        if self.name.is_empty() {
            return Err(Error::invalid("name", "must not be empty: the history shows the operator"));
        }
        let reason = self.reason.as_ref().map(|reason| ("reason", reason, REASON_MAX));
        [("name", &self.name, NAME_MAX)]
            .into_iter()
            .chain(reason)
            .try_for_each(|(what, text, max)| check(what, text, max))
    }
}

/// Checks a text.
fn check(what: &'static str, text: &str, max: usize) -> Result<()> {
    let length = text.chars().count();
    if text.contains('\0') {
        return Err(Error::invalid(what, "must not contain NUL characters"));
    }
    if length > max {
        return Err(Error::invalid(what, format!("must have at most {max} characters, got {length}")));
    }
    Ok(())
}

/// The effect of a manual operation on a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Operated {
    /// The task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// The step.
    pub step_name: String,
    /// The state before.
    pub before: StepState,
    /// The state after.
    pub state: StepState,
    /// The state in which the task ended; `None`: it is open.
    pub task_state: Option<TaskState>,
}

/// A task that an operator ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Cancelled {
    /// The task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// The state after.
    pub state: TaskState,
    /// The number of cancelled steps.
    pub cancelled_steps: u64,
    /// Whether the task was in this state already.
    pub repeated: bool,
}

/// Why an operation is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// The state of the step.
    #[error("it is {0}")]
    Step(StepState),
    /// The state of its task.
    #[error("its task is {0}")]
    Task(TaskState),
    /// The state of the task, for an operation on a task.
    #[error("it is {0}")]
    Itself(TaskState),
    /// The batch continued without this failed part, and a step after it has started.
    #[error("its batch continued without it, and a step after it has started")]
    Begun,
    /// The step is a decision or batchable step. When it was resolved, the steps after it were decided.
    #[error("it is resolved_manually, which has decided the steps after it")]
    Decided,
    /// A step before it has not been completed.
    #[error("it depends on step {0:?}, which has not been completed")]
    Open(String),
    /// The task has more steps than the operation reads.
    #[error("the task has more than {0} steps")]
    Large(usize),
}

impl Flow {
    /// Applies an operation to a step, by its public name. The name of a part ends with its number, as in `rows_001`.
    ///
    /// # Errors
    /// [`Error::NoTask`], [`Error::NoStep`], [`Error::NotAllowed`] with the reason, or [`Error::Invalid`] for a result
    /// that the template does not allow: nothing was changed. Otherwise a database error.
    pub async fn operate(&self, task: Uuid, step: &str, operation: Operation, operator: Operator) -> Result<Operated> {
        operator.check()?;
        let rows =
            self.inner.db.ask("find a task", || sqlx::query(&self.inner.sql.template_of_task).bind(task)).await?;
        let template = rows.first().ok_or(Error::NoTask { task })?.try_get(0)?;
        let cached = self.inner.template_by_id(template).await?.ok_or(Error::NoTask { task })?;
        let position = position(&cached.template, step).ok_or_else(|| Error::NoStep { task, step: step.to_owned() })?;
        let change = StepChange::new(task, cached, position, &operation).await?;
        self.change(Change::Step(change), &operator, Effect::Apply).await.and_then(ChangeOutcome::operated)
    }

    /// Cancels a task and its open steps. Cancelling it again changes nothing and returns the same.
    ///
    /// # Errors
    /// [`Error::NoTask`]; [`Error::NotAllowed`] if it ended in another state; otherwise a database error.
    pub async fn cancel(&self, task: Uuid, operator: Operator) -> Result<Cancelled> {
        self.end(task, TaskState::Cancelled, operator).await
    }

    /// Resolves a task by other means, in any state, and cancels its open steps. Resolving it again changes nothing and
    /// returns the same.
    ///
    /// # Errors
    /// [`Error::NoTask`]; otherwise a database error.
    pub async fn resolve(&self, task: Uuid, operator: Operator) -> Result<Cancelled> {
        self.end(task, TaskState::ResolvedManually, operator).await
    }

    async fn end(&self, task: Uuid, to: TaskState, operator: Operator) -> Result<Cancelled> {
        operator.check()?;
        self.change(Change::Task(TaskChange { task, to }), &operator, Effect::Apply)
            .await
            .and_then(ChangeOutcome::cancelled)
    }
}

/// Looks up a step by its public name: the index of its definition, and the number of a part.
fn position(template: &Template, name: &str) -> Option<(usize, Option<i32>)> {
    if let Some(index) = template.index_of(name).filter(|index| template.steps[*index].kind != StepKind::BatchWorker) {
        return Some((index, None));
    }
    let (worker, number) = name.rsplit_once('_')?;
    let index = template.index_of(worker).filter(|index| template.steps[*index].kind == StepKind::BatchWorker)?;
    let part: i32 = number.parse().ok()?;
    (part_name(worker, Some(part)) == name).then_some((index, Some(part)))
}

/// The states from which only an operator may bring a step to this state.
fn steps_before(to: StepState) -> Vec<&'static str> {
    let may = |from: StepState| from.may_become(to, By::Operator) && !from.may_become(to, By::Engine);
    STEPS.iter().filter(|(_, from)| may(*from)).map(|(word, _)| *word).collect()
}

/// The same for a task. An open task is represented by a state that is not terminal.
fn tasks_before(to: TaskState) -> Vec<&'static str> {
    let open = [(OPEN, TaskState::StepsInProcess)];
    let all = open.iter().chain(ENDED_TASKS);
    all.filter(|(_, from)| from.may_become(to, By::Operator)).map(|(word, _)| *word).collect()
}

impl StepChange {
    /// An operation on a step, checked against the template.
    async fn new(
        task: Uuid,
        cached: std::sync::Arc<CachedTemplate>,
        at: (usize, Option<i32>),
        operation: &Operation,
    ) -> Result<StepChange> {
        let (index, part) = at;
        let (mut body, mut chosen, mut inputs) = (None, None, None);
        if let Operation::CompleteManually { result } = operation {
            cached.allows_result(index, result).await.map_err(|unfit| Error::schema("result", unfit))?;
            (chosen, inputs) = decided(&cached.template, &cached.template.steps[index], result)
                .map_err(|reason| Error::invalid("result", reason))?;
            body = Some(result.get().to_owned());
        }
        let step = part_name(&cached.template.steps[index].name, part);
        Ok(StepChange {
            task,
            cached,
            index,
            part,
            step,
            name: operation.name(),
            to: operation.to(),
            body,
            chosen,
            inputs,
        })
    }
}
