//! Looking at messages, and changing what becomes of one.
//!
//! Messages are packed into segments that others read by position, so a message that is deleted leaves its place behind, empty: no offset changes, no cursor moves, and a reader passes
//! over it. Its transaction id is free again with that.

use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::admin::dead_letters::{DeadLetter, DeadLetterFilter};
use crate::admin::resources::Page;
use crate::error::{Error, Result};
use crate::id::{Ids, PartitionId};
use crate::name::{QUEUE_MODE, check, check_text, hash};
use crate::queues::Queues;
use crate::storage::encryption::Label;
use crate::storage::partition_ref::released;

/// What becomes of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageStatus {
    /// Some consumer group has still to read it, or there is none.
    Pending,
    /// Somebody has a lease on it.
    Processing,
    /// Every consumer group has ended it.
    Completed,
}

impl MessageStatus {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            MessageStatus::Pending => "pending",
            MessageStatus::Processing => "processing",
            MessageStatus::Completed => "completed",
        }
    }

    fn of(name: &str) -> MessageStatus {
        match name {
            "completed" => MessageStatus::Completed,
            "processing" => MessageStatus::Processing,
            _ => MessageStatus::Pending,
        }
    }
}

/// Which messages. `None`: any.
#[derive(Debug, Clone, Default)]
pub struct MessageFilter {
    /// Those of a queue.
    pub queue: Option<String>,
    /// Those of partitions of this name.
    pub partition: Option<String>,
    /// Those of queues of a namespace.
    pub namespace: Option<String>,
    /// Those of queues of a task.
    pub task: Option<String>,
    /// Those that have come so far.
    pub status: Option<MessageStatus>,
    /// Those that are not older.
    pub from: Option<OffsetDateTime>,
    /// Those that are older.
    pub before: Option<OffsetDateTime>,
}

impl MessageFilter {
    fn check(&self) -> Result<()> {
        let names =
            [("queue", &self.queue), ("partition", &self.partition), ("ns", &self.namespace), ("task", &self.task)];
        names.into_iter().try_for_each(|(what, name)| check_text(what, name.as_deref().unwrap_or_default()))
    }
}

/// A message, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageState {
    /// Its id.
    pub id: Uuid,
    /// The producer's id of it.
    pub transaction_id: String,
    /// What it belongs to.
    pub trace_id: Option<String>,
    /// Who pushed it.
    pub producer: Option<String>,
    /// Its partition's id.
    pub partition_id: PartitionId,
    /// Its partition.
    pub partition: String,
    /// Its queue.
    pub queue: String,
    /// The namespace of that.
    pub namespace: String,
    /// The task of that.
    pub task: String,
    /// The priority of that.
    pub priority: i32,
    /// Its place in the partition.
    pub offset: i64,
    /// When it was stored.
    pub created_at: OffsetDateTime,
}

impl MessageState {
    fn of(row: &PgRow, ids: Ids) -> sqlx::Result<MessageState> {
        Ok(MessageState {
            id: row.try_get("id")?,
            transaction_id: row.try_get("transaction_id")?,
            trace_id: row.try_get("trace_id")?,
            producer: row.try_get("producer")?,
            partition_id: ids.partition(row.try_get("partition_id")?),
            partition: row.try_get("partition")?,
            queue: row.try_get("queue")?,
            namespace: row.try_get("namespace")?,
            task: row.try_get("task")?,
            priority: row.try_get("priority")?,
            offset: row.try_get("message_offset")?,
            created_at: row.try_get("created_at")?,
        })
    }
}

/// A message of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedMessage {
    /// The message.
    pub message: MessageState,
    /// How far it has come.
    pub status: MessageStatus,
    /// How many consumer groups read its partition.
    pub groups: u64,
    /// How many of them have ended it.
    pub consumed_by: u64,
    /// Until when somebody has it.
    pub leased_until: Option<OffsetDateTime>,
}

/// How queues are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingMode {
    /// Somebody reads without a consumer group.
    pub without_group: bool,
    /// How many consumer groups read.
    pub groups: u64,
}

/// How far a consumer group is with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    /// The group.
    pub group: String,
    /// How far.
    pub status: MessageStatus,
    /// Until when somebody has it.
    pub leased_until: Option<OffsetDateTime>,
    /// How often it was refused, if it is the first the group has to read.
    pub retries: u32,
}

/// All about a message.
#[derive(Debug, Clone)]
pub struct MessageDetail {
    /// The message.
    pub message: MessageState,
    /// As it was pushed.
    pub payload: Box<RawValue>,
    /// The consumer groups that read it.
    pub readers: Vec<Reader>,
}

