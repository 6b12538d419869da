//! Maintenance: pushes that are buffered, and pops that find nothing.
//!
//! During push maintenance messages are stored in a table of their own, in order, and the segments are not changed. Its
//! end pushes them to their partitions. Each step is one transaction that pushes messages and deletes them from the
//! buffer, so that a process that dies loses and repeats none. The switch is turned when the buffer is empty, under a
//! lock that blocks the buffering of further messages, so that no new message overtakes a buffered one. The last step
//! runs under that lock, too, because a fast producer would otherwise make the drain endless.
//!

use reveille_pg::audit::Entry;
use std::collections::HashMap;
use std::sync::Arc;

use sqlx::postgres::PgRow;
use sqlx::{PgTransaction, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::name::hash;
use crate::produce::append::PendingHashes;
use crate::produce::push_write::{PushOutcome, PushWrite, StoredMessage};
use crate::queues::Queues;
use crate::storage::encryption::Label;
use crate::storage::partition_ref::PartitionRef;

/// Messages of one step of a drain.
const STEP: i64 = 500;
/// Bytes of one step.
const STEP_BYTES: i64 = 4 << 20;
/// How often a step is repeated because a partition has changed.
const REOPENED_MAX: usize = 5;

/// The state of maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maintenance {
    /// Pushes are buffered.
    pub push: bool,
    /// Pops find nothing.
    pub pop: bool,
    /// The number of buffered messages.
    pub buffered: u64,
    /// The bytes of their payloads.
    pub buffered_bytes: u64,
    /// When the oldest of them was pushed.
    pub oldest_at: Option<OffsetDateTime>,
}

