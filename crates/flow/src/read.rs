//! Reading a task and its steps, as the API shows them.
//!
//! What changes is read by one statement, so that a task never contradicts its own steps; what never changes by another, and the template is remembered. Steps that have not come
//! to be are not there.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use time::serde::rfc3339;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::answer::ANSWER_BYTES_MAX;
use crate::catalog::CachedTemplate;
use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::list::counts;
use crate::standing::{ExecutionStatus, HealthStatus, RecommendedAction, StepCounts};
use crate::state::{StepState, TaskState};
use crate::stored::{self, task_state, unknown};
use crate::template::{StepKind, Template};

/// Steps of a task that one answer has at most.
pub const STEP_PAGE_MAX: usize = 1_000;

/// A task with its steps.
#[derive(Debug, Serialize, ToSchema)]
pub struct Task {
    /// Everything but its context and its steps.
    #[serde(flatten)]
    pub summary: TaskSummary,
    /// What the steps work on.
    #[schema(value_type = Value)]
    pub context: Box<RawValue>,
    /// Those that have come to be, in the order of the template: the first thousand, and no more than 16 MiB of results, errors, inputs and checkpoints.
    pub steps: Vec<TaskStep>,
    /// The name after which the list of its steps goes on; none: these are all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    pub steps_next: Option<String>,
}

/// Some steps of a task, in the order of the template.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TaskSteps)]
pub struct StepPage {
    /// These.
    pub steps: Vec<TaskStep>,
    /// The name to present as `after` for the next page; none: there are no more.
    pub next: Option<String>,
}

/// A task without its context and its steps.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TaskSummary {
    /// What it is called.
    #[schema(value_type = String, format = "uuid")]
    pub task_uuid: Uuid,
    /// The template,
    pub name: String,
    /// its namespace,
    pub namespace: String,
    /// and its version.
    pub version: String,
    /// Where it is.
    pub status: TaskState,
    /// When it was submitted.
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub created_at: OffsetDateTime,
    /// When something last became of it.
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: OffsetDateTime,
    /// When it ended, however it did.
    #[serde(with = "rfc3339::option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub completed_at: Option<OffsetDateTime>,
    /// Who wanted it.
    pub initiator: Option<String>,
    /// From where.
    pub source_system: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// The steps of a task of a higher priority are claimed first.
    pub priority: i16,
    /// By what to find it again.
    pub tags: Vec<String>,
    /// What it belongs to.
    pub correlation_id: Option<String>,
    /// And what that belongs to.
    pub parent_correlation_id: Option<String>,
    /// The steps that have come to be.
    pub total_steps: u32,
    /// Those that have not begun or are to begin again, ready ones included.
    pub pending_steps: u32,
    /// Those that workers have.
    pub in_progress_steps: u32,
    /// Those that are done, or that somebody dealt with.
    pub completed_steps: u32,
    /// Those that failed for good.
    pub failed_steps: u32,
    /// Those that can be claimed.
    pub ready_steps: u32,
    /// How it stands.
    pub execution_status: ExecutionStatus,
    /// What to do about it.
    pub recommended_action: RecommendedAction,
    /// How much of it is done.
    pub completion_percentage: f64,
    /// How worried to be.
    pub health_status: HealthStatus,
}

/// A step of a task.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskStep {
    /// What it is called; a part of a batch has a number behind that.
    pub name: String,
    /// What kind of step.
    #[serde(rename = "type")]
    pub kind: StepKind,
    /// What carries it out.
    pub callable: String,
    /// Where it is.
    pub state: StepState,
    /// How often it was tried, the attempt under way included.
    pub attempts: u32,
    /// How often it may be.
    pub max_attempts: u32,
    /// The names of the steps before it.
    pub dependencies: Vec<String>,
    /// When it could last be claimed.
    #[serde(with = "rfc3339::option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ready_at: Option<OffsetDateTime>,
    /// When it was last claimed.
    #[serde(with = "rfc3339::option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub claimed_at: Option<OffsetDateTime>,
    /// When it ended.
    #[serde(with = "rfc3339::option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<OffsetDateTime>,
    /// When it is next looked at: the next attempt, or the end of a lease.
    #[serde(with = "rfc3339::option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_due_at: Option<OffsetDateTime>,
    /// Who has it, or had it last.
    pub worker: Option<String>,
    /// What a part of a batch works on.
    #[schema(value_type = Option<Value>)]
    pub input: Option<Box<RawValue>>,
    /// What came of it.
    #[schema(value_type = Option<Value>)]
    pub result: Option<Box<RawValue>>,
    /// How it last failed.
    #[schema(value_type = Option<Value>)]
    pub last_error: Option<Box<RawValue>>,
    /// How far an attempt has come.
    #[schema(value_type = Option<Value>)]
    pub checkpoint: Option<Box<RawValue>>,
}

