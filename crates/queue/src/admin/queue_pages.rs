//! Pages of queues and of their partitions, each continued after its last element.
//!
//! A page that is found by an offset counts what lies before it, and shows an element twice if another was added. These
//! pages continue after a name or a number. Their cost is bounded by their size and by what one queue has, not by the
//! number of queues: a queue with very many partitions is listed without its numbers.

use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::admin::configure::Settings;
use crate::admin::resources::{CursorState, PartitionState};
use crate::error::Result;
use crate::id::{Ids, PartitionId};
use crate::name::{check, check_text};
use crate::queues::Queues;

/// Partitions of a queue whose messages are counted. A page of queues ends early after as many: 0.3 s.
pub const COUNTED_PARTITIONS_MAX: i64 = 20_000;
/// Partitions that a page looks at to find those in one state.
const SCANNED_MAX: i64 = 5_000;

/// A page of something, and where the next one continues.
#[derive(Debug, Clone, PartialEq)]
pub struct Paged<T, K> {
    /// Its elements. There may be few or none although there are more.
    pub rows: Vec<T>,
    /// After what the next page begins; `None`: there is no more.
    pub next: Option<K>,
}

/// A filter of queues. `None`: any.
#[derive(Debug, Clone, Default)]
pub struct QueueFilter {
    /// Those whose name contains this text, in upper or lower case.
    pub search: Option<String>,
    /// Those of a namespace.
    pub namespace: Option<String>,
    /// The one with this name.
    pub name: Option<String>,
    /// Those whose name matches one of these patterns of SQL's `like`.
    pub like: Option<Vec<String>>,
}

/// A queue with its backlog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSummary {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// Its namespace; empty: none.
    pub namespace: String,
    /// Its task; empty: none.
    pub task: String,
    /// When it was created.
    pub created_at: OffsetDateTime,
    /// Since when it is paused.
    pub paused_at: Option<OffsetDateTime>,
    /// Its options.
    pub settings: Settings,
    /// The number of its partitions, up to [`COUNTED_PARTITIONS_MAX`] and one more.
    pub partitions: u64,
    /// Its messages; `None` if it has too many partitions to count them.
    pub backlog: Option<Backlog>,
    /// The number of its consumer groups.
    pub groups: u64,
    /// The number of those that are paused.
    pub paused_groups: u64,
    /// The number of its dead letters, up to [`DEAD_LETTERS_COUNTED`](crate::DEAD_LETTERS_COUNTED).
    pub dead_letters: u64,
}

/// The messages of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// All that are stored.
    pub messages: u64,
    /// Those that a consumer group has not consumed; without groups, all.
    pub depth: u64,
    /// Those of them that are leased.
    pub leased: u64,
    /// When the oldest that is not consumed was stored.
    pub oldest_at: Option<OffsetDateTime>,
}

impl QueueSummary {
    fn of(row: &PgRow, ids: Ids) -> sqlx::Result<QueueSummary> {
        let count = |name| row.try_get::<i64, _>(name).map(|count| count as u64);
        let messages: Option<i64> = row.try_get("messages")?;
        let backlog = messages.map(|messages| {
            Ok::<_, sqlx::Error>(Backlog {
                messages: messages as u64,
                depth: count("waiting")?,
                leased: count("leased")?,
                oldest_at: row.try_get("oldest_at")?,
            })
        });
        Ok(QueueSummary {
            id: ids.uuid(i64::from(row.try_get::<i32, _>("id")?)),
            name: row.try_get("name")?,
            namespace: row.try_get("namespace")?,
            task: row.try_get("task")?,
            created_at: row.try_get("created_at")?,
            paused_at: row.try_get("paused_at")?,
            settings: Settings::of(row)?,
            partitions: count("partitions")?,
            backlog: backlog.transpose()?,
            groups: count("groups")?,
            paused_groups: count("paused_groups")?,
            dead_letters: count("dead_letters")?,
        })
    }
}

/// A state to find partitions by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionFilter {
    /// A group has leased it.
    Leased,
    /// A group has not consumed all of its messages.
    Waiting,
    /// A group retries its next message.
    Retrying,
}

