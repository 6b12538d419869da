//! Lists and counts of queues, partitions and consumer groups.
//!
//! Counting messages would read them all. So every number here is a difference of offsets: one lookup per partition and
//! cursor, however many messages are between. A deleted message counts until its segment is deleted.

use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::admin::configure::Settings;
use crate::error::Result;
use crate::groups::group::Group;
use crate::id::{Ids, PartitionId};
use crate::name::{QUEUE_MODE, check};
use crate::queues::Queues;

/// The most rows of one page.
pub const PAGE_MAX: u32 = 10_000;
/// The most bytes of one page with payloads, unless its first row alone has more: client and server hold the page in
/// memory.
pub(crate) const PAGE_BYTES_MAX: i64 = 16 << 20;

/// A part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The most rows, up to [`PAGE_MAX`].
    pub limit: u32,
    /// The number of rows to skip.
    pub offset: u32,
}

impl Page {
    pub(crate) fn limit(self) -> i64 {
        i64::from(self.limit.min(PAGE_MAX))
    }

    pub(crate) fn offset(self) -> i64 {
        i64::from(self.offset)
    }
}

/// A page, and the total number of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed<T> {
    /// The rows of the page.
    pub rows: Vec<T>,
    /// The total number of rows; 0 for a page behind the end.
    pub total: u64,
}

/// Numbers of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// All of them.
    pub total: u64,
    /// Those that a consumer group has not consumed, nor leased; without groups, all.
    pub pending: u64,
    /// Those that are leased.
    pub processing: u64,
    /// Those that every consumer group has consumed.
    pub completed: u64,
}

impl Counts {
    fn of(row: &PgRow) -> sqlx::Result<Counts> {
        let count = |name| row.try_get::<i64, _>(name).map(|count| count as u64);
        let (total, unfinished, processing) = (count("total")?, count("unfinished")?, count("processing")?);
        Ok(Counts {
            total,
            pending: unfinished.saturating_sub(processing),
            processing,
            completed: total.saturating_sub(unfinished),
        })
    }
}

/// Everything there is, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overview {
    /// Queues.
    pub queues: u64,
    /// Namespaces of them.
    pub namespaces: u64,
    /// Tasks of them.
    pub tasks: u64,
    /// Partitions.
    pub partitions: u64,
    /// Names of consumer groups.
    pub groups: u64,
    /// Leased partitions.
    pub leases: u64,
    /// Messages.
    pub messages: Counts,
    /// Dead letters.
    pub dead_letters: u64,
}

/// A queue, and the number of its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueState {
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
    /// Its options.
    pub settings: Settings,
    /// The number of its partitions.
    pub partitions: u64,
    /// Their number.
    pub messages: Counts,
}

impl QueueState {
    fn of(row: &PgRow, ids: Ids) -> sqlx::Result<QueueState> {
        Ok(QueueState {
            id: ids.uuid(i64::from(row.try_get::<i32, _>("id")?)),
            name: row.try_get("name")?,
            namespace: row.try_get("namespace")?,
            task: row.try_get("task")?,
            created_at: row.try_get("created_at")?,
            settings: Settings::of(row)?,
            partitions: row.try_get::<i64, _>("partitions")? as u64,
            messages: Counts::of(row)?,
        })
    }
}

/// A queue with its consumer groups.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueDetail {
    /// The queue.
    pub queue: QueueState,
    /// Its consumer groups.
    pub groups: Vec<Group>,
    /// The number of its dead letters.
    pub dead_letters: u64,
    /// Partitions of it.
    pub partitions: Listed<PartitionState>,
}

/// A partition with the cursors of its consumer groups.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionState {
    /// Its id.
    pub id: PartitionId,
    /// Its queue.
    pub queue: String,
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created_at: OffsetDateTime,
    /// The offset of its first message.
    pub first_offset: i64,
    /// The offset of the next message to be pushed.
    pub head: i64,
    /// The time of the last push.
    pub pushed_at: Option<OffsetDateTime>,
    /// The cursors of its consumer groups, by name.
    pub cursors: Vec<CursorState>,
}

