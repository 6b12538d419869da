//! Inspecting, deleting and retrying single messages.
//!
//! Messages are stored in segments and found by their position. So a deleted message leaves an empty position: no
//! offset changes, no cursor moves, and consumers skip it. Its transaction id is free again.

use reveille_pg::audit::Entry;
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
use crate::storage::statements::unknown_word;

/// How far a message has been consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageStatus {
    /// A consumer group has not consumed it, or there is no group.
    Pending,
    /// It is leased.
    Processing,
    /// Every consumer group has consumed it.
    Completed,
}

impl MessageStatus {
    /// Its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            MessageStatus::Pending => "pending",
            MessageStatus::Processing => "processing",
            MessageStatus::Completed => "completed",
        }
    }

    pub(crate) fn of(name: &str) -> sqlx::Result<MessageStatus> {
        match name {
            "pending" => Ok(MessageStatus::Pending),
            "processing" => Ok(MessageStatus::Processing),
            "completed" => Ok(MessageStatus::Completed),
            unknown => Err(unknown_word("message status", unknown)),
        }
    }
}

/// A filter of messages. `None`: any.
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
    /// Those with this status.
    pub status: Option<MessageStatus>,
    /// Those stored at this time or later.
    pub from: Option<OffsetDateTime>,
    /// Those stored before this time.
    pub before: Option<OffsetDateTime>,
}

impl MessageFilter {
    fn check(&self) -> Result<()> {
        let names =
            [("queue", &self.queue), ("partition", &self.partition), ("ns", &self.namespace), ("task", &self.task)];
        names.into_iter().try_for_each(|(what, name)| check_text(what, name.as_deref().unwrap_or_default()))
    }
}

/// A message without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageState {
    /// Its id.
    pub id: Uuid,
    /// The transaction id that the producer gave it.
    pub transaction_id: String,
    /// Its id for tracing.
    pub trace_id: Option<String>,
    /// The name of the producer.
    pub producer: Option<String>,
    /// Its partition's id.
    pub partition_id: PartitionId,
    /// Its partition.
    pub partition: String,
    /// Its queue.
    pub queue: String,
    /// The namespace of its queue.
    pub namespace: String,
    /// The task of its queue.
    pub task: String,
    /// The priority of its queue.
    pub priority: i32,
    /// Its position in the partition.
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
    /// Its status.
    pub status: MessageStatus,
    /// The number of consumer groups that read its partition.
    pub groups: u64,
    /// The number of them that have consumed it.
    pub consumed_by: u64,
    /// The end of its lease, if it is leased.
    pub leased_until: Option<OffsetDateTime>,
}

/// How queues are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadingMode {
    /// A consumer reads without a consumer group.
    pub without_group: bool,
    /// The number of consumer groups.
    pub groups: u64,
}

/// The status of a message for a consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    /// The group.
    pub group: String,
    /// The status.
    pub status: MessageStatus,
    /// The end of its lease, if it is leased.
    pub leased_until: Option<OffsetDateTime>,
    /// How often it has been retried, if it is the first that the group has to read.
    pub retries: u32,
}

/// A message with its payload and readers.
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
    /// Its status.
    pub fn status(&self) -> MessageStatus {
        status(&self.readers)
    }
}

/// The status of a message that is read like this.
pub(crate) fn status(readers: &[Reader]) -> MessageStatus {
    let any = |status| readers.iter().any(|reader| reader.status == status);
    if any(MessageStatus::Processing) {
        MessageStatus::Processing
    } else if readers.is_empty() || any(MessageStatus::Pending) {
        MessageStatus::Pending
    } else {
        MessageStatus::Completed
    }
}

/// The result of a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retried {
    /// The number of dead letters that were replayed.
    Replayed(usize),
    /// The number of consumer groups that can read it now, before the end of their retry delay.
    Released(usize),
    /// The message exists, and there is nothing to retry.
    Nothing,
}

/// A message, and its position in the database.
pub(crate) struct Found {
    pub(crate) message: MessageState,
    pub(crate) partition: i64,
    pub(crate) segment: i64,
    pub(crate) element: i32,
    pub(crate) encrypted: bool,
    pub(crate) payload: Vec<u8>,
}