impl MessageDetail {
    /// How far it has come.
    pub fn status(&self) -> MessageStatus {
        let any = |status| self.readers.iter().any(|reader| reader.status == status);
        if any(MessageStatus::Processing) {
            MessageStatus::Processing
        } else if self.readers.is_empty() || any(MessageStatus::Pending) {
            MessageStatus::Pending
        } else {
            MessageStatus::Completed
        }
    }
}

/// What trying again has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retried {
    /// So many dead letters are messages again.
    Replayed(usize),
    /// So many consumer groups that waited to try it again may do so now.
    Released(usize),
    /// There is such a message, and nothing to try again.
    Nothing,
}

/// Where a message is.
struct Found {
    message: MessageState,
    partition: i64,
    segment: i64,
    element: i32,
    encrypted: bool,
    payload: Vec<u8>,
}

impl Queues {
    /// Messages, newest first. A page may be shorter than asked for where messages were deleted.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no name; else the database's.
    pub async fn messages(&self, filter: &MessageFilter, page: Page) -> Result<Vec<ListedMessage>> {
        filter.check()?;
        let inner = &self.inner;
        let query = || {
            sqlx::query(&inner.sql.list_messages)
                .bind(&filter.queue)
                .bind(&filter.partition)
                .bind(&filter.namespace)
                .bind(&filter.task)
                .bind(filter.status.map(MessageStatus::name))
                .bind(filter.from)
                .bind(filter.before)
                .bind(page.limit())
                .bind(page.offset())
        };
        let listed = |row: &PgRow| {
            Ok(ListedMessage {
                message: MessageState::of(row, inner.ids)?,
                status: MessageStatus::of(row.try_get("status")?),
                groups: row.try_get::<i64, _>("groups")? as u64,
                consumed_by: row.try_get::<i64, _>("consumed_by")? as u64,
                leased_until: row.try_get("leased_until")?,
            })
        };
        inner.db.ask("list messages", query).await?.iter().map(listed).collect()
    }

    /// How the queues that a filter means are read.
    ///
    /// # Errors
    /// The database's.
    pub async fn reading_mode(&self, filter: &MessageFilter) -> Result<ReadingMode> {
        filter.check()?;
        let inner = &self.inner;
        let query = || {
            let query = sqlx::query(&inner.sql.reading_modes).bind(&filter.queue);
            query.bind(&filter.namespace).bind(&filter.task)
        };
        let rows = inner.db.ask("find out how queues are read", query).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        Ok(ReadingMode { without_group: row.try_get(0)?, groups: row.try_get::<i64, _>(1)? as u64 })
    }

    /// All about a message. `None`: there is none, or no more; it may still be a [dead letter](Self::dead_letters).
    ///
    /// # Errors
    /// [`Error::WrongKey`] if its key is not here, [`Error::Damaged`] if no key opens it; else the database's.
    pub async fn message(&self, partition: PartitionId, transaction_id: &str) -> Result<Option<MessageDetail>> {
        let Some(found) = self.find(partition, transaction_id).await? else { return Ok(None) };
        let inner = &self.inner;
        let query = || sqlx::query(&inner.sql.message_readers).bind(found.partition).bind(found.message.offset);
        let reader = |row: &PgRow| {
            Ok(Reader {
                group: row.try_get("name")?,
                status: MessageStatus::of(row.try_get("status")?),
                leased_until: row.try_get("leased_until")?,
                retries: row.try_get::<i32, _>("retries")? as u32,
            })
        };
        let readers = inner.db.ask("find readers", query).await?.iter().map(reader).collect::<Result<_>>()?;
        let MessageState { queue, partition, transaction_id, id, .. } = &found.message;
        let label = Label { queue, partition, transaction_id, id: *id };
        let payload = inner.encryption.open(found.encrypted, &label, found.payload).map_err(|why| {
            inner.encryption.failures.unopened(queue, why);
            why.of(queue)
        })?;
        let payload = payload.ok_or_else(|| Error::Damaged { queue: queue.clone() })?;
        Ok(Some(MessageDetail { message: found.message, payload, readers }))
    }

    /// Deletes a message: nobody reads it any more, and its transaction id may come again. Whoever has it may still ack it. `false`: there is none.
    ///
    /// # Errors
    /// The database's.
    pub async fn delete_message(&self, partition: PartitionId, transaction_id: &str) -> Result<bool> {
        let Some(found) = self.find(partition, transaction_id).await? else { return Ok(false) };
        let inner = &self.inner;
        let query = || {
            let query = sqlx::query(&inner.sql.erase_message).bind(found.partition).bind(found.segment);
            query.bind(found.element).bind(found.message.id)
        };
        let erased = !inner.db.ask("delete a message", query).await?.is_empty();
        inner.dedup_cache().unlearn(found.partition, hash(transaction_id), found.message.offset);
        Ok(erased)
    }

