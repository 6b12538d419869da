//! Removing ended tasks when their retention is over.
//!
//! The settings of a namespace have the retentions: `retention_seconds` for tasks that are complete, cancelled or
//! resolved, `failed_retention_seconds` for failed ones. A task is removed with its steps, attempts, operations,
//! investigations and domain events.
//!
//! There is no sweeper. The engine asks when the retention of the next task is over and sleeps until then; without any
//! ended task it sleeps for the shortest retention. So an idle server asks once per retention. Tasks are removed in
//! small transactions, and the rows of a removed task some thousand at a time.

use sqlx::Row;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::flow::Flow;

/// The most tasks that one transaction removes.
const TASKS_MAX: i32 = 500;
/// The most rows of one table that one transaction deletes: some ten milliseconds.
const ROWS_MAX: i32 = 5_000;

/// The shortest retention, in seconds. The engine polls at least once per retention, so a shorter one would poll often.
pub(crate) const RETENTION_MIN: u64 = 60;
/// The longest retention, in seconds: a hundred years. `null` is forever.
pub(crate) const RETENTION_MAX: u64 = 100 * 366 * 86_400;

/// The default retention of complete, cancelled and resolved tasks, in seconds: 30 days.
pub const RETENTION_DEFAULT: u64 = 30 * 86_400;
/// The default retention of failed tasks, in seconds: 90 days, because an operator must investigate them.
pub const FAILED_RETENTION_DEFAULT: u64 = 90 * 86_400;

/// Checks a retention.
pub(crate) fn check_retention(what: &'static str, seconds: Option<u64>) -> Result<()> {
    match seconds {
        Some(seconds) if !(RETENTION_MIN..=RETENTION_MAX).contains(&seconds) => Err(Error::invalid(
            what,
            format!("must be between {RETENTION_MIN} and {RETENTION_MAX} seconds, or null forever, got {seconds}"),
        )),
        _ => Ok(()),
    }
}

impl Flow {
    /// Removes all tasks whose retention is over, in one small transaction after the other. Each transaction finds its
    /// tasks itself; `due` only says whether there are any.
    pub(crate) async fn prune(&self, due: Vec<()>) -> Result<()> {
        if due.is_empty() {
            return Ok(());
        }
        let mut total: i64 = 0;
        loop {
            let query = || sqlx::query(&self.inner.sql.prune_tasks).bind(TASKS_MAX).bind(ROWS_MAX);
            let rows = self.inner.db.ask("remove tasks whose retention is over", query).await?;
            let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
            total += i64::from(row.try_get::<i32, _>("removed")?);
            if !row.try_get::<bool, _>("more")? {
                break;
            }
        }
        if total > 0 {
            tracing::info!(tasks = total, "removed tasks whose retention is over");
        }
        Ok(())
    }

    /// Removes ended tasks and returns which. An orchestrator deletes their rows in other tables later.
    pub(crate) async fn remove(&self, tasks: &[Uuid]) -> Result<Vec<Uuid>> {
        let query = || sqlx::query(&self.inner.sql.remove_tasks).bind(tasks);
        let rows = self.inner.db.ask("remove tasks", query).await?;
        let removed = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get("removed")?;
        self.inner.wake.wake_up(&[self.inner.retention_channel.wake_up()]);
        Ok(removed)
    }
}
