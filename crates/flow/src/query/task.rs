//! Reading a task and its steps.
//!
//! One statement reads everything that changes, so that a task never contradicts its steps. Another reads what never
//! changes, and the template is cached. Steps that have not been created yet are not included.

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use time::serde::rfc3339;
use uuid::Uuid;

use crate::claim::response_size::RESPONSE_BYTES_MAX;
use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::query::list::counts;
use crate::task::state::{StepState, TaskState};
use crate::task::status::{ExecutionStatus, HealthStatus, RecommendedAction, StepCounts};
use crate::task::stored::{self, task_state, unknown};
use crate::template::cache::CachedTemplate;
use crate::template::{StepKind, Template};

/// The most steps of a page.
pub const STEP_PAGE_MAX: usize = 1_000;

/// A task with its steps.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Task {
    /// Everything but the context and the steps.
    #[serde(flatten)]
    pub summary: TaskSummary,
    /// The input of the task.
    #[cfg_attr(feature = "http", schema(value_type = Value))]
    pub context: Box<RawValue>,
    /// The created steps, in the order of the template: the first thousand, with at most 16 MiB of results, errors,
    /// inputs and checkpoints.
    pub steps: Vec<TaskStep>,
    /// The `after` for the next page of steps; absent if these are all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "http", schema(required = false, value_type = String))]
    pub steps_next: Option<String>,
}

/// A page of the steps of a task, in the order of the template.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "http", schema(as = TaskSteps))]
pub struct StepPage {
    /// The steps of this page.
    pub steps: Vec<TaskStep>,
    /// The `after` of the next page; none if this is the last.
    pub next: Option<String>,
}

/// A task without its context and steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct TaskSummary {
    /// The id of the task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// The template,
    pub name: String,
    /// its namespace,
    pub namespace: String,
    /// and its version.
    pub version: String,
    /// The state of the task.
    pub status: TaskState,
    /// When it was submitted.
    #[serde(with = "rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
    /// When the task or a step last changed.
    #[serde(with = "rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub updated_at: OffsetDateTime,
    /// When the task ended, in any state.
    #[serde(with = "rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub completed_at: Option<OffsetDateTime>,
    /// The user or system that wanted the task.
    pub initiator: Option<String>,
    /// The system that submitted the task.
    pub source_system: Option<String>,
    /// Why the task was submitted.
    pub reason: Option<String>,
    /// Steps of tasks with a higher priority are claimed first.
    pub priority: i16,
    /// Labels to find the task by.
    pub tags: Vec<String>,
    /// Groups tasks that belong together.
    pub correlation_id: Option<String>,
    /// The correlation id of the parent.
    pub parent_correlation_id: Option<String>,
    /// Steps created so far.
    pub total_steps: u32,
    /// Steps that have not started or wait for a retry, ready ones included.
    pub pending_steps: u32,
    /// Steps that workers hold.
    pub in_progress_steps: u32,
    /// Steps that are complete or resolved manually.
    pub completed_steps: u32,
    /// Steps that failed permanently.
    pub failed_steps: u32,
    /// Steps that can be claimed.
    pub ready_steps: u32,
    /// What the task is doing.
    pub execution_status: ExecutionStatus,
    /// What an operator or worker should do.
    pub recommended_action: RecommendedAction,
    /// The percentage of complete steps.
    pub completion_percentage: f64,
    /// Whether the task makes progress.
    pub health_status: HealthStatus,
}