impl PartitionState {
    /// Without cursors.
    pub(crate) fn of(row: &PgRow, id: PartitionId, queue: String, head: i64) -> sqlx::Result<PartitionState> {
        Ok(PartitionState {
            id,
            queue,
            name: row.try_get("name")?,
            created_at: row.try_get("created_at")?,
            first_offset: row.try_get("first_offset")?,
            head,
            pushed_at: row.try_get("pushed_at")?,
            cursors: Vec::new(),
        })
    }
}

/// The position of a consumer group in a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct CursorState {
    /// The group.
    pub group: String,
    /// The offset of the first message that it has not consumed.
    pub position: i64,
    /// The number of messages that it has not consumed.
    pub lag: u64,
    /// The age of the oldest of them.
    pub lag_seconds: f64,
    /// The lease, if it has not expired.
    pub lease_id: Option<Uuid>,
    /// The number of leased messages.
    pub leased: u64,
    /// When it can be claimed next: at the end of the lease, or when a delayed or failed message is due. `None`: when
    /// something is pushed.
    pub due_at: Option<OffsetDateTime>,
    /// How often the first message has been retried.
    pub retries: u32,
    /// The time of the last pop with messages.
    pub read_at: Option<OffsetDateTime>,
}

impl CursorState {
    /// `None`: no group reads the partition of this row.
    pub(crate) fn of(row: &PgRow, head: i64) -> sqlx::Result<Option<CursorState>> {
        let Some(group) = row.try_get("consumer")? else { return Ok(None) };
        let (position, lease_id): (i64, Option<Uuid>) = (row.try_get("position")?, row.try_get("lease_id")?);
        let lease_end: Option<i64> = row.try_get("lease_end")?;
        Ok(Some(CursorState {
            group,
            position,
            lag: (head - position) as u64,
            lag_seconds: row.try_get::<Option<f64>, _>("lag_seconds")?.unwrap_or_default(),
            leased: lease_id.and(lease_end).map_or(0, |end| (end - position).max(0) as u64),
            lease_id,
            due_at: row.try_get("due_at")?,
            retries: row.try_get::<i32, _>("retries")? as u32,
            read_at: row.try_get("read_at")?,
        }))
    }
}

/// A namespace, or a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// Its name.
    pub name: String,
    /// Queues in it.
    pub queues: u64,
    /// Their partitions.
    pub partitions: u64,
    /// Their messages.
    pub messages: Counts,
}

/// The lag of a consumer group in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Depth {
    /// The group.
    pub group: String,
    /// Their number.
    pub pending: u64,
    /// The partitions with messages to read, and the number of messages of each.
    pub partitions: Vec<(String, u64)>,
}

impl Queues {
    /// Everything there is, in numbers.
    ///
    /// # Errors
    /// Those of the database, as of all queries here.
    pub async fn overview(&self) -> Result<Overview> {
        let inner = &self.inner;
        let rows = inner.db.ask("count everything", || sqlx::query(&inner.sql.overview)).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let count = |name| row.try_get::<i64, _>(name).map(|count| count as u64);
        Ok(Overview {
            queues: count("queues")?,
            namespaces: count("namespaces")?,
            tasks: count("tasks")?,
            partitions: count("partitions")?,
            groups: count("groups")?,
            leases: count("leases")?,
            messages: Counts::of(row)?,
            dead_letters: count("dead_letters")?,
        })
    }

    /// Queues whose name contains `search`, in order of their names.
    pub async fn queues(&self, search: Option<&str>, page: Page) -> Result<Listed<QueueState>> {
        // PostgreSQL rejects a NUL, and no name has one.
        if search.is_some_and(|search| search.contains('\0')) {
            return Ok(Listed { rows: Vec::new(), total: 0 });
        }
        self.found(None, search, page).await
    }

    /// A queue with its consumer groups and some of its partitions, or the one named. `None`: there is no such queue.
    pub async fn queue(&self, queue: &str, partition: Option<&str>, page: Page) -> Result<Option<QueueDetail>> {
        check("queue", queue)?;
        let inner = &self.inner;
        let Some(state) = self.found(Some(queue), None, Page { limit: 1, offset: 0 }).await?.rows.pop() else {
            return Ok(None);
        };
        let query = || sqlx::query(&inner.sql.count_dead_letters).bind(queue);
        let rows = inner.db.ask("count dead letters", query).await?;
        let dead_letters: i64 = rows.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
        Ok(Some(QueueDetail {
            queue: state,
            groups: self.groups(None, Some(queue)).await?,
            dead_letters: dead_letters as u64,
            partitions: self.partitions(Some(queue), partition, page).await?,
        }))
    }

