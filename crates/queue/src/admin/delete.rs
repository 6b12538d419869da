//! Deleting queues, and the messages of queues.
//!
//! A queue may have millions of messages. So a short transaction deletes the queue, and its remains are deleted in
//! small steps, by the process that was asked or, if that ends before it is done, by housekeeping.

use reveille_pg::audit::Entry;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::Result;
use crate::groups::group::Target;
use crate::name::check;
use crate::queues::{Inner, Queues};

/// Rows of one step: some milliseconds.
const STEP: i32 = 1_000;
/// Segments of one partition in one step, during which pushes to it wait.
pub(crate) const SEGMENTS: i32 = 200;
/// Partitions of one step, all of which are locked until it ends.
pub(crate) const PARTITIONS: usize = 20;

impl Queues {
    /// Deletes a queue with its messages and groups. `false`: there was none. A later push creates it again.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for an invalid name; otherwise those of the database.
    pub async fn delete_queue(&self, queue: &str) -> Result<bool> {
        check("queue", queue)?;
        let inner = &self.inner;
        let rows = {
            let entry = Entry::new("queue.delete", queue);
            let query = || sqlx::query(&inner.sql.remove_queue).bind(queue);
            let existed = |rows: &[PgRow]| {
                rows.iter().any(|row| row.try_get::<Option<Vec<i64>>, _>(0).is_ok_and(|it| it.is_some()))
            };
            inner.db.act("delete a queue", entry, query, existed).await?
        };
        let gone: Option<Vec<i64>> = rows.first().map(|row| row.try_get(0)).transpose()?.flatten();
        inner.partitions.forget(queue);
        let Some(gone) = gone else { return Ok(false) };
        {
            let mut dedup_cache = inner.dedup_cache();
            gone.iter().for_each(|partition| dedup_cache.forget(*partition));
        }
        let queues = self.clone();
        tokio::spawn(async move {
            if let Err(error) = queues.inner.delete_removed().await {
                tracing::warn!(
                    error = reveille_pg::causes(&error),
                    "deleting the messages of a removed queue failed; housekeeping retries it"
                );
            }
        });
        Ok(true)
    }

    /// Deletes all messages that a queue, or one of its partitions, has now. Consumer groups continue with the next
    /// message. Returns the number of messages; `None`: there is no such queue.
    ///
    /// # Errors
    /// As [`delete_queue`](Self::delete_queue).
    pub async fn clear(&self, queue: &str, partition: Option<&str>) -> Result<Option<u64>> {
        check("queue", queue)?;
        partition.map_or(Ok(()), |partition| check("partition", partition))?;
        let inner = &self.inner;
        let Some(id) = inner.queue_id(queue).await? else { return Ok(None) };
        let heads = inner.heads(id, partition).await?;
        let mut cleared = 0;
        // Written by the first of several transactions that changes something.
        let mut entry = Entry::new("queue.clear", queue);
        for few in heads.chunks(PARTITIONS) {
            cleared += inner.trim(few.iter().map(|head| (head.partition, head.next)).collect(), &mut entry).await?;
            let partitions: Vec<i64> = few.iter().map(|head| head.partition).collect();
            if self.seek_partitions(queue, &partitions, None, Target::First, entry.clone()).await? > 0 {
                entry = None;
            }
        }
        Ok(Some(cleared))
    }
}

/// The offsets at which a partition begins and ends.
pub(crate) struct Head {
    pub(crate) partition: i64,
    pub(crate) next: i64,
}

impl Inner {
    /// The number of a queue.
    pub(crate) async fn queue_id(&self, queue: &str) -> Result<Option<i32>> {
        let rows = self.db.ask("find a queue", || sqlx::query(&self.sql.find_queue).bind(queue)).await?;
        Ok(rows.first().map(|row| row.try_get("id")).transpose()?)
    }

    /// The partitions of a queue, or one of them.
    pub(crate) async fn heads(&self, queue: i32, partition: Option<&str>) -> Result<Vec<Head>> {
        let query = || sqlx::query(&self.sql.heads).bind(queue).bind(partition);
        let rows = self.db.ask("find partitions", query).await?;
        rows.iter().map(|row| Ok(Head { partition: row.try_get(0)?, next: row.try_get(2)? })).collect()
    }

    /// Deletes the messages of partitions before an offset, step by step, waiting for concurrent pushes. Returns their
    /// number. The first transaction that deletes some takes `entry` and writes it.
    pub(crate) async fn trim(&self, mut tasks: Vec<(i64, i64)>, entry: &mut Option<Entry>) -> Result<u64> {
        let mut removed = 0;
        while !tasks.is_empty() {
            let (partitions, ends): (Vec<i64>, Vec<i64>) = tasks.iter().copied().unzip();
            let query = || sqlx::query(&self.sql.trim).bind(&partitions).bind(&ends).bind(SEGMENTS).bind(true);
            let removes =
                |rows: &[PgRow]| rows.iter().any(|row| row.try_get::<i64, _>(1).is_ok_and(|removed| removed > 0));
            let rows = self.db.act("remove messages", entry.clone(), query, removes).await?;
            entry.take_if(|_| removes(&rows));
            let mut unfinished = Vec::new();
            for row in rows {
                removed += row.try_get::<i64, _>(1)? as u64;
                if row.try_get(2)? {
                    unfinished.push(row.try_get::<i64, _>(0)?);
                }
            }
            tasks.retain(|(partition, _)| unfinished.contains(partition));
        }
        Ok(removed)
    }

    /// Deletes the remains of deleted queues, until none is left or another server is deleting them.
    pub(crate) async fn delete_removed(&self) -> Result<()> {
        loop {
            let rows =
                self.db.ask("delete removed queues", || sqlx::query(&self.sql.delete_removed).bind(STEP)).await?;
            if rows.first().map(|row| row.try_get::<Option<i32>, _>(0)).transpose()?.flatten().is_none() {
                return Ok(());
            }
        }
    }
}