impl Flow {
    /// A task with its first steps. `None`: there is none.
    ///
    /// # Errors
    /// The database's.
    pub async fn task(&self, task: Uuid) -> Result<Option<Task>> {
        let detail = async || {
            let query = || sqlx::query(&self.inner.sql.task_detail).bind(task);
            Ok(self.inner.db.ask("read a task", query).await?)
        };
        // What does not change and what does: at once, and not one after the other.
        let (details, rows) = tokio::try_join!(detail(), self.inner.step_rows(task, START, STEP_PAGE_MAX, ALL))?;
        let (Some(detail), Some(head)) = (details.first(), rows.first()) else { return Ok(None) };
        let Some(kept) = self.inner.numbered(detail.try_get("template_id")?).await? else { return Ok(None) };
        let StepPage { steps, next: steps_next } = page(&rows, &kept.template)?;
        let stored: String = head.try_get("task_state")?;
        let summary = TaskSummary {
            task_uuid: task,
            name: kept.template.name.clone(),
            namespace: kept.template.namespace.clone(),
            version: kept.template.version.clone(),
            updated_at: head.try_get("updated_at")?,
            completed_at: head.try_get("task_ended_at")?,
            ..TaskSummary::standing(detail, task, &stored, &counts(head)?)?
        };
        let context = json(detail, "context")?.unwrap_or_else(|| RawValue::NULL.to_owned());
        Ok(Some(Task { summary, context, steps, steps_next }))
    }

    /// A page of the steps of a task that have come to be: those after a step, by its name; the first if it is not given. It has no more than 16 MiB of results, errors, inputs and
    /// checkpoints, and one step at least. `None`: there is no such task.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit that is not between 1 and [`STEP_PAGE_MAX`], [`Error::NoStep`] for an unknown step name; else the database's.
    pub async fn steps(&self, task: Uuid, after: Option<&str>, limit: usize) -> Result<Option<StepPage>> {
        if !(1..=STEP_PAGE_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("it is {limit}; it must be between 1 and {STEP_PAGE_MAX}")));
        }
        let Some(kept) = self.inner.template_of(task).await? else { return Ok(None) };
        let after = match after {
            Some(name) => {
                Place::of(&kept.template, name).ok_or_else(|| Error::NoStep { task, step: name.to_owned() })?
            }
            None => START,
        };
        let rows = self.inner.step_rows(task, after, limit, ALL).await?;
        Ok(if rows.is_empty() { None } else { Some(page(&rows, &kept.template)?) })
    }

    /// A step of a task, by its name. `None`: there is none, or it has not come to be.
    ///
    /// # Errors
    /// The database's.
    pub async fn step(&self, task: Uuid, name: &str) -> Result<Option<TaskStep>> {
        let Some((kept, place)) = self.inner.placed(task, name).await? else { return Ok(None) };
        // What comes before it, so that it is the first that is found; or another, if it is not there.
        let before = Place { part: Some(place.part.unwrap_or_default().saturating_sub(1)), ..place };
        let rows = self.inner.step_rows(task, before, 1, place.ordinals()).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let found = (row.try_get::<Option<i32>, _>("slot")?, row.try_get("part")?);
        let Some(state) = step_state(row)?.filter(|_| found == (Some(place.slot), place.part)) else { return Ok(None) };
        Ok(Some(step(row, state, &kept.template)?))
    }
}

impl Inner {
    /// The rows of a task's steps after one, of those with these ordinals.
    async fn step_rows(&self, task: Uuid, after: Place, limit: usize, ordinals: (i32, i32)) -> Result<Vec<PgRow>> {
        let query = || {
            sqlx::query(&self.sql.task_steps)
                .bind(task)
                .bind(after.slot)
                .bind(after.part.unwrap_or_default())
                .bind(limit as i64)
                .bind(ANSWER_BYTES_MAX as i64)
                .bind(ordinals.0)
                .bind(ordinals.1)
                // A plan of when the tables were small would read them whole for each step.
                .persistent(false)
        };
        Ok(self.db.ask("read steps", query).await?)
    }

    /// The template of a task. `None`: there is no such task.
    async fn template_of(&self, task: Uuid) -> Result<Option<Arc<CachedTemplate>>> {
        let rows = self.db.ask("read a task", || sqlx::query(&self.sql.template_of_task).bind(task)).await?;
        match rows.first() {
            Some(row) => self.numbered(row.try_get("template_id")?).await,
            None => Ok(None),
        }
    }

    /// The template of a task, and where its step of that name would be. `None`: there is no such task, or its template knows no such step.
    pub(crate) async fn placed(&self, task: Uuid, name: &str) -> Result<Option<(Arc<CachedTemplate>, Place)>> {
        let Some(kept) = self.template_of(task).await? else { return Ok(None) };
        Ok(Place::of(&kept.template, name).map(|place| (kept, place)))
    }
}

/// The steps of a page of `task_steps`.
fn page(rows: &[PgRow], template: &Template) -> Result<StepPage> {
    let mut steps = Vec::with_capacity(rows.len());
    for row in rows {
        if let Some(state) = step_state(row)? {
            steps.push(step(row, state, template)?);
        }
    }
    let rest = rows.first().map(|row| row.try_get::<i64, _>("rest")).transpose()?.unwrap_or_default();
    let next = steps.last().filter(|_| rest > steps.len() as i64).map(|step| step.name.clone());
    Ok(StepPage { steps, next })
}