    /// Makes a message a dead letter of the queue itself: no consumer group reads it any more. `false`: there is none.
    ///
    /// # Errors
    /// The database's.
    pub async fn bury_message(&self, partition: PartitionId, transaction_id: &str, why: &str) -> Result<bool> {
        let Some(Found { message, .. }) = self.find(partition, transaction_id).await? else { return Ok(false) };
        let buried = self.bury(partition, message.offset, message.id, transaction_id, why).await?;
        self.inner.counters.dead_lettered(&message.queue, QUEUE_MODE, usize::from(buried));
        Ok(buried)
    }

    /// As [`bury_message`](Self::bury_message), of one whose place is known.
    pub(crate) async fn bury(
        &self,
        partition: PartitionId,
        offset: i64,
        id: Uuid,
        transaction_id: &str,
        why: &str,
    ) -> Result<bool> {
        let inner = &self.inner;
        let Some(number) = inner.ids.number(partition) else { return Ok(false) };
        let why = why.replace('\0', "\u{fffd}");
        let query = || {
            let query = sqlx::query(&inner.sql.bury_message).bind(number).bind(offset);
            query.bind(id).bind(QUEUE_MODE).bind(&why)
        };
        let buried = !inner.db.ask("bury a message", query).await?.is_empty();
        inner.dedup_cache().unlearn(number, hash(transaction_id), offset);
        Ok(buried)
    }

    /// Lets a message come again: its dead letters are pushed anew, or who waits to try it again does so now. `None`: there is no such message.
    ///
    /// # Errors
    /// As [`replay`](Self::replay).
    pub async fn retry_message(&self, partition: PartitionId, transaction_id: &str) -> Result<Option<Retried>> {
        let filter = DeadLetterFilter {
            partition_id: Some(partition),
            transaction_id: Some(transaction_id.to_owned()),
            ..DeadLetterFilter::default()
        };
        let replayed = self.replay(&filter).await?;
        if replayed.replayed > 0 {
            return Ok(Some(Retried::Replayed(replayed.replayed)));
        }
        if let Some(reason) = replayed.kept.into_iter().next() {
            return Err(Error::RolledBack { reason });
        }
        let Some(found) = self.find(partition, transaction_id).await? else { return Ok(None) };
        let inner = &self.inner;
        let query = || sqlx::query(&inner.sql.retry_now).bind(found.partition).bind(found.message.offset);
        let groups: Vec<String> =
            inner.db.ask("retry", query).await?.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<_>>()?;
        let wake_ups: Vec<reveille_wake::WakeUp> =
            groups.iter().map(|group| released(&inner.channel, &found.message.queue, group)).collect();
        inner.wake.wake_up(&wake_ups);
        Ok(Some(if groups.is_empty() { Retried::Nothing } else { Retried::Released(groups.len()) }))
    }

    /// The dead letters that a message has become.
    ///
    /// # Errors
    /// The database's.
    pub async fn dead_letters_of(&self, partition: PartitionId, transaction_id: &str) -> Result<Vec<DeadLetter>> {
        let filter = DeadLetterFilter {
            partition_id: Some(partition),
            transaction_id: Some(transaction_id.to_owned()),
            ..DeadLetterFilter::default()
        };
        Ok(self.dead_letters(&filter, Page { limit: 100, offset: 0 }).await?.rows)
    }

    async fn find(&self, partition: PartitionId, transaction_id: &str) -> Result<Option<Found>> {
        check("transactionId", transaction_id)?;
        let inner = &self.inner;
        let Some(number) = inner.ids.number(partition) else { return Ok(None) };
        let hash = hash(transaction_id);
        // Where this process has seen it; if that is no longer so, wherever it is.
        let remembered = inner.dedup_cache().offset(number, hash);
        for offset in [remembered, None].into_iter().skip(usize::from(remembered.is_none())) {
            let query = || {
                let query = sqlx::query(&inner.sql.find_message).bind(number).bind(hash);
                query.bind(transaction_id).bind(offset)
            };
            let rows = inner.db.ask("find a message", query).await?;
            let Some(row) = rows.first() else { continue };
            return Ok(Some(Found {
                message: MessageState::of(row, inner.ids)?,
                partition: number,
                segment: row.try_get("segment")?,
                element: row.try_get::<i64, _>("element")? as i32,
                encrypted: row.try_get("encrypted")?,
                payload: row.try_get("payload")?,
            }));
        }
        Ok(None)
    }
}
