//! Consumer groups: how far they have come, moving them, and removing them.
//!
//! A consumer may be reading while somebody moves its group. So a cursor is moved under its own lock, its lease ends with that, and what the consumer says afterwards of messages it
//! had is refused as too late. Whoever waits is rung, because there may be something to read again.

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

/// Partitions whose cursors are moved in one transaction: as long as nobody of the group can read them.
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
    /// When it was first seen.
    pub created_at: OffsetDateTime,
    /// Partitions of the queue.
    pub partitions: u64,
    /// Those in which something waits for it.
    pub lagging_partitions: u64,
    /// Messages that wait for it, those it is reading among them.
    pub lag: u64,
    /// How long the oldest of them has waited.
    pub lag_seconds: f64,
    /// Partitions that somebody reads for it.
    pub leases: u64,
    /// When somebody last got something for it.
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
                _ => Subscription::All,
            },
            created_at: row.try_get("created_at")?,
            partitions: count("partitions")?,
            lagging_partitions: count("lagging")?,
            lag: count("lag")?,
            lag_seconds: row.try_get("lag_seconds")?,
            leases: count("leases")?,
            read_at: row.try_get("read_at")?,
        })
    }
}

/// A partition in which something waits for a consumer group.
#[derive(Debug, Clone, PartialEq)]
pub struct Lagging {
    /// The group.
    pub group: String,
    /// The queue.
    pub queue: String,
    /// The partition.
    pub partition: String,
    /// The id of that.
    pub partition_id: PartitionId,
    /// Messages that wait.
    pub lag: u64,
    /// How long the oldest of them has.
    pub lag_seconds: f64,
    /// The offset of that.
    pub position: i64,
    /// The offset of the next message to be pushed.
    pub head: i64,
    /// Until when somebody has a lease on it.
    pub leased_until: Option<OffsetDateTime>,
    /// How often the oldest was refused.
    pub retries: u32,
    /// When the group last got something of it.
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
    /// To what comes next.
    End,
    /// To the first message that is not older.
    Time(OffsetDateTime),
}

/// Where to move cursors.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    To(Seek),
    /// To where the group began.
    Subscription,
    /// To the first message there is, those that are before it.
    First,
}

impl Queues {
    /// Consumer groups, one of each queue they read: all, those of one name, of one queue, or of both.
    ///
    /// # Errors
    /// The database's.
    pub async fn groups(&self, group: Option<&str>, queue: Option<&str>) -> Result<Vec<Group>> {
        group.map_or(Ok(()), |group| check("consumerGroup", group))?;
        queue.map_or(Ok(()), |queue| check("queue", queue))?;
        let inner = &self.inner;
        let rows = inner.db.ask("list groups", || sqlx::query(&inner.sql.lags).bind(group).bind(queue)).await?;
        rows.iter().map(Group::of).collect()
    }

    /// The partitions in which something has waited for a consumer group for at least so long; longest first.
    ///
    /// # Errors
    /// The database's.
    pub async fn lagging(&self, group: Option<&str>, least: Duration, limit: u32) -> Result<Vec<Lagging>> {
        group.map_or(Ok(()), |group| check("consumerGroup", group))?;
        let inner = &self.inner;
        let query = || sqlx::query(&inner.sql.lagging).bind(least.as_secs_f64()).bind(group).bind(i64::from(limit));
        let rows = inner.db.ask("list lagging partitions", query).await?;
        rows.iter().map(|row| Lagging::of(row, inner.ids)).collect()
    }

    /// Removes a consumer group, from one queue or from all; how many queues it had. If it comes back it begins where it then says, which by default is the first message.
    ///
    /// `keeps_subscription`: it stays, and begins again where it once began.
    ///
    /// # Errors
    /// The database's.
    pub async fn delete_group(&self, group: &str, queue: Option<&str>, keeps_subscription: bool) -> Result<usize> {
        check("consumerGroup", group)?;
        queue.map_or(Ok(()), |queue| check("queue", queue))?;
        let inner = &self.inner;
        let homes = self.homes(group, queue).await?;
        for home in &homes {
            if keeps_subscription {
                self.move_all(home, group, None, Target::Subscription).await?;
            } else {
                inner.db.ask("delete a group", || sqlx::query(&inner.sql.unsubscribe).bind(home.consumer)).await?;
                // Whoever waits for it begins again.
                inner.wake.wake_up(&[released(&inner.channel, &home.queue, group)]);
            }
        }
        Ok(homes.len())
    }

    /// Changes where a consumer group is said to have begun; how many queues it has. Nothing moves: that happens if it is deleted and keeps its subscription.
    ///
    /// # Errors
    /// The database's.
    pub async fn resubscribe(&self, group: &str, since: OffsetDateTime) -> Result<usize> {
        check("consumerGroup", group)?;
        let inner = &self.inner;
        let query = || sqlx::query(&inner.sql.resubscribe).bind(group).bind(since);
        Ok(inner.db.ask("change a subscription", query).await?.len())
    }

    /// Moves a consumer group in a queue, or in one of its partitions, forwards or backwards; how many cursors. `None`: the queue has no such group.
    ///
    /// Current leases of the group are lost. Partitions are moved one after another: a consumer may read one at its new
    /// position while another is still at the old one.
    ///
    /// # Errors
    /// The database's.
    pub async fn seek(&self, group: &str, queue: &str, partition: Option<&str>, to: Seek) -> Result<Option<usize>> {
        check("consumerGroup", group)?;
        check("queue", queue)?;
        partition.map_or(Ok(()), |partition| check("partition", partition))?;
        match self.homes(group, Some(queue)).await?.first() {
            Some(home) => self.move_all(home, group, partition, Target::To(to)).await.map(Some),
            None => Ok(None),
        }
    }

    async fn homes(&self, group: &str, queue: Option<&str>) -> Result<Vec<Home>> {
        let inner = &self.inner;
        let rows =
            inner.db.ask("find a group", || sqlx::query(&inner.sql.find_consumers).bind(group).bind(queue)).await?;
        let home =
            |row: &PgRow| Ok(Home { consumer: row.try_get(0)?, queue_id: row.try_get(1)?, queue: row.try_get(2)? });
        rows.iter().map(home).collect()
    }

    async fn move_all(&self, home: &Home, group: &str, partition: Option<&str>, to: Target) -> Result<usize> {
        let heads = self.inner.heads(home.queue_id, partition).await?;
        let partitions: Vec<i64> = heads.iter().map(|head| head.partition).collect();
        let mut moved = 0;
        for few in partitions.chunks(TOGETHER) {
            moved += self.seek_partitions(&home.queue, few, Some(group), to).await?;
        }
        Ok(moved)
    }

    /// Moves the cursors of a group, or of all, in some partitions of a queue; see `functions/seek.sql`. How many.
    pub(crate) async fn seek_partitions(
        &self,
        queue: &str,
        partitions: &[i64],
        group: Option<&str>,
        to: Target,
    ) -> Result<usize> {
        let inner = &self.inner;
        let (position, since) = match to {
            Target::To(Seek::End) => ("end", None),
            Target::To(Seek::Time(since)) => ("time", Some(since)),
            Target::Subscription => ("subscription", None),
            Target::First => ("first", None),
        };
        let query = || sqlx::query(&inner.sql.seek).bind(partitions).bind(group).bind(position).bind(since);
        let rows = inner.db.ask("seek", query).await?;
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

/// A group's position in a queue.
struct Home {
    consumer: i32,
    queue_id: i32,
    queue: String,
}