/// Before the first step of a task.
const START: Place = Place { slot: -1, part: None };
/// The ordinals of all steps of a task.
const ALL: (i32, i32) = (0, i32::MAX);

/// Where a step is: its definition, and which part of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slot: i32,
    pub(crate) part: Option<i32>,
}

impl Place {
    /// Among which ordinals it is: a step and a first part have the place of their definition, other parts have later ones.
    pub(crate) fn ordinals(self) -> (i32, i32) {
        if self.part.unwrap_or(1) == 1 { (self.slot, self.slot) } else { ALL }
    }

    fn of(template: &Template, name: &str) -> Option<Place> {
        let is_divided = |slot: &usize| template.steps[*slot].kind == StepKind::BatchWorker;
        if let Some(slot) = template.place(name).filter(|slot| !is_divided(slot)) {
            return Some(Place { slot: slot as i32, part: None });
        }
        let (name, part) = name.rsplit_once('_')?;
        let slot = template.place(name).filter(is_divided)?;
        Some(Place { slot: slot as i32, part: part.parse().ok() }).filter(|place| place.part.is_some())
    }
}

impl TaskSummary {
    /// What a task is, from its detail, and how it stands, by the state of its row and its steps. Its names and times are still missing.
    pub(crate) fn standing(
        detail: &PgRow,
        task_uuid: Uuid,
        stored: &str,
        counts: &StepCounts,
    ) -> sqlx::Result<TaskSummary> {
        let created_at = detail.try_get("created_at")?;
        let ended = task_state(stored).ok_or_else(|| unknown("task state", stored))?;
        Ok(TaskSummary {
            task_uuid,
            status: ended.unwrap_or_else(|| counts.open_state()),
            total_steps: counts.total,
            pending_steps: counts.pending + counts.ready + counts.waiting_for_retry,
            in_progress_steps: counts.in_progress,
            completed_steps: counts.complete,
            failed_steps: counts.failed,
            ready_steps: counts.ready,
            execution_status: counts.execution_status(ended),
            recommended_action: counts.recommended_action(ended),
            completion_percentage: counts.completion_percentage(),
            health_status: counts.health_status(ended),
            name: String::new(),
            namespace: String::new(),
            version: String::new(),
            created_at,
            updated_at: created_at,
            completed_at: None,
            initiator: detail.try_get("initiator")?,
            source_system: detail.try_get("source_system")?,
            reason: detail.try_get("reason")?,
            priority: detail.try_get("priority")?,
            tags: detail.try_get("tags")?,
            correlation_id: detail.try_get("correlation_id")?,
            parent_correlation_id: detail.try_get("parent_correlation_id")?,
        })
    }
}

/// The state of a row's step. `None`: the row has none.
fn step_state(row: &PgRow) -> Result<Option<StepState>> {
    let Some(word) = row.try_get::<Option<&str>, _>("state")? else { return Ok(None) };
    let state = stored::step_state(word).ok_or_else(|| unknown("step state", word))?;
    // A step that waited for a retry can be claimed as soon as that is due.
    let due = state == StepState::WaitingForRetry && row.try_get("due")?;
    Ok(Some(if due { StepState::Enqueued } else { state }))
}

fn step(row: &PgRow, state: StepState, template: &Template) -> Result<TaskStep> {
    let slot = row.try_get::<i32, _>("slot")? as usize;
    let definition = template.steps.get(slot).ok_or_else(|| Error::from(sqlx::Error::RowNotFound))?;
    let since: OffsetDateTime = row.try_get("since")?;
    let claimed_at = if state == StepState::InProgress { Some(since) } else { row.try_get("claimed_at")? };
    Ok(TaskStep {
        name: part_name(&definition.name, row.try_get("part")?),
        kind: definition.kind,
        callable: definition.handler.callable.clone(),
        state,
        attempts: row.try_get::<i32, _>("attempt")? as u32,
        max_attempts: if definition.retry.retryable { definition.retry.max_attempts.into() } else { 1 },
        dependencies: definition.dependencies.clone(),
        ready_at: row.try_get("ready_at")?,
        claimed_at,
        ended_at: state.is_terminal().then_some(since),
        next_due_at: row.try_get("due_at")?,
        worker: row.try_get("worker")?,
        input: json(row, "input")?,
        result: json(row, "result")?,
        last_error: json(row, "error")?,
        checkpoint: json(row, "checkpoint")?,
    })
}

/// What a step is called: the name of its definition, and which part of that.
pub(crate) fn part_name(name: &str, part: Option<i32>) -> String {
    part.map_or_else(|| name.to_owned(), |part| format!("{name}_{part:03}"))
}

/// A column of JSON as it was written.
pub(crate) fn json(row: &PgRow, column: &str) -> pg::Result<Option<Box<RawValue>>> {
    let text: Option<String> = row.try_get(column)?;
    Ok(text.map(RawValue::from_string).transpose().map_err(|error| sqlx::Error::Decode(error.into()))?)
}
