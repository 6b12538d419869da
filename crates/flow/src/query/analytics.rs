//! How tasks went, and where they spent their time.
//!
//! Whoever asks pays a bounded price: of the tasks that were submitted since a time the newest are looked at, so many and no more, and so many of their attempts. Whether that was all of
//! them is said.

use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use time::serde::rfc3339;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::query::list::{PAGE_MAX, TaskFilter};

/// The tasks that are looked at, the newest first.
pub const ANALYSED_TASKS_MAX: usize = 10_000;
/// And the attempts of those.
pub const ANALYSED_ATTEMPTS_MAX: usize = 100_000;

/// How tasks went, by template.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Performance {
    /// Those submitted since then.
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub since: OffsetDateTime,
    /// There were more than are looked at: these are the newest.
    pub truncated: bool,
    /// The one with most tasks first.
    pub templates: Vec<TemplatePerformance>,
}

/// How the tasks of a template went.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TemplatePerformance {
    /// Its namespace,
    pub namespace: String,
    /// name,
    pub name: String,
    /// and version.
    pub version: String,
    /// How many there are.
    pub tasks: u64,
    /// Those that have not ended,
    pub open: u64,
    /// that are complete,
    pub complete: u64,
    /// that failed,
    pub error: u64,
    /// that somebody cancelled,
    pub cancelled: u64,
    /// or dealt with by other means.
    pub resolved_manually: u64,
    /// The part of those that have ended that is complete, from 0 to 1; none: none has.
    pub success_rate: Option<f64>,
    /// From submission to end.
    pub duration: Option<Spread>,
    /// The attempts of their steps that have ended.
    pub attempts: u64,
    /// How long steps were ready until somebody claimed them.
    pub queue_wait: Option<Spread>,
    /// How long attempts took.
    pub attempt_duration: Option<Spread>,
}

/// Where tasks spent their time.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Bottlenecks {
    /// Tasks submitted since then.
    #[serde(with = "rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub since: OffsetDateTime,
    /// There were more than are looked at: these are the newest.
    pub truncated: bool,
    /// The one that took longest altogether first.
    pub steps: Vec<Bottleneck>,
}

/// A step that took time.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Bottleneck {
    /// The template's namespace,
    pub namespace: String,
    /// its name,
    pub template: String,
    /// and its version.
    pub version: String,
    /// The step; all parts of a batch are one.
    pub step: String,
    /// Its attempts that have ended.
    pub attempts: u64,
    /// Those that failed, or of whose worker nobody heard any more.
    pub failed: u64,
    /// The part of them that failed, from 0 to 1.
    pub failure_rate: f64,
    /// How long it was ready until somebody claimed it.
    pub queue_wait: Option<Spread>,
    /// How long attempts took.
    pub duration: Option<Spread>,
    /// All waits together.
    pub total_queue_wait_ms: f64,
    /// All attempts together.
    pub total_duration_ms: f64,
}

/// How long something usually takes, and how long it takes at worst but for one in twenty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct Spread {
    /// Half of them are below.
    pub p50_ms: f64,
    /// Nineteen of twenty are below.
    pub p95_ms: f64,
}

impl Flow {
    /// How the tasks of a namespace (`None`: all) went that were submitted since a time, by template: the newest [`ANALYSED_TASKS_MAX`] of them, and [`ANALYSED_ATTEMPTS_MAX`] of their attempts.
    ///
    /// # Errors
    /// The database's.
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

    /// Where the tasks of a namespace (`None`: all) spent their time that were submitted since a time, by step, `limit` at most: of the newest [`ANALYSED_TASKS_MAX`] of them, and
    /// [`ANALYSED_ATTEMPTS_MAX`] of their attempts.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit that is not between 1 and [`PAGE_MAX`]; else the database's.
    pub async fn bottlenecks(
        &self,
        namespace: Option<&str>,
        since: OffsetDateTime,
        limit: usize,
    ) -> Result<Bottlenecks> {
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("it is {limit}; it must be between 1 and {PAGE_MAX}")));
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
    /// The newest tasks since a time, or a little before it; and whether there are more.
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
