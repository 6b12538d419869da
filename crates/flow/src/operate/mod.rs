//! What people do with steps and tasks: another chance, a result by hand, an end.
//!
//! The danger is a worker that does not know of it. Whatever a person does with a step that a worker has takes it away: the worker's word does not count any more, and its next heartbeat says
//! so. A task that had failed goes on when nothing is left that failed. Each operation is one transaction, decided under the task's lock; what cannot be done is refused with where the step
//! or task is, and changes nothing.

mod act;
mod bulk;
mod resume;

use serde::{Deserialize, Serialize};
use sqlx::Row;
use uuid::Uuid;

pub(crate) use self::act::Operations;
pub use self::bulk::{BULK_MAX, BulkFilter, BulkItem, BulkOperation, BulkRefusal, BulkReport, BulkRequest};

use self::act::{Act, Answer, Manner, StepAct, TaskAct};
use crate::catalog::CachedTemplate;
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::json::Json;
use crate::stored::{ENDED_TASKS, OPEN, STEPS};
use crate::task::decision::decided;
use crate::task::state::{By, StepState, TaskState};
use crate::template::{NAME_MAX, StepKind, Template};

/// The longest reason, in characters.
pub const REASON_MAX: usize = 2_000;

/// What a person does with a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Gives a step that failed for good another chance: its attempts begin anew, its checkpoint is kept.
    ResetForRetry,
    /// Says that the step was dealt with by other means: what follows goes on. It has no result, unless there was one; a decision chooses nothing then, and there are no parts.
    ResolveManually,
    /// Completes the step with a result, as a worker would.
    CompleteManually {
        /// As the template allows it.
        result: Json,
    },
}

impl Operation {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::ResetForRetry => "reset_for_retry",
            Operation::ResolveManually => "resolve_manually",
            Operation::CompleteManually { .. } => "complete_manually",
        }
    }

    /// Where it leads.
    fn to(&self) -> StepState {
        match self {
            Operation::ResetForRetry => StepState::Pending,
            Operation::ResolveManually => StepState::ResolvedManually,
            Operation::CompleteManually { .. } => StepState::Complete,
        }
    }
}

/// Who does something, and why.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Who {
    /// What the history calls them.
    pub name: String,
    /// For whoever reads it later.
    pub reason: Option<String>,
}

impl Who {
    /// Refuses what cannot be stored.
    fn check(&self) -> Result<()> {
        if self.name.is_empty() {
            return Err(Error::invalid("name", "it is empty; the history has to say who it was"));
        }
        let reason = self.reason.as_ref().map(|reason| ("reason", reason, REASON_MAX));
        [("name", &self.name, NAME_MAX)]
            .into_iter()
            .chain(reason)
            .try_for_each(|(what, text, max)| check(what, text, max))
    }
}

/// Refuses a text that cannot be stored.
fn check(what: &'static str, text: &str, max: usize) -> Result<()> {
    let length = text.chars().count();
    if text.contains('\0') {
        return Err(Error::invalid(what, "it contains a NUL character, which PostgreSQL cannot store"));
    }
    if length > max {
        return Err(Error::invalid(what, format!("it has {length} characters; the limit is {max}")));
    }
    Ok(())
}

/// What became of a step that somebody did something with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Operated {
    /// The task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// The step.
    pub step_name: String,
    /// Where it was.
    pub before: StepState,
    /// Where it is now.
    pub state: StepState,
    /// Where its task ended; `None` if it goes on.
    pub task_state: Option<TaskState>,
}

/// A task that somebody ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Cancelled {
    /// The task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// Where it is now.
    pub state: TaskState,
    /// How many of its steps are cancelled.
    pub cancelled_steps: u64,
    /// Somebody had done so before; it counts once.
    pub repeated: bool,
}

/// What stands in the way of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// Where the step is.
    #[error("it is {0}")]
    Step(StepState),
    /// Where its task is.
    #[error("its task is {0}")]
    Task(TaskState),
    /// Where the task itself is.
    #[error("it is {0}")]
    Itself(TaskState),
    /// The step is a part of a batch that goes on without those that fail, and what follows has begun.
    #[error("the rest of its batch went on without it, and what follows has begun")]
    Begun,
    /// The step decides or divides, and what is behind it was decided when it was resolved.
    #[error("it is resolved_manually, and what is behind it was decided by that")]
    Decided,
}

