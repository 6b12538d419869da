//! Durations and failures of tasks and steps.
//!
//! The cost is bounded: a query reads a limited number of the newest tasks since a time, and of their attempts. The
//! answer says whether there were more.

use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use time::serde::rfc3339;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::query::list::{PAGE_MAX, TaskFilter};

/// The most tasks that a query reads, newest first.
pub const ANALYSED_TASKS_MAX: usize = 10_000;
/// The most attempts that a query reads.
pub const ANALYSED_ATTEMPTS_MAX: usize = 100_000;

/// Outcomes and durations of tasks, by template.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Performance {
    /// Tasks submitted since this time.
    #[serde(with = "rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub since: OffsetDateTime,
    /// There were more tasks than a query reads: these are the newest.
    pub truncated: bool,
    /// The template with the most tasks first.
    pub templates: Vec<TemplatePerformance>,
}

/// Outcomes and durations of the tasks of a template.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct TemplatePerformance {
    /// The namespace of the template.
    pub namespace: String,
    /// The name of the template.
    pub name: String,
    /// The version of the template.
    pub version: String,
    /// The number of tasks.
    pub tasks: u64,
    /// Tasks that have not ended.
    pub open: u64,
    /// Tasks that are complete.
    pub complete: u64,
    /// Tasks that ended in error.
    pub error: u64,
    /// Cancelled tasks.
    pub cancelled: u64,
    /// Tasks resolved by other means.
    pub resolved_manually: u64,
    /// The fraction of ended tasks that are complete, from 0 to 1; none if no task has ended.
    pub success_rate: Option<f64>,
    /// From submission to end.
    pub duration: Option<Spread>,
    /// Ended attempts of their steps.
    pub attempts: u64,
    /// How long steps were ready before they were claimed.
    pub queue_wait: Option<Spread>,
    /// How long attempts took.
    pub attempt_duration: Option<Spread>,
}

/// Where tasks spend their time.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Bottlenecks {
    /// Tasks submitted since this time.
    #[serde(with = "rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub since: OffsetDateTime,
    /// There were more tasks than a query reads: these are the newest.
    pub truncated: bool,
    /// The step with the longest total time first.
    pub steps: Vec<Bottleneck>,
}

/// The time that a step takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Bottleneck {
    /// The namespace of the template.
    pub namespace: String,
    /// The name of the template.
    pub template: String,
    /// The version of the template.
    pub version: String,
    /// The step; all parts of a batch count as one step.
    pub step: String,
    /// Ended attempts.
    pub attempts: u64,
    /// Attempts that failed, or whose lease ended.
    pub failed: u64,
    /// The fraction of failed attempts, from 0 to 1.
    pub failure_rate: f64,
    /// How long it was ready before it was claimed.
    pub queue_wait: Option<Spread>,
    /// How long attempts took.
    pub duration: Option<Spread>,
    /// The sum of all waits.
    pub total_queue_wait_ms: f64,
    /// The sum of all attempts.
    pub total_duration_ms: f64,
}

/// The median and the 95th percentile of durations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Spread {
    /// The median, in milliseconds.
    pub p50_ms: f64,
    /// The 95th percentile, in milliseconds.
    pub p95_ms: f64,
}

impl Flow {
    /// Outcomes and durations of tasks submitted since a time, in a namespace (`None`: in all), by template. Reads the
    /// newest [`ANALYSED_TASKS_MAX`] tasks and at most [`ANALYSED_ATTEMPTS_MAX`] of their attempts.
    ///
    /// # Errors
    /// A database error.
    pub async fn performance(&self, namespace: Option<&str>, since: OffsetDateTime) -> Result<Performance> {
        let (tasks, truncated) = self.inner.since(namespace, since).await?;
        let query = || {
            sqlx::query(&self.inner.sql.performance)
                .bind(&tasks)
                .bind(since)
                .bind(ANALYSED_ATTEMPTS_MAX as i64)
                .persistent(false)
        };
        let rows = self.inner.db.ask("read performance", query).await?;
        let templates = rows.iter().map(template).collect::<sqlx::Result<_>>()?;
        Ok(Performance { since, truncated, templates })
    }

