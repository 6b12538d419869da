//! Lists of tasks, the newest first.
//!
//! A page is bounded work, whatever is asked for. What an index finds (a namespace, a state, a correlation, a rare tag, when it was made) leads straight to it; for the rest so many tasks are looked
//! at and no more, and the page says where to go on. So a page may be short, or empty, although there are more.

use serde::{Deserialize, Serialize};
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::{Duration, OffsetDateTime};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::query::task::TaskSummary;
use crate::task::state::TaskState;
use crate::task::status::StepCounts;

/// The tasks of a page at most: each has its steps counted.
pub const PAGE_MAX: usize = 100;
/// Tasks that are looked at together where an index does not lead straight to them.
const CHUNK: usize = 1_000;
/// How often, for one page.
const CHUNKS_MAX: usize = 10;
/// A tag that fewer of the first [`CHUNK`] tasks have, and fewer than [`LOOKED_MAX`] of all, is rare: its tasks are found by the index of tags, all of them. One that more of the first have fills
/// a page within the chunks of that page.
const RARE: i64 = 20;
/// Rows that one page looks at, of lists that a filter does not lead straight to.
pub(crate) const LOOKED_MAX: usize = CHUNK * CHUNKS_MAX;
/// How far the clock of who made a task's id may be from the database's.
const SKEW: Duration = Duration::hours(1);

/// Which tasks; everything that is not given does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TaskFilter {
    /// In which namespace,
    pub namespace: Option<String>,
    /// of which template,
    pub name: Option<String>,
    /// of which version of it,
    pub version: Option<String>,
    /// where they are now,
    pub status: Option<TaskState>,
    /// of which priority,
    pub priority: Option<i16>,
    /// with which tag,
    pub tag: Option<String>,
    /// what they belong to,
    pub correlation_id: Option<String>,
    /// who wanted them,
    pub initiator: Option<String>,
    /// made after
    #[serde(with = "time::serde::rfc3339::option")]
    pub created_after: Option<OffsetDateTime>,
    /// or before a time.
    #[serde(with = "time::serde::rfc3339::option")]
    pub created_before: Option<OffsetDateTime>,
}

/// Some tasks, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TaskPage {
    /// These.
    pub tasks: Vec<TaskSummary>,
    /// What to present for the next page; none: there are no more.
    #[schema(value_type = Option<String>, format = "uuid")]
    pub next: Option<Uuid>,
}

impl Flow {
    /// A task without its context and its steps. `None`: there is none.
    ///
    /// # Errors
    /// The database's.
    pub async fn summary(&self, task: Uuid) -> Result<Option<TaskSummary>> {
        Ok(self.inner.pick(&[task], &TaskFilter::default(), None).await?.pop())
    }

    /// A page of tasks, the newest first: those after `after`, which is what the page before it said. It looks at ten thousand tasks at most; a page that is short because of that says
    /// where to go on.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit that is not between 1 and [`PAGE_MAX`]; else the database's.
    pub async fn tasks(&self, filter: &TaskFilter, after: Option<Uuid>, limit: usize) -> Result<TaskPage> {
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("it is {limit}; it must be between 1 and {PAGE_MAX}")));
        }
        let chunk = if filter.is_found_by_index() { limit } else { CHUNK };
        // Where an open task is says its steps, not its row.
        let open = filter.status.filter(|status| !status.is_terminal());
        let mut page = TaskPage { tasks: Vec::new(), next: after };
        let mut rare_tag = None;
        for round in 0..CHUNKS_MAX {
            let found = self.inner.find(filter, rare_tag, page.next, chunk).await?;
            let room = limit - page.tasks.len();
            let picked = self.inner.pick(&found, filter, open.is_none().then_some(room)).await?;
            let full = picked.len() >= room;
            page.tasks.extend(picked.into_iter().filter(|task| open.is_none_or(|open| task.status == open)).take(room));
            page.next = found.last().copied().filter(|_| found.len() == chunk);
            if page.tasks.len() == limit && full {
                let last = page.tasks.last().map(|task| task.task_uuid);
                page.next = last.filter(|last| page.next.is_some() || found.last() != Some(last));
            }
            if page.next.is_none() || page.tasks.len() == limit {
                break;
            }
            if let Some(tag) = filter.tag.as_deref().filter(|_| round == 0 && filter.correlation_id.is_none()) {
                rare_tag = self.inner.is_rare(tag, &found).await?.then_some(tag);
            }
        }
        Ok(page)
    }
}