impl Queues {
    /// Messages, newest first. A page may be shorter than asked for where messages were deleted.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid name; otherwise those of the database.
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
                status: MessageStatus::of(row.try_get("status")?)?,
                groups: row.try_get::<i64, _>("groups")? as u64,
                consumed_by: row.try_get::<i64, _>("consumed_by")? as u64,
                leased_until: row.try_get("leased_until")?,
            })
        };
        inner.db.ask("list messages", query).await?.iter().map(listed).collect()
    }

    /// How the queues of a filter are read.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn reading_mode(&self, filter: &MessageFilter) -> Result<ReadingMode> {
        filter.check()?;
        let inner = &self.inner;
        let query = || {
            let query = sqlx::query(&inner.sql.reading_modes).bind(&filter.queue);
            query.bind(&filter.namespace).bind(&filter.task)
        };
        let rows = inner.db.ask("find reading modes", query).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        Ok(ReadingMode { without_group: row.try_get(0)?, groups: row.try_get::<i64, _>(1)? as u64 })
    }

    /// A message with its payload and readers. `None`: it does not exist, or is only a dead letter.
    ///
    /// # Errors
    /// [`Error::WrongKey`] or [`Error::Damaged`] if it cannot be decrypted; otherwise those of the database.
    pub async fn message(&self, partition: PartitionId, transaction_id: &str) -> Result<Option<MessageDetail>> {
        let Some(found) = self.find(partition, transaction_id).await? else { return Ok(None) };
        let inner = &self.inner;
        let readers = self.readers(&found).await?;
        let MessageState { queue, partition, transaction_id, id, .. } = &found.message;
        let label = Label { queue, partition, transaction_id, id: *id };
        let payload = inner.encryption.open(found.encrypted, &label, found.payload).map_err(|why| {
            inner.encryption.failures.unopened(queue, why);
            why.of(queue)
        })?;
        let payload = payload.ok_or_else(|| Error::Damaged { queue: queue.clone() })?;
        Ok(Some(MessageDetail { message: found.message, payload, readers }))
    }

    /// Deletes a message, whose transaction id is free again. A consumer that has it may still ack it. `false`: none.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn delete_message(&self, partition: PartitionId, transaction_id: &str) -> Result<bool> {
        let Some(found) = self.find(partition, transaction_id).await? else { return Ok(false) };
        let inner = &self.inner;
        let query = || {
            let query = sqlx::query(&inner.sql.erase_message).bind(found.partition).bind(found.segment);
            query.bind(found.element).bind(found.message.id)
        };
        let entry = Entry::new("message.delete", format!("{partition}/{transaction_id}"));
        let erased = !inner.db.act("delete a message", entry, query, |rows| !rows.is_empty()).await?.is_empty();
        inner.dedup_cache().unlearn(found.partition, hash(transaction_id), found.message.offset);
        Ok(erased)
    }

    /// Makes a message a dead letter: no consumer group reads it any more. `false`: there is none.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn make_dead_letter(&self, partition: PartitionId, transaction_id: &str, why: &str) -> Result<bool> {
        let Some(Found { message, .. }) = self.find(partition, transaction_id).await? else { return Ok(false) };
        let is_done = self.dead_letter_at(partition, message.offset, message.id, transaction_id, why).await?;
        self.inner.counters.dead_lettered(&message.queue, QUEUE_MODE, usize::from(is_done));
        Ok(is_done)
    }

    /// As [`make_dead_letter`](Self::make_dead_letter), for a message at a known offset.
    pub(crate) async fn dead_letter_at(
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
            let query = sqlx::query(&inner.sql.make_dead_letter).bind(number).bind(offset);
            query.bind(id).bind(QUEUE_MODE).bind(&why)
        };
        let entry = Entry::new("message.dead_letter", format!("{partition}/{transaction_id}"));
        let is_done = !inner.db.act("make a dead letter", entry, query, |rows| !rows.is_empty()).await?.is_empty();
        inner.dedup_cache().unlearn(number, hash(transaction_id), offset);
        Ok(is_done)
    }

    /// Retries a message: replays its dead letters, or ends its retry delays. `None`: there is no such message.
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
        if let Some(reason) = replayed.skipped.into_iter().next() {
            return Err(Error::RolledBack { reason });
        }
        let Some(found) = self.find(partition, transaction_id).await? else { return Ok(None) };
        let inner = &self.inner;
        let query = || sqlx::query(&inner.sql.retry_now).bind(found.partition).bind(found.message.offset);
        let entry = Entry::new("message.retry", format!("{partition}/{transaction_id}"));
        let groups: Vec<String> = inner
            .db
            .act("retry", entry, query, |rows| !rows.is_empty())
            .await?
            .iter()
            .map(|row| row.try_get(0))
            .collect::<sqlx::Result<_>>()?;
        let wake_ups: Vec<reveille_wake::WakeUp> =
            groups.iter().map(|group| released(&inner.channel, &found.message.queue, group)).collect();
        inner.wake.wake_up(&wake_ups);
        Ok(Some(if groups.is_empty() { Retried::Nothing } else { Retried::Released(groups.len()) }))
    }

    /// The dead letters of a message.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn dead_letters_of(&self, partition: PartitionId, transaction_id: &str) -> Result<Vec<DeadLetter>> {
        let filter = DeadLetterFilter {
            partition_id: Some(partition),
            transaction_id: Some(transaction_id.to_owned()),
            ..DeadLetterFilter::default()
        };
        Ok(self.dead_letters(&filter, Page { limit: 100, offset: 0 }).await?.rows)
    }

    pub(crate) async fn find(&self, partition: PartitionId, transaction_id: &str) -> Result<Option<Found>> {
        check("transactionId", transaction_id)?;
        let inner = &self.inner;
        let Some(number) = inner.ids.number(partition) else { return Ok(None) };
        let hash = hash(transaction_id);
        // At the cached offset; if it is not there, anywhere in the partition.
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
