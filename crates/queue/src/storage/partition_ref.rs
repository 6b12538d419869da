//! Where partitions are: their numbers by their names, and back.
//!
//! A partition is made by the first push that names it, and its number never changes; so it is asked for once and remembered. What is remembered may be old: the queue was
//! deleted, or has another namespace, task or encryption since. The push notices under the partition's lock, and then the partition is resolved again.

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

/// Places remembered; beyond it all are forgotten and asked for again.
const PARTITIONS_MAX: usize = 100_000;
/// How often partitions are made again whose queue was deleted in the same moment.
const OPENED_MAX: usize = 5;

/// A partition.
#[derive(Debug)]
pub(crate) struct PartitionRef {
    pub(crate) id: i64,
    pub(crate) queue: String,
    pub(crate) name: String,
    pub(crate) encrypted: bool,
    /// Of what is said here of its queue.
    pub(crate) revision: i32,
    /// Whom a push here may wake.
    topics: [String; 5],
}

impl PartitionRef {
    /// From a row that says `namespace`, `task`, `encrypted` and `revision` of its queue.
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

    /// One for tests that need no database.
    #[cfg(test)]
    pub(crate) fn example(id: i64, revision: i32) -> PartitionRef {
        let (queue, name) = ("q".to_owned(), "p".to_owned());
        PartitionRef { id, queue, name, encrypted: false, revision, topics: Default::default() }
    }

    /// Something was pushed here.
    pub(crate) fn pushed(&self, channel: &Channel) -> WakeUp {
        channel.wake_up_keys(self.topics.iter().map(String::as_str))
    }

    /// A consumer group can read here again.
    pub(crate) fn released(&self, channel: &Channel, group: &str) -> WakeUp {
        released(channel, &self.queue, group)
    }
}

/// A consumer group can read again somewhere in a queue.
pub(crate) fn released(channel: &Channel, queue: &str, group: &str) -> WakeUp {
    channel.wake_up_keys([topic_key('g', &[queue, group]).as_str(), topic_key('s', &[group]).as_str()])
}

/// The partitions that this process knows.
#[derive(Debug, Default)]
pub(crate) struct PartitionCache {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_name: HashMap<String, HashMap<String, Arc<PartitionRef>>>,
    by_id: HashMap<i64, Arc<PartitionRef>>,
}

impl PartitionCache {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    fn named(&self, queue: &str, partition: &str) -> Option<Arc<PartitionRef>> {
        self.known().by_name.get(queue)?.get(partition).cloned()
    }

    pub(crate) fn numbered(&self, id: i64) -> Option<Arc<PartitionRef>> {
        self.known().by_id.get(&id).cloned()
    }

    fn remember(&self, partition_ref: &Arc<PartitionRef>) {
        let mut known = self.known();
        if known.by_id.len() >= PARTITIONS_MAX {
            *known = Known::default();
        }
        known.by_id.insert(partition_ref.id, partition_ref.clone());
        known
            .by_name
            .entry(partition_ref.queue.clone())
            .or_default()
            .insert(partition_ref.name.clone(), partition_ref.clone());
    }

    /// Something about the queue has changed.
    pub(crate) fn forget(&self, queue: &str) {
        let mut known = self.known();
        for partition_ref in known.by_name.remove(queue).unwrap_or_default().into_values() {
            known.by_id.remove(&partition_ref.id);
        }
    }
}

impl Inner {
    /// The partitions of these names, in order; made if there are none.
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

    /// The partitions of these numbers, as far as there are such. Asks only for those it does not know, on a connection of the caller's or its own.
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