impl Queues {
    /// The state of maintenance, which all servers of the schema share.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn maintenance(&self) -> Result<Maintenance> {
        let inner = &self.inner;
        let rows = inner.db.ask("ask for maintenance", || sqlx::query(&inner.sql.maintenance)).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        Ok(Maintenance {
            push: row.try_get("push")?,
            pop: row.try_get("pop")?,
            buffered: row.try_get::<i64, _>("buffered")? as u64,
            buffered_bytes: row.try_get::<i64, _>("bytes")? as u64,
            oldest_at: row.try_get("oldest_at")?,
        })
    }

    /// Begins or ends pop maintenance for all servers of the schema: pops find nothing until it ends. Then all waiting
    /// pops poll again.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn set_pop_maintenance(&self, on: bool) -> Result<()> {
        let inner = &self.inner;
        let entry = Entry::new("maintenance.pop", if on { "on" } else { "off" });
        let query = || sqlx::query(&inner.sql.set_maintenance).bind("pop").bind(on);
        inner.db.act("maintain pops", entry, query, |_| true).await?;
        if !on {
            inner.wake.wake_up(&[inner.channel.wake_up()]);
        }
        Ok(())
    }

    /// Begins or ends push maintenance for all servers of the schema: messages are buffered until it ends. Its end
    /// pushes them in their order, and then returns; messages that arrive meanwhile are buffered behind them.
    ///
    /// # Errors
    /// [`Error::NoKey`] or [`Error::WrongKey`] if a message cannot be encrypted as its queue now requires; otherwise
    /// those of the database. Maintenance continues, and no message is lost.
    ///
    /// # Cancel safety
    /// Dropping the future does not end the drain.
    pub async fn set_push_maintenance(&self, on: bool) -> Result<()> {
        let inner = &self.inner;
        if on {
            let query = || sqlx::query(&inner.sql.set_maintenance).bind("push").bind(on);
            inner.db.act("maintain pushes", Entry::new("maintenance.push", "on"), query, |_| true).await?;
            return Ok(());
        }
        let (queues, entry) = (self.clone(), Entry::new("maintenance.push", "off"));
        let drained = tokio::spawn(async move { queues.drain(entry).await }).await;
        drained.unwrap_or_else(|_| Err(Error::RolledBack { reason: "the process is stopping".to_owned() }))
    }

    async fn drain(&self, entry: Option<Entry>) -> Result<()> {
        let mut failures = 0;
        // First the buffered messages, step by step; then those that have arrived since, and the switch.
        let mut last = false;
        loop {
            match self.drain_step(last.then_some(entry.as_ref())).await {
                Ok(_) if last => return Ok(()),
                Ok(all) => last = all,
                Err(error) if failures < REOPENED_MAX && matches!(error, Error::RolledBack { .. }) => failures += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Pushes one step of the buffered messages; returns whether they were all. The last step pushes all, blocks
    /// further ones, and turns the switch.
    async fn drain_step(&self, last: Option<Option<&Entry>>) -> Result<bool> {
        let (last, entry) = (last.is_some(), last.flatten());
        let inner = &self.inner;
        let mut transaction = inner.db.begin().await?;
        sqlx::query(&inner.sql.lock_drain).execute(&mut *transaction).await?;
        if last {
            sqlx::query(&inner.sql.lock_switch).execute(&mut *transaction).await?;
        }
        let mut pending = PendingHashes::default();
        loop {
            let query = sqlx::query(&inner.sql.take_buffered).bind(STEP).bind(STEP_BYTES);
            let rows = query.fetch_all(&mut *transaction).await?;
            let bytes: usize = self.push_buffered(&mut transaction, &rows, &mut pending).await?;
            let all = (rows.len() as i64) < STEP && (bytes as i64) < STEP_BYTES;
            if last && all {
                let query = sqlx::query(&inner.sql.set_maintenance).bind("push").bind(false);
                query.execute(&mut *transaction).await?;
                if let Some(entry) = entry {
                    entry.write(&mut transaction).await?;
                }
            }
            if all || !last {
                transaction.commit().await?;
                inner.push.learn(pending);
                return Ok(all);
            }
        }
    }

    /// Pushes buffered messages and deletes them from the buffer; returns the bytes of their payloads.
    async fn push_buffered(
        &self,
        transaction: &mut PgTransaction<'_>,
        rows: &[PgRow],
        pending: &mut PendingHashes,
    ) -> Result<usize> {
        if rows.is_empty() {
            return Ok(0);
        }
        let inner = &self.inner;
        let mut by_partition: HashMap<(&str, &str), Vec<&PgRow>> = HashMap::new();
        let mut ids: Vec<i64> = Vec::with_capacity(rows.len());
        for row in rows {
            by_partition.entry((row.try_get("queue")?, row.try_get("partition")?)).or_default().push(row);
            ids.push(row.try_get("id")?);
        }
        let names: Vec<(&str, &str)> = by_partition.keys().copied().collect();
        let partitions = inner.open(&names).await?;
        let mut writes = Vec::with_capacity(names.len());
        for (name, partition) in names.iter().zip(partitions) {
            let messages =
                by_partition[name].iter().map(|row| self.stored_message(row, &partition)).collect::<Result<_>>()?;
            writes.push(PushWrite { partition, messages, drains: true });
        }
        writes.sort_by_key(|write| write.partition.id);
        let wake_ups: Vec<reveille_wake::WakeUp> =
            writes.iter().map(|write| write.partition.pushed(&inner.channel)).collect();
        let wake_ups = reveille_wake::Wake::notifications(&wake_ups);
        let writes: Vec<&PushWrite> = writes.iter().collect();
        let outcomes = inner.push.append_uncommitted(transaction, &writes, &wake_ups, pending).await?;
        if !outcomes.iter().all(|outcome| matches!(outcome, PushOutcome::Stored(_))) {
            names.iter().for_each(|(queue, _)| inner.partitions.forget(queue));
            writes.iter().for_each(|write| inner.dedup_cache().forget(write.partition.id));
            return Err(Error::RolledBack { reason: "a queue was changed by another request meanwhile".to_owned() });
        }
        sqlx::query(&inner.sql.delete_buffered).bind(ids).execute(&mut **transaction).await?;
        Ok(writes.iter().flat_map(|write| &write.messages).map(|message| message.payload.len()).sum())
    }

    /// A buffered message, encrypted as its queue now requires.
    fn stored_message(&self, row: &PgRow, partition: &Arc<PartitionRef>) -> Result<StoredMessage> {
        let encryption = &self.inner.encryption;
        let (encrypted, mut payload): (bool, Vec<u8>) = (row.try_get("encrypted")?, row.try_get("payload")?);
        let (id, transaction_id): (Uuid, String) = (row.try_get("message_id")?, row.try_get("transaction_id")?);
        if encrypted != partition.encrypted {
            let label =
                Label { queue: &partition.queue, partition: &partition.name, transaction_id: &transaction_id, id };
            let plain = encryption.open(encrypted, &label, payload).map_err(|why| {
                encryption.failures.unopened(&partition.queue, why);
                why.of(&partition.queue)
            })?;
            let plain = plain.ok_or_else(|| Error::Damaged { queue: partition.queue.clone() })?;
            payload = encryption.close(partition.encrypted, &label, plain.get())?;
        }
        Ok(StoredMessage {
            id,
            hash: hash(&transaction_id),
            transaction_id,
            payload,
            trace_id: row.try_get("trace_id")?,
            producer: row.try_get("producer")?,
        })
    }
}
