//! The options of a queue.
//!
//! Most clients send most options with every `create`, whether their user asked for them or not. So an option that is
//! not sent stays as it is, and one that is sent counts, even if it is the default. Two defaults that clients know are
//! only echoed: `retryDelay` and `ttl` have no effect until they are set.

use reveille_pg::audit::Entry;
use std::ops::RangeInclusive;

use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::id::PartitionId;
use crate::name::{DEFAULT_PARTITION, check, check_text, dotted};
use crate::queues::Queues;
use crate::storage::partition_ref::released;

/// Ten years; 0 is without a limit.
const TEN_YEARS: i64 = 10 * 365 * 86_400;
const WEEK: i64 = 7 * 86_400;

/// Options to change. `None` stays as it is, or is the default of a new queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// The lease time of a pop: `leaseTime`, 300 s.
    pub lease_seconds: Option<i64>,
    /// How often a message that fails, or whose lease expires, is redelivered: `retryLimit`, 3.
    pub retry_limit: Option<i64>,
    /// The delay before a redelivery: `retryDelay`. None until it is set.
    pub retry_delay_ms: Option<i64>,
    /// The most messages that are not consumed: `maxSize`; 0: any number.
    pub max_size: Option<i64>,
    /// The age at which a message is deleted, consumed or not: `ttl`. None until it is set; 0: none.
    pub ttl_seconds: Option<i64>,
    /// Stored and echoed only: every queue has dead letters.
    pub dead_letter_queue: Option<bool>,
    /// Stored and echoed only.
    pub dlq_after_max_retries: Option<bool>,
    /// Of several queues of a namespace, the one with the highest priority is read first.
    pub priority: Option<i64>,
    /// The age at which a message can be read: `delayedProcessing`.
    pub delayed_processing_seconds: Option<i64>,
    /// How long after the last push a partition can be read: `windowBuffer`.
    pub window_buffer_seconds: Option<i64>,
    /// The age at which a message is deleted, consumed or not, if `retentionEnabled`; 0: never.
    pub retention_seconds: Option<i64>,
    /// The age at which a message is deleted that every consumer group has consumed, if `retentionEnabled`; 0: never.
    pub completed_retention_seconds: Option<i64>,
    /// Whether the two options above apply.
    pub retention_enabled: Option<bool>,
    /// Whether payloads are stored encrypted from now on.
    pub encryption_enabled: Option<bool>,
    /// How long a message waits for a consumer group before the group skips it: `maxWaitTimeSeconds`; 0: without limit.
    pub max_wait_time_seconds: Option<i64>,
    /// Whether a lease that expires without an ack counts against `retryLimit`, as a failed ack does:
    /// `chargeExpiredLeases`, true. If not, its messages are redelivered any number of times.
    pub charge_expired_leases: Option<bool>,
    /// The age at which a message is deleted that every consumer group has consumed, unless `retentionEnabled`:
    /// `consumedRetentionSeconds`, a day; 0: never.
    pub consumed_retention_seconds: Option<i64>,
}

impl Change {
    pub(crate) fn check(&self) -> Result<()> {
        let seconds = 0..=TEN_YEARS;
        let numbers: [(&'static str, Option<i64>, RangeInclusive<i64>); 12] = [
            ("leaseTime", self.lease_seconds, 1..=WEEK),
            ("retryLimit", self.retry_limit, 0..=1_000_000),
            ("retryDelay", self.retry_delay_ms, 0..=WEEK * 1_000),
            ("maxSize", self.max_size, 0..=1_000_000_000_000),
            ("ttl", self.ttl_seconds, seconds.clone()),
            ("priority", self.priority, -1_000_000..=1_000_000),
            ("delayedProcessing", self.delayed_processing_seconds, seconds.clone()),
            ("windowBuffer", self.window_buffer_seconds, seconds.clone()),
            ("retentionSeconds", self.retention_seconds, seconds.clone()),
            ("completedRetentionSeconds", self.completed_retention_seconds, seconds.clone()),
            ("maxWaitTimeSeconds", self.max_wait_time_seconds, seconds.clone()),
            ("consumedRetentionSeconds", self.consumed_retention_seconds, seconds),
        ];
        for (what, number, range) in numbers {
            if let Some(number) = number.filter(|number| !range.contains(number)) {
                let (least, most) = range.into_inner();
                return Err(Error::invalid(what, format!("must be between {least} and {most}, got {number}")));
            }
        }
        Ok(())
    }
}

/// The options of a queue; see [`Change`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `leaseTime`.
    pub lease_seconds: i32,
    /// `retryLimit`.
    pub retry_limit: i32,
    /// `retryDelay`, if it was set.
    pub retry_delay_ms: Option<i32>,
    /// `maxSize`.
    pub max_size: i64,
    /// `ttl`, if it was set.
    pub ttl_seconds: Option<i32>,
    /// `deadLetterQueue`.
    pub dead_letter_queue: bool,
    /// `dlqAfterMaxRetries`.
    pub dlq_after_max_retries: bool,
    /// `priority`.
    pub priority: i32,
    /// `delayedProcessing`.
    pub delayed_processing_seconds: i32,
    /// `windowBuffer`.
    pub window_buffer_seconds: i32,
    /// `retentionSeconds`.
    pub retention_seconds: i32,
    /// `completedRetentionSeconds`.
    pub completed_retention_seconds: i32,
    /// `retentionEnabled`.
    pub retention_enabled: bool,
    /// `encryptionEnabled`.
    pub encryption_enabled: bool,
    /// `maxWaitTimeSeconds`.
    pub max_wait_time_seconds: i32,
    /// `chargeExpiredLeases`.
    pub charge_expired_leases: bool,
    /// `consumedRetentionSeconds`.
    pub consumed_retention_seconds: i32,
}