impl Inner {
    /// Whether few of these tasks have a tag, and not too many of all.
    async fn is_rare(&self, tag: &str, tasks: &[Uuid]) -> Result<bool> {
        let query =
            || sqlx::query(&self.sql.count_tagged).bind(tasks).bind(tag).bind(LOOKED_MAX as i64).persistent(false);
        let rows = self.db.ask("count tagged tasks", query).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let (tagged, ever): (i64, i64) = (row.try_get("tagged")?, row.try_get("tagged_ever")?);
        Ok(tagged < RARE && ever < LOOKED_MAX as i64)
    }

    /// Tasks that the filter may be about, the newest first; those with a tag, if it is rare.
    pub(crate) async fn find(
        &self,
        filter: &TaskFilter,
        rare_tag: Option<&str>,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<Uuid>> {
        let newest = filter.created_before.map_or(Uuid::max(), |time| made_at(time.saturating_add(SKEW)));
        let oldest = filter.created_after.map_or(Uuid::nil(), |time| made_at(time.saturating_sub(SKEW)));
        let before = before.map_or(newest, |before| before.min(newest));
        let states = filter.letters();
        let query = || {
            sqlx::query(&self.sql.find_tasks)
                .bind(filter.namespace.as_deref())
                .bind(states.clone())
                .bind(filter.correlation_id.as_deref())
                .bind(before)
                .bind(oldest)
                .bind(limit as i64)
                .bind(rare_tag)
                // Planned for the tables as they are: what is asked for is never twice the same.
                .persistent(false)
        };
        let rows = self.db.ask("find tasks", query).await?;
        Ok(rows.iter().map(|row| row.try_get("id")).collect::<sqlx::Result<_>>()?)
    }

    /// Those of these tasks that the filter is about, as far as their rows say.
    async fn pick(&self, tasks: &[Uuid], filter: &TaskFilter, limit: Option<usize>) -> Result<Vec<TaskSummary>> {
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let states = filter.letters();
        let query = || {
            sqlx::query(&self.sql.pick_tasks)
                .bind(tasks)
                .bind(filter.namespace.as_deref())
                .bind(states.clone())
                .bind(filter.name.as_deref())
                .bind(filter.version.as_deref())
                .bind(filter.priority)
                .bind(filter.tag.as_deref())
                .bind(filter.correlation_id.as_deref())
                .bind(filter.initiator.as_deref())
                .bind(filter.created_after)
                .bind(filter.created_before)
                .bind(limit.map(|limit| limit as i64))
                .persistent(false)
        };
        let rows = self.db.ask("read tasks", query).await?;
        Ok(rows.iter().map(read).collect::<sqlx::Result<_>>()?)
    }
}

impl TaskFilter {
    /// Whether everything that is found is meant.
    fn is_found_by_index(&self) -> bool {
        let TaskFilter { name, version, priority, tag, initiator, .. } = self;
        let rest = [name, version, tag, initiator].iter().all(|text| text.is_none()) && priority.is_none();
        // Of a correlation those in whatever state and namespace are found.
        let whole = self.correlation_id.is_none() || self.namespace.is_none() && self.status.is_none();
        rest && whole && self.status.is_none_or(TaskState::is_terminal)
    }

    /// The letters of the rows that can be in the state. `None`: all.
    fn letters(&self) -> Option<Vec<&'static str>> {
        Some(vec![match self.status? {
            TaskState::Complete => "c",
            TaskState::Error => "e",
            TaskState::Cancelled => "x",
            TaskState::ResolvedManually => "m",
            _ => "o",
        }])
    }
}

/// The first id that somebody could have made at that time.
pub(crate) fn made_at(time: OffsetDateTime) -> Uuid {
    let ms = (time.unix_timestamp_nanos() / 1_000_000).clamp(0, (1 << 48) - 1) as u128;
    Uuid::from_u128(ms << 80)
}

/// How many steps of a task are where.
pub(crate) fn counts(row: &PgRow) -> sqlx::Result<StepCounts> {
    let count = |column: &str| row.try_get::<i64, _>(column).map(|count| count as u32);
    Ok(StepCounts {
        total: count("total")?,
        pending: count("pending")?,
        ready: count("ready")?,
        in_progress: count("in_progress")?,
        waiting_for_retry: count("waiting_for_retry")?,
        complete: count("complete")?,
        failed: count("failed")?,
        dropped: count("dropped")?,
    })
}

fn read(row: &PgRow) -> sqlx::Result<TaskSummary> {
    Ok(TaskSummary {
        name: row.try_get("name")?,
        namespace: row.try_get("namespace")?,
        version: row.try_get("version")?,
        updated_at: row.try_get("updated_at")?,
        completed_at: row.try_get("task_ended_at")?,
        ..TaskSummary::standing(row, row.try_get("id")?, row.try_get("task_state")?, &counts(row)?)?
    })
}
