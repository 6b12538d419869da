//! Lists of tasks, newest first.
//!
//! The work for a page is bounded. Filters with an index (namespace, state, correlation, rare tag, creation time) lead
//! straight to the tasks. For other filters a page scans a limited number of tasks and says where to continue. So a
//! page may be short or empty although more tasks match.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::query::task::TaskSummary;
use crate::task::state::TaskState;
use crate::task::status::StepCounts;
use crate::task::stored::{ENDED_TASKS, OPEN};

/// The most tasks of a page: the steps of each are counted.
pub const PAGE_MAX: usize = 100;
/// Tasks that one statement scans if no index leads to them.
const CHUNK: usize = 1_000;
/// The most such statements for one page.
const CHUNKS_MAX: usize = 10;
/// A tag is rare if fewer of the first [`CHUNK`] tasks have it, and fewer than [`SCANNED_MAX`] of all: then the tag
/// index finds its tasks. A more frequent tag fills a page by scanning.
const RARE: i64 = 20;
/// The most rows that one page scans.
pub(crate) const SCANNED_MAX: usize = CHUNK * CHUNKS_MAX;
/// The most that the clock of the server that created a task id may differ from the database's.
const SKEW: Duration = Duration::hours(1);

/// Selects tasks. Fields that are not given match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TaskFilter {
    /// In this namespace.
    pub namespace: Option<String>,
    /// Of this template.
    pub name: Option<String>,
    /// Of this version of the template.
    pub version: Option<String>,
    /// In this state.
    pub status: Option<TaskState>,
    /// With this priority.
    pub priority: Option<i16>,
    /// With this tag.
    pub tag: Option<String>,
    /// With this correlation id.
    pub correlation_id: Option<String>,
    /// Of this initiator.
    pub initiator: Option<String>,
    /// Not in one of these states.
    pub exclude_status: Vec<TaskState>,
    /// Not of the template with this name.
    pub exclude_name: Option<String>,
    /// Whose context contains this JSON, as PostgreSQL's `@>` compares. Contexts of more than 64 KiB do not match.
    pub context: Option<String>,
    /// Created after this time.
    #[serde(with = "time::serde::rfc3339::option")]
    pub created_after: Option<OffsetDateTime>,
    /// Created before this time.
    #[serde(with = "time::serde::rfc3339::option")]
    pub created_before: Option<OffsetDateTime>,
}

/// A page of tasks, newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct TaskPage {
    /// The tasks of this page.
    pub tasks: Vec<TaskSummary>,
    /// The `after` of the next page; none if this is the last.
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = "uuid"))]
    pub next: Option<Uuid>,
}

impl Flow {
    /// A task without its context and steps. `None`: there is no such task.
    ///
    /// # Errors
    /// A database error.
    pub async fn summary(&self, task: Uuid) -> Result<Option<TaskSummary>> {
        Ok(self.inner.pick(&[task], &TaskFilter::default(), None).await?.pop())
    }