impl PartitionFilter {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            PartitionFilter::Leased => "leased",
            PartitionFilter::Waiting => "waiting",
            PartitionFilter::Retrying => "retrying",
        }
    }
}

impl Queues {
    /// Queues with their backlogs, in order of their names, after a name.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a text that no name contains; otherwise those of the database.
    pub async fn queues_after(
        &self,
        filter: &QueueFilter,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Paged<QueueSummary, String>> {
        let texts = [("search", &filter.search), ("namespace", &filter.namespace), ("queue", &filter.name)];
        texts.into_iter().try_for_each(|(what, text)| check_text(what, text.as_deref().unwrap_or_default()))?;
        check_text("after", after.unwrap_or_default())?;
        let inner = &self.inner;
        let query = || {
            sqlx::query(&inner.sql.page_queues)
                .bind(&filter.search)
                .bind(&filter.namespace)
                .bind(&filter.name)
                .bind(after)
                .bind(i64::from(limit))
                .bind(COUNTED_PARTITIONS_MAX)
                .bind(&filter.like)
        };
        let rows = inner.db.ask("list queues", query).await?;
        let rows = rows.iter().map(|row| QueueSummary::of(row, inner.ids)).collect::<sqlx::Result<Vec<_>>>()?;
        let counted: u64 = rows.iter().map(|queue| queue.partitions).sum();
        let is_cut = rows.len() >= limit as usize || counted >= COUNTED_PARTITIONS_MAX as u64;
        let next = rows.last().map(|queue| queue.name.clone()).filter(|_| is_cut && filter.name.is_none());
        Ok(Paged { rows, next })
    }

    /// One queue with its backlog. `None`: there is no such queue.
    ///
    /// # Errors
    /// As [`queues_after`](Self::queues_after).
    pub async fn queue_summary(&self, queue: &str) -> Result<Option<QueueSummary>> {
        check("queue", queue)?;
        let filter = QueueFilter { name: Some(queue.to_owned()), ..QueueFilter::default() };
        Ok(self.queues_after(&filter, None, 1).await?.rows.pop())
    }

    /// Partitions of a queue with the cursors of their consumer groups, by number, after one. `None`: there is no such
    /// queue.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for an invalid name; otherwise those of the database.
    pub async fn partitions_after(
        &self,
        queue: &str,
        partition: Option<&str>,
        state: Option<PartitionFilter>,
        after: Option<PartitionId>,
        limit: u32,
    ) -> Result<Option<Paged<PartitionState, PartitionId>>> {
        check("queue", queue)?;
        check_text("partition", partition.unwrap_or_default())?;
        let inner = &self.inner;
        let Some(id) = inner.queue_id(queue).await? else { return Ok(None) };
        // An id of another schema is after every partition.
        let after = after.map_or(0, |after| inner.ids.number(after).unwrap_or(i64::MAX));
        let scanned = if state.is_some() { SCANNED_MAX } else { i64::from(limit) };
        let query = || {
            sqlx::query(&inner.sql.page_partitions)
                .bind(id)
                .bind(after)
                .bind(partition)
                .bind(state.map(PartitionFilter::name))
                .bind(i64::from(limit))
                .bind(scanned)
        };
        let mut page = Paged { rows: Vec::<PartitionState>::new(), next: None };
        for row in &inner.db.ask("list partitions", query).await? {
            let Some(number) = row.try_get::<Option<i64>, _>("id")? else {
                let scanned_to: Option<i64> = row.try_get("scanned_to")?;
                page.next = scanned_to.map(|number| inner.ids.partition(number)).filter(|_| partition.is_none());
                continue;
            };
            let (id, head) = (inner.ids.partition(number), row.try_get("head")?);
            if page.rows.last().is_none_or(|last| last.id != id) {
                page.rows.push(PartitionState::of(row, id, queue.to_owned(), head)?);
            }
            let cursor = CursorState::of(row, head)?;
            page.rows.last_mut().into_iter().for_each(|last| last.cursors.extend(cursor.clone()));
        }
        Ok(Some(page))
    }
}
