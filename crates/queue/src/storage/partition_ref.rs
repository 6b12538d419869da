//! The numbers of partitions by their names, and back.
//!
//! A partition is created by the first push that names it, and its number never changes, so it is cached. A cached
//! entry may be outdated: the queue was deleted since, or has another namespace, task or encryption. The push notices
//! under the partition's lock, and the partition is resolved again.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use reveille_wake::{Channel, WakeUp, topic_key};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::error::{Error, Result};
use crate::name::dotted;
use crate::produce::dedup_cache::HashDelta;
use crate::queues::Inner;

/// Partitions in the cache; beyond it all are forgotten and resolved again.
const PARTITIONS_MAX: usize = 100_000;
/// How often partitions are created again whose queue is being deleted.
const OPENED_MAX: usize = 5;

/// A partition.
#[derive(Debug)]
pub(crate) struct PartitionRef {
    pub(crate) id: i64,
    pub(crate) queue: String,
    pub(crate) name: String,
    pub(crate) encrypted: bool,
    /// The revision of the queue's options above.
    pub(crate) revision: i32,
    /// The topics that a push wakes.
    topics: [String; 5],
}

impl PartitionRef {
    /// From a row with `namespace`, `task`, `encrypted` and `revision` of its queue.
    fn of(row: &PgRow, id: i64, queue: &str, name: &str) -> sqlx::Result<PartitionRef> {
        let (namespace, task): (&str, &str) = (row.try_get("namespace")?, row.try_get("task")?);
        let topics = [
            topic_key('q', &[queue]),
            topic_key('p', &[queue, name]),
            topic_key('n', &[namespace]),
            topic_key('t', &[task]),
            topic_key('b', &[namespace, task]),
        ];
        let (queue, name) = (queue.to_owned(), name.to_owned());
        Ok(PartitionRef {
            id,
            queue,
            name,
            encrypted: row.try_get("encrypted")?,
            revision: row.try_get("revision")?,
            topics,
        })
    }

    /// For tests without a database.
    #[cfg(test)]
    pub(crate) fn example(id: i64, revision: i32) -> PartitionRef {
        let (queue, name) = ("q".to_owned(), "p".to_owned());
        PartitionRef { id, queue, name, encrypted: false, revision, topics: Default::default() }
    }

    /// The wake-up after a push.
    pub(crate) fn pushed(&self, channel: &Channel) -> WakeUp {
        channel.wake_up_keys(self.topics.iter().map(String::as_str))
    }

    /// The wake-up when a consumer group can read the partition again.
    pub(crate) fn released(&self, channel: &Channel, group: &str) -> WakeUp {
        released(channel, &self.queue, group)
    }
}

/// The wake-up when a consumer group can read partitions of a queue again.
pub(crate) fn released(channel: &Channel, queue: &str, group: &str) -> WakeUp {
    channel.wake_up_keys([topic_key('g', &[queue, group]).as_str(), topic_key('s', &[group]).as_str()])
}

/// The partitions in memory.
#[derive(Debug, Default)]
pub(crate) struct PartitionCache {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_name: HashMap<String, HashMap<String, Arc<PartitionRef>>>,
    by_id: HashMap<i64, Arc<PartitionRef>>,
}

impl PartitionCache {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }

    fn named(&self, queue: &str, partition: &str) -> Option<Arc<PartitionRef>> {
        self.entries().by_name.get(queue)?.get(partition).cloned()
    }

    pub(crate) fn numbered(&self, id: i64) -> Option<Arc<PartitionRef>> {
        self.entries().by_id.get(&id).cloned()
    }

    fn remember(&self, partition_ref: &Arc<PartitionRef>) {
        let mut entries = self.entries();
        if entries.by_id.len() >= PARTITIONS_MAX {
            *entries = Entries::default();
        }
        entries.by_id.insert(partition_ref.id, partition_ref.clone());
        entries
            .by_name
            .entry(partition_ref.queue.clone())
            .or_default()
            .insert(partition_ref.name.clone(), partition_ref.clone());
    }

    /// The queue has changed.
    pub(crate) fn forget(&self, queue: &str) {
        let mut entries = self.entries();
        for partition_ref in entries.by_name.remove(queue).unwrap_or_default().into_values() {
            entries.by_id.remove(&partition_ref.id);
        }
    }
}

impl Inner {
    /// The partitions with these names, in order; created if they do not exist.
    pub(crate) async fn open(&self, names: &[(&str, &str)]) -> Result<Vec<Arc<PartitionRef>>> {
        let known: Vec<Option<Arc<PartitionRef>>> =
            names.iter().map(|(queue, partition)| self.partitions.named(queue, partition)).collect();
        if known.iter().all(Option::is_some) {
            return Ok(known.into_iter().flatten().collect());
        }
        let mut session = self.db.session().await?;
        let (queues, partitions): (Vec<&str>, Vec<&str>) = names.iter().copied().unzip();
        let (namespaces, tasks): (Vec<&str>, Vec<&str>) = queues.iter().map(|queue| dotted(queue)).unzip();
        let mut rows = Vec::new();
        for _ in 0..OPENED_MAX {
            let query = sqlx::query(&self.sql.open_partitions).bind(&queues).bind(&partitions);
            rows = query.bind(&namespaces).bind(&tasks).fetch_all(&mut *session).await?;
            if rows.len() == names.len() {
                break;
            }
        }
        session.finish().await?;
        if rows.len() < names.len() {
            return Err(Error::invalid(
                "queue",
                "the queue is being deleted, or the hash of its name collides with that of another queue",
            ));
        }
        let mut partitions_found = Vec::with_capacity(names.len());
        for (row, (queue, partition)) in rows.iter().zip(names) {
            let id = row.try_get("partition_id")?;
            if row.try_get("is_new")? {
                self.dedup_cache().learn(id, HashDelta::from(0));
            }
            let partition_ref = Arc::new(PartitionRef::of(row, id, queue, partition)?);
            self.partitions.remember(&partition_ref);
            partitions_found.push(partition_ref);
        }
        Ok(partitions_found)
    }

    /// The partitions with these numbers, as far as they exist. Queries only those that are not in memory, on the
    /// connection of the caller or its own.
    pub(crate) async fn find_partitions(
        &self,
        conn: Option<&mut PgConnection>,
        ids: impl IntoIterator<Item = i64>,
    ) -> Result<HashMap<i64, Arc<PartitionRef>>> {
        let (mut found, mut missing) = (HashMap::new(), Vec::new());
        for id in ids {
            match self.partitions.numbered(id) {
                Some(partition_ref) => drop(found.insert(id, partition_ref)),
                None => missing.push(id),
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        let query = sqlx::query(&self.sql.locate_partitions).bind(missing);
        let rows = match conn {
            Some(conn) => query.fetch_all(conn).await?,
            None => {
                let mut session = self.db.session().await?;
                let rows = query.fetch_all(&mut *session).await?;
                session.finish().await?;
                rows
            }
        };
        for row in rows {
            let (id, queue, partition): (i64, &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            let partition_ref = Arc::new(PartitionRef::of(&row, id, queue, partition)?);
            self.partitions.remember(&partition_ref);
            found.insert(id, partition_ref);
        }
        Ok(found)
    }
}