impl Settings {
    /// The echoed `retryDelay` if it was never set.
    pub const RETRY_DELAY_MS: i32 = 1_000;
    /// The echoed `ttl` if it was never set.
    pub const TTL_SECONDS: i32 = 3_600;

    pub(crate) fn of(row: &PgRow) -> sqlx::Result<Settings> {
        Ok(Settings {
            lease_seconds: row.try_get("lease_seconds")?,
            retry_limit: row.try_get("retry_limit")?,
            retry_delay_ms: row.try_get("retry_delay_ms")?,
            max_size: row.try_get("max_size")?,
            ttl_seconds: row.try_get("ttl_seconds")?,
            dead_letter_queue: row.try_get("dead_letter_queue")?,
            dlq_after_max_retries: row.try_get("dlq_after_max_retries")?,
            priority: row.try_get("priority")?,
            delayed_processing_seconds: row.try_get("delayed_processing_seconds")?,
            window_buffer_seconds: row.try_get("window_buffer_seconds")?,
            retention_seconds: row.try_get("retention_seconds")?,
            completed_retention_seconds: row.try_get("completed_retention_seconds")?,
            retention_enabled: row.try_get("retention_enabled")?,
            encryption_enabled: row.try_get("encryption_enabled")?,
            max_wait_time_seconds: row.try_get("max_wait_time_seconds")?,
            charge_expired_leases: row.try_get("charge_expired_leases")?,
            consumed_retention_seconds: row.try_get("consumed_retention_seconds")?,
        })
    }
}

/// A configured queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    /// Its id.
    pub queue_id: Uuid,
    /// The id of its default partition.
    pub partition_id: PartitionId,
    /// Its name.
    pub queue: String,
    /// Its namespace; empty: none.
    pub namespace: String,
    /// Its task; empty: none.
    pub task: String,
    /// Its options.
    pub settings: Settings,
}

impl Queues {
    /// Creates a queue with its default partition, or changes its options. Waiting pops poll again.
    ///
    /// `namespace` and `task`: `None` stays as it is; the default of a new queue is the first and second dotted part of
    /// its name.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid option; [`Error::NoKey`] if encryption is enabled and this process has no key.
    /// Nothing was changed.
    pub async fn configure(
        &self,
        queue: &str,
        namespace: Option<&str>,
        task: Option<&str>,
        change: &Change,
    ) -> Result<Configured> {
        check("queue", queue)?;
        check_text("namespace", namespace.unwrap_or_default())?;
        check_text("task", task.unwrap_or_default())?;
        change.check()?;
        let inner = &self.inner;
        if change.encryption_enabled == Some(true) {
            inner.encryption.check(queue)?;
        }
        let (default_namespace, default_task) = dotted(queue);
        // Checked above: all but `maxSize` fit into 32 bits.
        let small = |number: Option<i64>| number.map(|number| number as i32);
        let query = || {
            sqlx::query(&inner.sql.configure)
                .bind(queue)
                .bind(namespace)
                .bind(task)
                .bind(small(change.lease_seconds))
                .bind(small(change.retry_limit))
                .bind(small(change.retry_delay_ms))
                .bind(change.max_size)
                .bind(small(change.ttl_seconds))
                .bind(change.dead_letter_queue)
                .bind(change.dlq_after_max_retries)
                .bind(small(change.priority))
                .bind(small(change.delayed_processing_seconds))
                .bind(small(change.window_buffer_seconds))
                .bind(small(change.retention_seconds))
                .bind(small(change.completed_retention_seconds))
                .bind(change.retention_enabled)
                .bind(small(change.consumed_retention_seconds))
                .bind(change.encryption_enabled)
                .bind(small(change.max_wait_time_seconds))
                .bind(change.charge_expired_leases)
                .bind(default_namespace)
                .bind(default_task)
        };
        let rows = inner
            .db
            .act("configure a queue", Entry::new("queue.configure", queue), query, |rows| !rows.is_empty())
            .await?;
        let clash = || Error::invalid("queue", "its hash collides with that of another queue");
        let row = rows.first().ok_or_else(clash)?;
        // Cached entries may be outdated.
        inner.partitions.forget(queue);
        let partitions = inner.open(&[(queue, DEFAULT_PARTITION)]).await?;
        let partition = partitions.first().ok_or_else(clash)?;
        let groups: Vec<String> = row.try_get("groups")?;
        let mut wake_ups = vec![partition.pushed(&inner.channel)];
        wake_ups.extend(groups.iter().map(|group| released(&inner.channel, queue, group)));
        inner.wake.wake_up(&wake_ups);
        Ok(Configured {
            queue_id: inner.ids.uuid(i64::from(row.try_get::<i32, _>("id")?)),
            partition_id: inner.ids.partition(partition.id),
            queue: queue.to_owned(),
            namespace: row.try_get("namespace")?,
            task: row.try_get("task")?,
            settings: Settings::of(row)?,
        })
    }
}