    /// Where tasks submitted since a time spend their time, in a namespace (`None`: in all), by step, at most `limit`.
    /// Reads the newest [`ANALYSED_TASKS_MAX`] tasks and at most [`ANALYSED_ATTEMPTS_MAX`] of their attempts.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit not between 1 and [`PAGE_MAX`]; otherwise a database error.
    pub async fn bottlenecks(
        &self,
        namespace: Option<&str>,
        since: OffsetDateTime,
        limit: usize,
    ) -> Result<Bottlenecks> {
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("must be between 1 and {PAGE_MAX}, got {limit}")));
        }
        let (tasks, truncated) = self.inner.since(namespace, since).await?;
        let query = || {
            let query = sqlx::query(&self.inner.sql.bottlenecks).bind(&tasks).bind(since);
            query.bind(ANALYSED_ATTEMPTS_MAX as i64).bind(limit as i64).persistent(false)
        };
        let rows = self.inner.db.ask("read bottlenecks", query).await?;
        let steps = rows.iter().map(bottleneck).collect::<sqlx::Result<_>>()?;
        Ok(Bottlenecks { since, truncated, steps })
    }
}

impl Inner {
    /// The newest tasks since a time, or slightly before it, and whether there are more.
    async fn since(&self, namespace: Option<&str>, since: OffsetDateTime) -> Result<(Vec<Uuid>, bool)> {
        let namespace = namespace.map(str::to_owned);
        let filter = TaskFilter { namespace, created_after: Some(since), ..TaskFilter::default() };
        let mut tasks = self.find(&filter, None, None, ANALYSED_TASKS_MAX + 1).await?;
        let truncated = tasks.len() > ANALYSED_TASKS_MAX;
        tasks.truncate(ANALYSED_TASKS_MAX);
        Ok((tasks, truncated))
    }
}

fn template(row: &PgRow) -> sqlx::Result<TemplatePerformance> {
    let (tasks, open, complete) = (count(row, "tasks")?, count(row, "open")?, count(row, "complete")?);
    let ended = tasks - open;
    Ok(TemplatePerformance {
        namespace: row.try_get("namespace")?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        tasks,
        open,
        complete,
        error: count(row, "failed")?,
        cancelled: count(row, "cancelled")?,
        resolved_manually: count(row, "resolved")?,
        success_rate: (ended > 0).then(|| complete as f64 / ended as f64),
        duration: spread(row, "took")?,
        attempts: count(row, "attempts")?,
        queue_wait: spread(row, "waited")?,
        attempt_duration: spread(row, "attempt_took")?,
    })
}

fn bottleneck(row: &PgRow) -> sqlx::Result<Bottleneck> {
    let (attempts, failed) = (count(row, "attempts")?, count(row, "failed")?);
    Ok(Bottleneck {
        namespace: row.try_get("namespace")?,
        template: row.try_get("template")?,
        version: row.try_get("version")?,
        step: row.try_get("step")?,
        attempts,
        failed,
        failure_rate: failed as f64 / attempts.max(1) as f64,
        queue_wait: spread(row, "waited")?,
        duration: spread(row, "took")?,
        total_queue_wait_ms: row.try_get("all_waited")?,
        total_duration_ms: row.try_get("all_took")?,
    })
}

fn count(row: &PgRow, column: &str) -> sqlx::Result<u64> {
    row.try_get::<i64, _>(column).map(|count| count.max(0) as u64)
}

fn spread(row: &PgRow, column: &str) -> sqlx::Result<Option<Spread>> {
    let both: Option<Vec<f64>> = row.try_get(column)?;
    Ok(both.and_then(|both| Some(Spread { p50_ms: *both.first()?, p95_ms: *both.get(1)? })))
}