    /// Partitions of a queue, or of all, with the cursors of their consumer groups, by number.
    pub async fn partitions(
        &self,
        queue: Option<&str>,
        partition: Option<&str>,
        page: Page,
    ) -> Result<Listed<PartitionState>> {
        queue.map_or(Ok(()), |queue| check("queue", queue))?;
        partition.map_or(Ok(()), |partition| check("partition", partition))?;
        let inner = &self.inner;
        let query = || {
            let query = sqlx::query(&inner.sql.partition_states).bind(queue).bind(partition);
            query.bind(page.limit()).bind(page.offset())
        };
        let rows = inner.db.ask("list partitions", query).await?;
        let total = rows.first().map(|row| row.try_get::<i64, _>("found")).transpose()?.unwrap_or_default() as u64;
        let mut partitions: Vec<PartitionState> = Vec::new();
        for row in &rows {
            let (id, head) = (inner.ids.partition(row.try_get("id")?), row.try_get("head")?);
            if partitions.last().is_none_or(|last| last.id != id) {
                partitions.push(PartitionState::of(row, id, row.try_get("queue")?, head)?);
            }
            let cursor = CursorState::of(row, head)?;
            partitions.last_mut().into_iter().for_each(|last| last.cursors.extend(cursor.clone()));
        }
        Ok(Listed { rows: partitions, total })
    }

    /// The namespaces that queues have.
    pub async fn namespaces(&self) -> Result<Vec<Space>> {
        self.spaces(&self.inner.sql.namespaces).await
    }

    /// The tasks that queues have.
    pub async fn tasks(&self) -> Result<Vec<Space>> {
        self.spaces(&self.inner.sql.tasks).await
    }

    /// The lag of a consumer group, or of [`QUEUE_MODE`], in a queue. `None`: there is no such queue.
    pub async fn depth(&self, queue: &str, group: Option<&str>) -> Result<Option<Depth>> {
        let group = group.unwrap_or(QUEUE_MODE);
        check("queue", queue)?;
        check("consumerGroup", group)?;
        let inner = &self.inner;
        let Some(id) = inner.queue_id(queue).await? else { return Ok(None) };
        let rows = inner.db.ask("count what waits", || sqlx::query(&inner.sql.depth).bind(id).bind(group)).await?;
        let each = |row: &PgRow| Ok((row.try_get(0)?, row.try_get::<i64, _>(1)? as u64));
        let partitions = rows.iter().map(each).collect::<Result<Vec<(String, u64)>>>()?;
        let pending = partitions.iter().map(|(_, pending)| pending).sum();
        Ok(Some(Depth { group: group.to_owned(), pending, partitions }))
    }

    async fn found(&self, name: Option<&str>, search: Option<&str>, page: Page) -> Result<Listed<QueueState>> {
        let inner = &self.inner;
        let query = || {
            let query = sqlx::query(&inner.sql.list_queues).bind(name).bind(search);
            query.bind(page.limit()).bind(page.offset())
        };
        let rows = inner.db.ask("list queues", query).await?;
        let total = rows.first().map(|row| row.try_get::<i64, _>("found")).transpose()?.unwrap_or_default() as u64;
        let rows = rows.iter().map(|row| QueueState::of(row, inner.ids)).collect::<sqlx::Result<_>>()?;
        Ok(Listed { rows, total })
    }

    async fn spaces(&self, sql: &reveille_pg::Sql) -> Result<Vec<Space>> {
        let space = |row: &PgRow| {
            Ok(Space {
                name: row.try_get("name")?,
                queues: row.try_get::<i64, _>("queues")? as u64,
                partitions: row.try_get::<i64, _>("partitions")? as u64,
                messages: Counts::of(row)?,
            })
        };
        self.inner.db.ask("list spaces", || sqlx::query(sql)).await?.iter().map(space).collect()
    }
}
