//! The attempts of a step: worker, times, duration and outcome.

use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use time::serde::rfc3339;
use uuid::Uuid;

use crate::claim::response_size::RESPONSE_BYTES_MAX;
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::query::task::{json, part_name};
use crate::task::stored::{attempt_outcome, unknown};

/// The most attempts of a page.
const ATTEMPT_PAGE_MAX: usize = 1_000;

/// A page of the attempts of a step, in order.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "http", schema(as = Audit))]
pub struct AttemptPage {
    /// The attempts of this page.
    pub attempts: Vec<Attempt>,
    /// The `after` of the next page; none if this is the last.
    pub next: Option<u64>,
}

/// An attempt of a step, or a manual operation on it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Attempt {
    /// The number of the attempt, from 1. An attempt that is not counted has the number of the next one.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The worker, or the operator.
    pub worker: Option<String>,
    /// When the step became ready.
    #[serde(with = "rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub ready_at: Option<OffsetDateTime>,
    /// When it was claimed.
    #[serde(with = "rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub claimed_at: Option<OffsetDateTime>,
    /// When it ended.
    #[serde(with = "rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub ended_at: Option<OffsetDateTime>,
    /// From ready to claimed, in milliseconds.
    pub waited_ms: Option<u64>,
    /// From claimed to ended, in milliseconds.
    pub duration_ms: Option<u64>,
    /// The operator's reason.
    pub reason: Option<String>,
    /// The result.
    #[cfg_attr(feature = "http", schema(value_type = Option<Value>))]
    pub result: Option<Box<RawValue>>,
    /// The error.
    #[cfg_attr(feature = "http", schema(value_type = Option<Value>))]
    pub error: Option<Box<RawValue>>,
}

/// A page of the attempts of all steps of a task.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "http", schema(as = TaskAttempts))]
pub struct TaskAttemptPage {
    /// The attempts of this page, step by step, those of a step in any order; without results, errors and reasons.
    pub attempts: Vec<TaskAttempt>,
    /// The `after` of the next page; none if this is the last.
    pub next: Option<String>,
}

/// An attempt of a step of a task.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct TaskAttempt {
    /// The name of the step.
    pub step: String,
    /// The attempt.
    #[serde(flatten)]
    pub attempt: Attempt,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has not ended.
    InProgress,
    /// The step is complete.
    Complete,
    /// It failed, and the step is retried.
    Failed,
    /// It failed, and the step failed permanently.
    FailedForGood,
    /// The lease ended without a report.
    LeaseEnded,
    /// It exceeded the timeout, and the step is retried.
    TimedOut,
    /// It exceeded the timeout, and the step failed permanently.
    TimedOutForGood,
    /// The worker released the step.
    GivenBack,
    /// The worker yielded with a checkpoint.
    Yielded,
    /// An operator ended it.
    TakenAway,
    /// The step was cancelled because its task exceeded a time limit; the task was resumed since.
    Cancelled,
    /// An operator completed the step.
    CompletedManually,
    /// An operator resolved the step by other means.
    ResolvedManually,
    /// An operator reset the step for a retry.
    Reset,
}

impl Flow {
    /// A page of the attempts of a step, in order; a running attempt is the last. Skips the first `after`. A page has
    /// at most 16 MiB of results and errors, and at least one attempt. `None`: there is no such step, or it has not
    /// been created yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit not between 1 and 1 000; otherwise a database error.
    pub async fn audit(&self, task: Uuid, step: &str, after: u64, limit: usize) -> Result<Option<AttemptPage>> {
        if !(1..=ATTEMPT_PAGE_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("must be between 1 and {ATTEMPT_PAGE_MAX}, got {limit}")));
        }
        let Some((_, position)) = self.inner.find_step(task, step).await? else { return Ok(None) };
        let (first, last) = position.ordinals();
        let query = || {
            sqlx::query(&self.inner.sql.task_attempts)
                .bind(task)
                .bind(position.slot)
                .bind(position.part)
                .bind(first)
                .bind(last)
                .bind(i64::try_from(after).unwrap_or(i64::MAX - 1))
                .bind(limit as i64)
                .bind(RESPONSE_BYTES_MAX as i64)
                // Plan for the current size of the tables: a plan cached while they were small would scan them.
                .persistent(false)
        };
        let rows = self.inner.db.ask("read attempts", query).await?;
        let Some(head) = rows.first() else { return Ok(None) };
        let total = head.try_get::<i64, _>("total")? as u64;
        let attempts: Vec<Attempt> = rows.iter().filter_map(|row| read(row).transpose()).collect::<Result<_>>()?;
        let read = after.saturating_add(attempts.len() as u64);
        Ok(Some(AttemptPage { next: Some(read).filter(|read| *read < total && !attempts.is_empty()), attempts }))
    }
}