impl Flow {
    /// Does something with a step, by its public name: a part of a batch has its number, as in `rows_001`.
    ///
    /// # Errors
    /// [`Error::NoTask`], [`Error::NoStep`], [`Error::NotAllowed`] with what stands in the way, [`Error::Invalid`] for a result that the template does not allow; nothing was changed then. Else
    /// the database's.
    pub async fn operate(&self, task: Uuid, step: &str, operation: Operation, who: Who) -> Result<Operated> {
        who.check()?;
        let rows =
            self.inner.db.ask("find a task", || sqlx::query(&self.inner.sql.template_of_task).bind(task)).await?;
        let template = rows.first().ok_or(Error::NoTask { task })?.try_get(0)?;
        let kept = self.inner.numbered(template).await?.ok_or(Error::NoTask { task })?;
        let place = place(&kept.template, step).ok_or_else(|| Error::NoStep { task, step: step.to_owned() })?;
        let act = StepAct::new(task, kept, place, &operation).await?;
        self.act(Act::Step(act), &who, Manner::Earnest).await.and_then(Answer::operated)
    }

    /// Cancels a task, with everything of it that is not over. Doing so again changes nothing, and is answered the same.
    ///
    /// # Errors
    /// [`Error::NoTask`]; [`Error::NotAllowed`] if it ended otherwise. Else the database's.
    pub async fn cancel(&self, task: Uuid, who: Who) -> Result<Cancelled> {
        self.end(task, TaskState::Cancelled, who).await
    }

    /// Says that a task was dealt with by other means, wherever it is. What is not over of it is cancelled. Doing so again changes nothing, and is answered the same.
    ///
    /// # Errors
    /// [`Error::NoTask`]; else the database's.
    pub async fn resolve(&self, task: Uuid, who: Who) -> Result<Cancelled> {
        self.end(task, TaskState::ResolvedManually, who).await
    }

    async fn end(&self, task: Uuid, to: TaskState, who: Who) -> Result<Cancelled> {
        who.check()?;
        self.act(Act::Task(TaskAct { task, to }), &who, Manner::Earnest).await.and_then(Answer::cancelled)
    }
}

/// Which step a public name means: the place of its definition, and which part.
fn place(template: &Template, name: &str) -> Option<(usize, Option<i32>)> {
    if let Some(place) = template.index_of(name).filter(|place| template.steps[*place].kind != StepKind::BatchWorker) {
        return Some((place, None));
    }
    let (worker, number) = name.rsplit_once('_')?;
    let place = template.index_of(worker).filter(|place| template.steps[*place].kind == StepKind::BatchWorker)?;
    let part: i32 = number.parse().ok()?;
    (public(template, place, Some(part)) == name).then_some((place, Some(part)))
}

/// The public name of a step.
fn public(template: &Template, place: usize, part: Option<i32>) -> String {
    let name = &template.steps[place].name;
    part.map_or_else(|| name.clone(), |part| format!("{name}_{part:03}"))
}

/// From where a step may be brought there by a person alone.
fn steps_before(to: StepState) -> Vec<&'static str> {
    let may = |from: StepState| from.may_become(to, By::Operator) && !from.may_become(to, By::Engine);
    STEPS.iter().filter(|(_, from)| may(*from)).map(|(word, _)| *word).collect()
}

/// And a task. One that is open is in a state that is not terminal, whichever.
fn tasks_before(to: TaskState) -> Vec<&'static str> {
    let open = [(OPEN, TaskState::StepsInProcess)];
    let all = open.iter().chain(ENDED_TASKS);
    all.filter(|(_, from)| from.may_become(to, By::Operator)).map(|(word, _)| *word).collect()
}

impl StepAct {
    /// What is to be done with a step of a task, checked against its template.
    async fn new(
        task: Uuid,
        kept: std::sync::Arc<CachedTemplate>,
        at: (usize, Option<i32>),
        operation: &Operation,
    ) -> Result<StepAct> {
        let (place, part) = at;
        let (mut body, mut chosen, mut inputs) = (None, None, None);
        if let Operation::CompleteManually { result } = operation {
            kept.allows_result(place, result).await.map_err(|unfit| Error::schema("result", unfit))?;
            (chosen, inputs) = decided(&kept.template, &kept.template.steps[place], result)
                .map_err(|reason| Error::invalid("result", reason))?;
            body = Some(result.get().to_owned());
        }
        let step = public(&kept.template, place, part);
        Ok(StepAct { task, kept, place, part, step, name: operation.name(), to: operation.to(), body, chosen, inputs })
    }
}
