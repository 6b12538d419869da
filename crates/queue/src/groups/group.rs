//! Consumer groups: their positions, moving them, deleting them.
//!
//! A consumer may be reading while its group is moved. So a cursor is moved under its own lock, which ends its lease:
//! later acks of messages delivered before are rejected. Waiting pops are woken, because there may be messages to read
//! again.

use reveille_pg::audit::Entry;
use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;

use crate::consume::pop::Subscription;
use crate::error::Result;
use crate::id::{Ids, PartitionId};
use crate::name::check;
use crate::queues::Queues;
use crate::storage::partition_ref::released;
use crate::storage::statements::unknown_word;

/// Partitions whose cursors are moved in one transaction, which no consumer of the group can read meanwhile.
const TOGETHER: usize = 500;

/// A consumer group of a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The queue it reads.
    pub queue: String,
    /// Where it began.
    pub subscription: Subscription,
    /// When it was created.
    pub created_at: OffsetDateTime,
    /// Since when it is paused.
    pub paused_at: Option<OffsetDateTime>,
    /// Partitions of the queue.
    pub partitions: u64,
    /// The partitions with messages that it has not consumed.
    pub lagging_partitions: u64,
    /// Messages that it has not consumed, including leased ones.
    pub lag: u64,
    /// The age of the oldest of them.
    pub lag_seconds: f64,
    /// Its leased partitions.
    pub leases: u64,
    /// The time of its last pop with messages.
    pub read_at: Option<OffsetDateTime>,
}

impl Group {
    fn of(row: &PgRow) -> Result<Group> {
        let since: Option<OffsetDateTime> = row.try_get("since")?;
        let count = |name| row.try_get::<i64, _>(name).map(|count| count as u64);
        Ok(Group {
            name: row.try_get("name")?,
            queue: row.try_get("queue")?,
            subscription: match (row.try_get("mode")?, since) {
                ("timestamp", Some(since)) => Subscription::Since(since),
                ("new", _) => Subscription::New,
                ("all", _) => Subscription::All,
                (mode, _) => return Err(unknown_word("subscription mode", mode).into()),
            },
            created_at: row.try_get("created_at")?,
            paused_at: row.try_get("paused_at")?,
            partitions: count("partitions")?,
            lagging_partitions: count("lagging")?,
            lag: count("lag")?,
            lag_seconds: row.try_get("lag_seconds")?,
            leases: count("leases")?,
            read_at: row.try_get("read_at")?,
        })
    }
}

/// A partition with messages that a consumer group has not consumed.
#[derive(Debug, Clone, PartialEq)]
pub struct Lagging {
    /// The group.
    pub group: String,
    /// The queue.
    pub queue: String,
    /// The partition.
    pub partition: String,
    /// The id of the partition.
    pub partition_id: PartitionId,
    /// The number of messages that are not consumed.
    pub lag: u64,
    /// The age of the oldest of them.
    pub lag_seconds: f64,
    /// The offset of the oldest of them.
    pub position: i64,
    /// The offset of the next message to be pushed.
    pub head: i64,
    /// The end of the lease, if the partition is leased.
    pub leased_until: Option<OffsetDateTime>,
    /// How often the oldest message has been retried.
    pub retries: u32,
    /// The time of the last pop with messages.
    pub read_at: Option<OffsetDateTime>,
}

impl Lagging {
    fn of(row: &PgRow, ids: Ids) -> Result<Lagging> {
        Ok(Lagging {
            group: row.try_get("name")?,
            queue: row.try_get("queue")?,
            partition: row.try_get("partition")?,
            partition_id: ids.partition(row.try_get("id")?),
            lag: row.try_get::<i64, _>("lag")? as u64,
            lag_seconds: row.try_get("lag_seconds")?,
            position: row.try_get("position")?,
            head: row.try_get("head")?,
            leased_until: row.try_get("leased_until")?,
            retries: row.try_get::<i32, _>("retries")? as u32,
            read_at: row.try_get("read_at")?,
        })
    }
}

/// Where to move a consumer group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// To the next message that is pushed.
    End,
    /// To the first message that was stored at this time or later.
    Time(OffsetDateTime),
}

/// Where to move cursors.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    To(Seek),
    /// To the position at which the group began.
    Subscription,
    /// To the first stored message, if the cursor is before it.
    First,
}

impl Target {
    /// The word for it in `functions/seek.sql`, and the time.
    fn position(self) -> (&'static str, Option<OffsetDateTime>) {
        match self {
            Target::To(Seek::End) => ("end", None),
            Target::To(Seek::Time(since)) => ("time", Some(since)),
            Target::Subscription => ("subscription", None),
            Target::First => ("first", None),
        }
    }
}