impl Flow {
    /// A page of the attempts of all steps of a task, step by step, including those in progress and manual operations;
    /// after one of the `next` of the page before. Results, errors and reasons are not read. `None`: there is no such
    /// task.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit not between 1 and 1 000, or another `after`; otherwise a database error.
    pub async fn attempts(&self, task: Uuid, after: Option<&str>, limit: usize) -> Result<Option<TaskAttemptPage>> {
        if !(1..=ATTEMPT_PAGE_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("must be between 1 and {ATTEMPT_PAGE_MAX}, got {limit}")));
        }
        let position = |after: &str| -> Option<(i32, i64)> {
            let (ordinal, fence) = after.split_once(':')?;
            Some((ordinal.parse().ok()?, fence.parse().ok()?))
        };
        let (ordinal, fence) = match after {
            None => (-1, i64::MIN),
            Some(after) => position(after)
                .ok_or_else(|| Error::invalid("after", format!("must be the `next` of another page, got {after:?}")))?,
        };
        let Some(cached) = self.inner.template_of(task).await? else { return Ok(None) };
        let query = || {
            sqlx::query(&self.inner.sql.attempts_of_task)
                .bind(task)
                .bind(ordinal)
                .bind(fence)
                .bind(limit as i64)
                .persistent(false)
        };
        let rows = self.inner.db.ask("read the attempts of a task", query).await?;
        let mut attempts = Vec::with_capacity(rows.len());
        for row in &rows {
            let definition = cached.template.steps.get(row.try_get::<i32, _>("slot")? as usize);
            let definition = definition.ok_or(sqlx::Error::RowNotFound)?;
            let step = part_name(&definition.name, row.try_get("part")?);
            attempts.extend(read(row)?.map(|attempt| TaskAttempt { step, attempt }));
        }
        let next = rows.last().filter(|_| rows.len() == limit).map(|row| -> sqlx::Result<String> {
            Ok(format!("{}:{}", row.try_get::<i32, _>("ordinal")?, row.try_get::<i64, _>("fence")?))
        });
        Ok(Some(TaskAttemptPage { attempts, next: next.transpose()? }))
    }
}

fn read(row: &PgRow) -> Result<Option<Attempt>> {
    let Some(outcome) = row.try_get::<Option<&str>, _>("outcome")? else { return Ok(None) };
    let [ready_at, claimed_at, ended_at] = ["ready_at", "claimed_at", "ended_at"].map(|column| row.try_get(column));
    let (ready_at, claimed_at, ended_at) = (ready_at?, claimed_at?, ended_at?);
    Ok(Some(Attempt {
        attempt: row.try_get::<i32, _>("attempt")? as u32,
        outcome: attempt_outcome(outcome).ok_or_else(|| unknown("attempt outcome", outcome))?,
        worker: row.try_get("worker")?,
        ready_at,
        claimed_at,
        ended_at,
        waited_ms: between(ready_at, claimed_at),
        duration_ms: between(claimed_at, ended_at),
        reason: row.try_get("reason")?,
        result: json(row, "result")?,
        error: json(row, "error")?,
    }))
}

/// The time between two events in milliseconds. `None`: one of them has not happened.
fn between(from: Option<OffsetDateTime>, to: Option<OffsetDateTime>) -> Option<u64> {
    Some((to? - from?).whole_milliseconds().max(0) as u64)
}