/// A step of a task.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct TaskStep {
    /// The name of the step; that of a part of a batch ends with its number.
    pub name: String,
    /// The kind of step.
    #[serde(rename = "type")]
    pub kind: StepKind,
    /// The name of the handler.
    pub callable: String,
    /// The state of the step.
    pub state: StepState,
    /// The number of attempts, including a running one.
    pub attempts: u32,
    /// The most attempts.
    pub max_attempts: u32,
    /// The names of the steps that it depends on.
    pub dependencies: Vec<String>,
    /// When it last became ready.
    #[serde(with = "rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub ready_at: Option<OffsetDateTime>,
    /// When it was last claimed.
    #[serde(with = "rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub claimed_at: Option<OffsetDateTime>,
    /// When it ended.
    #[serde(with = "rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub ended_at: Option<OffsetDateTime>,
    /// When it is due next: the next attempt, or the end of its lease.
    #[serde(with = "rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub next_due_at: Option<OffsetDateTime>,
    /// The worker that holds it, or held it last.
    pub worker: Option<String>,
    /// The input of a part of a batch.
    #[cfg_attr(feature = "http", schema(value_type = Option<Value>))]
    pub input: Option<Box<RawValue>>,
    /// The result of the step.
    #[cfg_attr(feature = "http", schema(value_type = Option<Value>))]
    pub result: Option<Box<RawValue>>,
    /// The error of the last failed attempt.
    #[cfg_attr(feature = "http", schema(value_type = Option<Value>))]
    pub last_error: Option<Box<RawValue>>,
    /// The last checkpoint.
    #[cfg_attr(feature = "http", schema(value_type = Option<Value>))]
    pub checkpoint: Option<Box<RawValue>>,
}

impl Flow {
    /// A task with its first steps. `None`: there is no such task.
    ///
    /// # Errors
    /// A database error.
    pub async fn task(&self, task: Uuid) -> Result<Option<Task>> {
        let detail = async || {
            let query = || sqlx::query(&self.inner.sql.task_detail).bind(task);
            Ok(self.inner.db.ask("read a task", query).await?)
        };
        // Both statements run concurrently.
        let (details, rows) = tokio::try_join!(detail(), self.inner.step_rows(task, START, STEP_PAGE_MAX, ALL))?;
        let (Some(detail), Some(head)) = (details.first(), rows.first()) else { return Ok(None) };
        let Some(cached) = self.inner.template_by_id(detail.try_get("template_id")?).await? else { return Ok(None) };
        let StepPage { steps, next: steps_next } = page(&rows, &cached.template)?;
        let stored: String = head.try_get("task_state")?;
        let summary = TaskSummary {
            task_uuid: task,
            name: cached.template.name.clone(),
            namespace: cached.template.namespace.clone(),
            version: cached.template.version.clone(),
            updated_at: head.try_get("updated_at")?,
            completed_at: head.try_get("task_ended_at")?,
            ..TaskSummary::with_status(detail, task, &stored, &counts(head)?)?
        };
        let context = json(detail, "context")?.unwrap_or_else(|| RawValue::NULL.to_owned());
        Ok(Some(Task { summary, context, steps, steps_next }))
    }

    /// A page of the created steps of a task, after the step with this name or from the first. A page has at most 16
    /// MiB of results, errors, inputs and checkpoints, and at least one step. `None`: there is no such task.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit not between 1 and [`STEP_PAGE_MAX`], [`Error::NoStep`] for an unknown step name;
    /// otherwise a database error.
    pub async fn steps(&self, task: Uuid, after: Option<&str>, limit: usize) -> Result<Option<StepPage>> {
        if !(1..=STEP_PAGE_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("must be between 1 and {STEP_PAGE_MAX}, got {limit}")));
        }
        let Some(cached) = self.inner.template_of(task).await? else { return Ok(None) };
        let after = match after {
            Some(name) => {
                StepPosition::of(&cached.template, name).ok_or_else(|| Error::NoStep { task, step: name.to_owned() })?
            }
            None => START,
        };
        let rows = self.inner.step_rows(task, after, limit, ALL).await?;
        Ok(if rows.is_empty() { None } else { Some(page(&rows, &cached.template)?) })
    }

    /// A step of a task by its name. `None`: there is no such step, or it has not been created yet.
    ///
    /// # Errors
    /// A database error.
    pub async fn step(&self, task: Uuid, name: &str) -> Result<Option<TaskStep>> {
        let Some((cached, position)) = self.inner.find_step(task, name).await? else { return Ok(None) };
        // Starts right before the step, so that it comes first; another step comes first if it does not exist.
        let before = StepPosition { part: Some(position.part.unwrap_or_default().saturating_sub(1)), ..position };
        let rows = self.inner.step_rows(task, before, 1, position.ordinals()).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let found = (row.try_get::<Option<i32>, _>("slot")?, row.try_get("part")?);
        let Some(state) = step_state(row)?.filter(|_| found == (Some(position.slot), position.part)) else {
            return Ok(None);
        };
        Ok(Some(step(row, state, &cached.template)?))
    }
}