    /// A page of tasks, newest first. Which tasks are read depends on the filter: those of an index, if one leads to all
    /// that match; otherwise each that a page scans is compared with the rest of the filter, its context included.
    /// `after` is the `next` of the previous page. A page scans at most ten thousand
    /// tasks, so it may be short and still have a `next`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit not between 1 and [`PAGE_MAX`]; otherwise a database error.
    pub async fn tasks(&self, filter: &TaskFilter, after: Option<Uuid>, limit: usize) -> Result<TaskPage> {
        if !(1..=PAGE_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("must be between 1 and {PAGE_MAX}, got {limit}")));
        }
        let is_object = |text: &String| serde_json::from_str::<BTreeMap<String, &RawValue>>(text).is_ok();
        if let Some(context) = filter.context.as_ref().filter(|context| !is_object(context)) {
            return Err(Error::invalid("context", format!("must be a JSON object that is contained, got {context:?}")));
        }
        let chunk = if filter.is_found_by_index() { limit } else { CHUNK };
        // The state of an open task follows from its steps, not from its row.
        let open = filter.status.filter(|status| !status.is_terminal());
        let by_steps = open.is_some() || filter.exclude_status.iter().any(|status| !status.is_terminal());
        let fits = |task: &TaskSummary| {
            open.is_none_or(|open| task.status == open) && !filter.exclude_status.contains(&task.status)
        };
        let mut page = TaskPage { tasks: Vec::new(), next: after };
        let mut rare_tag = None;
        for round in 0..CHUNKS_MAX {
            let found = self.inner.find(filter, rare_tag, page.next, chunk).await?;
            let room = limit - page.tasks.len();
            let picked = self.inner.pick(&found, filter, (!by_steps).then_some(room)).await?;
            let full = picked.len() >= room;
            page.tasks.extend(picked.into_iter().filter(fits).take(room));
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
    /// Whether a tag is rare: see [`RARE`].
    async fn is_rare(&self, tag: &str, tasks: &[Uuid]) -> Result<bool> {
        let query =
            || sqlx::query(&self.sql.count_tagged).bind(tasks).bind(tag).bind(SCANNED_MAX as i64).persistent(false);
        let rows = self.db.ask("count tagged tasks", query).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let (tagged, ever): (i64, i64) = (row.try_get("tagged")?, row.try_get("tagged_ever")?);
        Ok(tagged < RARE && ever < SCANNED_MAX as i64)
    }

    /// Candidates for the filter, newest first; only those with the tag if it is rare.
    pub(crate) async fn find(
        &self,
        filter: &TaskFilter,
        rare_tag: Option<&str>,
        before: Option<Uuid>,
        limit: usize,
    ) -> Result<Vec<Uuid>> {
        let newest = filter.created_before.map_or(Uuid::max(), |time| first_id_at(time.saturating_add(SKEW)));
        let oldest = filter.created_after.map_or(Uuid::nil(), |time| first_id_at(time.saturating_sub(SKEW)));
        let before = before.map_or(newest, |before| before.min(newest));
        let states = filter.stored_states();
        let query = || {
            sqlx::query(&self.sql.find_tasks)
                .bind(filter.namespace.as_deref())
                .bind(states.clone())
                .bind(filter.correlation_id.as_deref())
                .bind(before)
                .bind(oldest)
                .bind(limit as i64)
                .bind(rare_tag)
                // Plan for the current size of the tables; the parameters are different each time.
                .persistent(false)
        };
        let rows = self.db.ask("find tasks", query).await?;
        Ok(rows.iter().map(|row| row.try_get("id")).collect::<sqlx::Result<_>>()?)
    }

    /// Those of the tasks that match the filter, as far as their rows tell.
    async fn pick(&self, tasks: &[Uuid], filter: &TaskFilter, limit: Option<usize>) -> Result<Vec<TaskSummary>> {
        if tasks.is_empty() {
            return Ok(Vec::new());
        }
        let states = filter.stored_states();
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
                .bind(filter.exclude_name.as_deref())
                .bind(filter.context.as_deref())
                .persistent(false)
        };
        let rows = self.db.ask("read tasks", query).await?;
        Ok(rows.iter().map(read).collect::<sqlx::Result<_>>()?)
    }
}

impl TaskFilter {
    /// Whether `find` returns matching tasks only.
    fn is_found_by_index(&self) -> bool {
        let TaskFilter { name, version, priority, tag, initiator, exclude_name, context, .. } = self;
        let rest = [name, version, tag, initiator, exclude_name, context].iter().all(|text| text.is_none())
            && priority.is_none();
        let excludes = self.exclude_status.iter().any(|status| !status.is_terminal())
            || !self.exclude_status.is_empty() && self.correlation_id.is_some();
        // The index on correlations knows neither state nor namespace.
        let whole = self.correlation_id.is_none() || self.namespace.is_none() && self.status.is_none();
        rest && whole && !excludes && self.status.is_none_or(TaskState::is_terminal)
    }

    /// The states of the rows that can be in the public state. `None`: all.
    fn stored_states(&self) -> Option<Vec<&'static str>> {
        let word = |state: TaskState| match state {
            TaskState::Complete => "complete",
            TaskState::Error => "error",
            TaskState::Cancelled => "cancelled",
            TaskState::ResolvedManually => "resolved_manually",
            _ => OPEN,
        };
        let excluded: Vec<TaskState> =
            self.exclude_status.iter().copied().filter(|state| state.is_terminal()).collect();
        match self.status {
            Some(status) => Some(vec![word(status)]),
            None if excluded.is_empty() => None,
            None => {
                let ended = ENDED_TASKS.iter().map(|(_, state)| *state).filter(|state| !excluded.contains(state));
                Some(ended.map(word).chain([OPEN]).collect())
            }
        }
    }
}

/// The smallest id that can be created at that time.
pub(crate) fn first_id_at(time: OffsetDateTime) -> Uuid {
    let ms = (time.unix_timestamp_nanos() / 1_000_000).clamp(0, (1 << 48) - 1) as u128;
    Uuid::from_u128(ms << 80)
}

/// The number of steps of a task by state.
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
        ..TaskSummary::with_status(row, row.try_get("id")?, row.try_get("task_state")?, &counts(row)?)?
    })
}
