//! Removing tasks that have ended, some time after their end.
//!
//! Each namespace says how long its tasks are kept: `retention_seconds` after they are complete, cancelled or resolved, `failed_retention_seconds` after they failed. A task goes with everything that
//! belongs to it: its steps, attempts, operations, entries on the list of investigations and domain events.
//!
//! There is no sweeper. The engine asks for the task that has been over for longest and sleeps until that one is due; a namespace in which nothing has ended cannot have one due before its
//! retention is over, counted from now. So an idle server asks once per retention. Tasks are removed in small transactions, and rows of a removed task some thousand at a time.

use sqlx::Row;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::flow::Flow;

/// Tasks that one transaction removes at most.
const TASKS_MAX: i32 = 500;
/// Rows of one table that one transaction deletes at most: some ten milliseconds.
const ROWS_MAX: i32 = 5_000;

/// The shortest retention, in seconds. The engine looks at least once per retention, so a shorter one would be a poll loop.
pub(crate) const RETENTION_MIN: u64 = 60;
/// The longest, in seconds: a hundred years. For ever is `null`.
pub(crate) const RETENTION_MAX: u64 = 100 * 366 * 86_400;

/// How long complete, cancelled and resolved tasks are kept by default: 30 days, in seconds.
pub const RETENTION_DEFAULT: u64 = 30 * 86_400;
/// How long failed tasks are kept by default: 90 days, in seconds. They wait for a person, who may be away for a while.
pub const FAILED_RETENTION_DEFAULT: u64 = 90 * 86_400;

/// Refuses a retention that is out of range.
pub(crate) fn check_retention(what: &'static str, seconds: Option<u64>) -> Result<()> {
    match seconds {
        Some(seconds) if !(RETENTION_MIN..=RETENTION_MAX).contains(&seconds) => Err(Error::invalid(
            what,
            format!("must be between {RETENTION_MIN} and {RETENTION_MAX} seconds, or null for ever, got {seconds}"),
        )),
        _ => Ok(()),
    }
}

impl Flow {
    /// Removes everything that is due to be removed, one small transaction after the other. Each finds for itself what is due; `due` only says whether there is anything.
    pub(crate) async fn prune(&self, due: Vec<()>) -> Result<()> {
        if due.is_empty() {
            return Ok(());
        }
        let mut total: i64 = 0;
        loop {
            let query = || sqlx::query(&self.inner.sql.prune_tasks).bind(TASKS_MAX).bind(ROWS_MAX);
            let rows = self.inner.db.ask("remove tasks that are not kept any longer", query).await?;
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

    /// Removes tasks that have ended, and says which. Their rows in other tables are deleted later, by an orchestrator.
    pub(crate) async fn remove(&self, tasks: &[Uuid]) -> Result<Vec<Uuid>> {
        let query = || sqlx::query(&self.inner.sql.remove_tasks).bind(tasks);
        let rows = self.inner.db.ask("remove tasks", query).await?;
        let removed = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get("removed")?;
        self.inner.wake.wake_up(&[self.inner.retention_channel.wake_up()]);
        Ok(removed)
    }
}