impl Inner {
    /// The rows of the steps after one, within a range of ordinals.
    async fn step_rows(
        &self,
        task: Uuid,
        after: StepPosition,
        limit: usize,
        ordinals: (i32, i32),
    ) -> Result<Vec<PgRow>> {
        let query = || {
            sqlx::query(&self.sql.task_steps)
                .bind(task)
                .bind(after.slot)
                .bind(after.part.unwrap_or_default())
                .bind(limit as i64)
                .bind(RESPONSE_BYTES_MAX as i64)
                .bind(ordinals.0)
                .bind(ordinals.1)
                // Plan for the current size of the tables: a plan cached while they were small would scan them per
                // step.
                .persistent(false)
        };
        Ok(self.db.ask("read steps", query).await?)
    }

    /// The template of a task. `None`: there is no such task.
    pub(crate) async fn template_of(&self, task: Uuid) -> Result<Option<Arc<CachedTemplate>>> {
        let rows = self.db.ask("read a task", || sqlx::query(&self.sql.template_of_task).bind(task)).await?;
        match rows.first() {
            Some(row) => self.template_by_id(row.try_get("template_id")?).await,
            None => Ok(None),
        }
    }

    /// The template of a task and the position of a step. `None`: there is no such task, or its template has no such
    /// step.
    pub(crate) async fn find_step(
        &self,
        task: Uuid,
        name: &str,
    ) -> Result<Option<(Arc<CachedTemplate>, StepPosition)>> {
        let Some(cached) = self.template_of(task).await? else { return Ok(None) };
        Ok(StepPosition::of(&cached.template, name).map(|position| (cached, position)))
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

/// Before the first step.
const START: StepPosition = StepPosition { slot: -1, part: None };
/// The ordinals of all steps of a task.
const ALL: (i32, i32) = (0, i32::MAX);

/// The position of a step: the index of its definition, and the number of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepPosition {
    pub(crate) slot: i32,
    pub(crate) part: Option<i32>,
}

impl StepPosition {
    /// The range of its ordinal. A step and a first part have the index of their definition, other parts have later
    /// ones.
    pub(crate) fn ordinals(self) -> (i32, i32) {
        if self.part.unwrap_or(1) == 1 { (self.slot, self.slot) } else { ALL }
    }

    fn of(template: &Template, name: &str) -> Option<StepPosition> {
        let is_divided = |slot: &usize| template.steps[*slot].kind == StepKind::BatchWorker;
        if let Some(slot) = template.index_of(name).filter(|slot| !is_divided(slot)) {
            return Some(StepPosition { slot: slot as i32, part: None });
        }
        let (name, part) = name.rsplit_once('_')?;
        let slot = template.index_of(name).filter(is_divided)?;
        Some(StepPosition { slot: slot as i32, part: part.parse().ok() }).filter(|position| position.part.is_some())
    }
}

impl TaskSummary {
    /// A summary from the detail of a task, its stored state and the counts of its steps. Names and times are left
    /// empty.
    pub(crate) fn with_status(
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

/// The state of the step in a row. `None`: the row has no step.
fn step_state(row: &PgRow) -> Result<Option<StepState>> {
    let Some(word) = row.try_get::<Option<&str>, _>("state")? else { return Ok(None) };
    let state = stored::step_state(word).ok_or_else(|| unknown("step state", word))?;
    // A step that waits for a retry is ready as soon as the retry is due.
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

/// The name of a step: that of its definition, with the number of a part.
pub(crate) fn part_name(name: &str, part: Option<i32>) -> String {
    part.map_or_else(|| name.to_owned(), |part| format!("{name}_{part:03}"))
}

/// A JSON column as text.
pub(crate) fn json(row: &PgRow, column: &str) -> reveille_pg::Result<Option<Box<RawValue>>> {
    let text: Option<String> = row.try_get(column)?;
    Ok(text.map(RawValue::from_string).transpose().map_err(|error| sqlx::Error::Decode(error.into()))?)
}