impl Queues {
    /// Consumer groups, one entry per queue: all, those of one name, of one queue, or of both.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn groups(&self, group: Option<&str>, queue: Option<&str>) -> Result<Vec<Group>> {
        group.map_or(Ok(()), |group| check("consumerGroup", group))?;
        queue.map_or(Ok(()), |queue| check("queue", queue))?;
        let inner = &self.inner;
        let rows = inner.db.ask("list groups", || sqlx::query(&inner.sql.lags).bind(group).bind(queue)).await?;
        rows.iter().map(Group::of).collect()
    }

    /// The partitions with messages that a consumer group has not consumed for at least `least`; the oldest first.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn lagging(&self, group: Option<&str>, least: Duration, limit: u32) -> Result<Vec<Lagging>> {
        group.map_or(Ok(()), |group| check("consumerGroup", group))?;
        let inner = &self.inner;
        let query = || sqlx::query(&inner.sql.lagging).bind(least.as_secs_f64()).bind(group).bind(i64::from(limit));
        let rows = inner.db.ask("list lagging partitions", query).await?;
        rows.iter().map(|row| Lagging::of(row, inner.ids)).collect()
    }

    /// Deletes a consumer group, from one queue or from all; returns the number of queues. If it pops again, it begins
    /// where that pop asks for, by default at the first message.
    ///
    /// `keeps_subscription`: the group stays, and its cursors go back to where it once began.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_group(&self, group: &str, queue: Option<&str>, keeps_subscription: bool) -> Result<usize> {
        check("consumerGroup", group)?;
        queue.map_or(Ok(()), |queue| check("queue", queue))?;
        let inner = &self.inner;
        let queues = self.queues_of(group, queue).await?;
        for queue in &queues {
            if keeps_subscription {
                self.move_all(queue, group, None, Target::Subscription).await?;
            } else {
                let entry = Entry::new("group.delete", format!("{}/{group}", queue.queue));
                let query = || sqlx::query(&inner.sql.unsubscribe).bind(queue.consumer);
                inner.db.act("delete a group", entry, query, |_| true).await?;
                // Waiting pops of the group create it again.
                inner.wake.wake_up(&[released(&inner.channel, &queue.queue, group)]);
            }
        }
        Ok(queues.len())
    }

    /// Changes where a consumer group began; returns the number of its queues. Its cursors stay: they move if it is
    /// deleted and keeps its subscription.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn resubscribe(&self, group: &str, since: OffsetDateTime) -> Result<usize> {
        check("consumerGroup", group)?;
        let inner = &self.inner;
        let query = || sqlx::query(&inner.sql.resubscribe).bind(group).bind(since);
        Ok(inner
            .db
            .act("change a subscription", Entry::new("group.subscribe", group), query, |rows| !rows.is_empty())
            .await?
            .len())
    }

    /// Moves a consumer group in a queue, or in one of its partitions, forwards or backwards; returns the number of
    /// cursors. `None`: the queue has no such group.
    ///
    /// Current leases of the group are lost. Partitions are moved one after another: a consumer may read one at its new
    /// position while another is still at the old one.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn seek(&self, group: &str, queue: &str, partition: Option<&str>, to: Seek) -> Result<Option<usize>> {
        check("consumerGroup", group)?;
        check("queue", queue)?;
        partition.map_or(Ok(()), |partition| check("partition", partition))?;
        match self.queues_of(group, Some(queue)).await?.first() {
            Some(queue) => self.move_all(queue, group, partition, Target::To(to)).await.map(Some),
            None => Ok(None),
        }
    }

    async fn queues_of(&self, group: &str, queue: Option<&str>) -> Result<Vec<GroupQueue>> {
        let inner = &self.inner;
        let rows =
            inner.db.ask("find a group", || sqlx::query(&inner.sql.find_consumers).bind(group).bind(queue)).await?;
        let queue = |row: &PgRow| {
            Ok(GroupQueue { consumer: row.try_get(0)?, queue_id: row.try_get(1)?, queue: row.try_get(2)? })
        };
        rows.iter().map(queue).collect()
    }

    async fn move_all(&self, queue: &GroupQueue, group: &str, partition: Option<&str>, to: Target) -> Result<usize> {
        let heads = self.inner.heads(queue.queue_id, partition).await?;
        let partitions: Vec<i64> = heads.iter().map(|head| head.partition).collect();
        let mut moved = 0;
        for chunk in partitions.chunks(TOGETHER) {
            let entry = Entry::new("group.seek", format!("{}/{group}", queue.queue));
            let entry = entry.map(|entry| entry.detail(format!("{{\"to\":\"{}\"}}", to.position().0)));
            moved += self.seek_partitions(&queue.queue, chunk, Some(group), to, entry).await?;
        }
        Ok(moved)
    }

    /// Moves the cursors of a group, or of all, in partitions of a queue; see `functions/seek.sql`. Returns their
    /// number. `entry` is written if there are any.
    pub(crate) async fn seek_partitions(
        &self,
        queue: &str,
        partitions: &[i64],
        group: Option<&str>,
        to: Target,
        entry: Option<Entry>,
    ) -> Result<usize> {
        let inner = &self.inner;
        let (position, since) = to.position();
        let query = || sqlx::query(&inner.sql.seek).bind(partitions).bind(group).bind(position).bind(since);
        let rows = inner.db.act("seek", entry, query, |rows| !rows.is_empty()).await?;
        let mut groups: Vec<String> = Vec::new();
        for row in &rows {
            let group: String = row.try_get(1)?;
            if row.try_get(2)? && !groups.contains(&group) {
                groups.push(group);
            }
        }
        let wake_ups: Vec<reveille_wake::WakeUp> =
            groups.iter().map(|group| released(&inner.channel, queue, group)).collect();
        inner.wake.wake_up(&wake_ups);
        Ok(rows.len())
    }
}

/// A queue that a group reads.
struct GroupQueue {
    consumer: i32,
    queue_id: i32,
    queue: String,
}
