//! Pages of the messages of a queue, and a look at what a consumer group gets next.
//!
//! Reading leases nothing and moves no cursor. A page of the newest messages continues after its last message: by its
//! time, partition and offset, because a push to many partitions stores all of them at one time.

use std::str::FromStr;

use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::admin::messages::{Found, MessageState, MessageStatus, Reader, status};
use crate::admin::queue_pages::Paged;
use crate::admin::resources::PAGE_BYTES_MAX;
use crate::error::{Error, Result};
use crate::id::PartitionId;
use crate::name::{QUEUE_MODE, check, check_text};
use crate::queues::Queues;
use crate::storage::encryption::Label;

/// A filter of the messages of a queue. `None`: any.
#[derive(Debug, Clone, Default)]
pub struct BrowseFilter {
    /// Those of a partition.
    pub partition: Option<String>,
    /// Those with this status.
    pub status: Option<MessageStatus>,
    /// Those stored at this time or later.
    pub from: Option<OffsetDateTime>,
    /// Those stored before this time.
    pub before: Option<OffsetDateTime>,
}

/// The position of a message among all of its queue. As text: its time, partition and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageKey {
    /// When it was stored, in microseconds since 1970.
    stored_us: i64,
    partition: PartitionId,
    offset: i64,
}

impl std::fmt::Display for MessageKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.stored_us, self.partition, self.offset)
    }
}

impl FromStr for MessageKey {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.');
        let mut part = || parts.next().ok_or(());
        let key = MessageKey {
            stored_us: part()?.parse().map_err(drop)?,
            partition: part()?.parse().map_err(drop)?,
            offset: part()?.parse().map_err(drop)?,
        };
        // Other times are not of this calendar.
        let is_time = key.time().is_some() && parts.next().is_none();
        is_time.then_some(key).ok_or(())
    }
}

impl MessageKey {
    fn time(&self) -> Option<OffsetDateTime> {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.stored_us) * 1_000).ok()
    }
}

/// A payload, as far as it was asked for.
#[derive(Debug, Clone)]
pub enum Content {
    /// It was not asked for.
    Omitted,
    /// As it was pushed.
    Json(Box<RawValue>),
    /// It cannot be decrypted here, and why.
    Unreadable(String),
}

/// A message of a page.
#[derive(Debug, Clone)]
pub struct BrowsedMessage {
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
    /// Its position in the partition.
    pub offset: i64,
    /// When it was stored.
    pub created_at: OffsetDateTime,
    /// Its status.
    pub status: MessageStatus,
    /// The number of consumer groups that read its partition.
    pub groups: u64,
    /// The number of them that have consumed it.
    pub consumed_by: u64,
    /// The end of its lease, if it is leased.
    pub leased_until: Option<OffsetDateTime>,
    /// How often it has been retried; known of the next message of a group.
    pub retries: u32,
    /// Its payload.
    pub content: Content,
}

/// As `MessageDetail`, to be shown: also if the payload cannot be decrypted.
#[derive(Debug, Clone)]
pub struct MessageInfo {
    /// The message.
    pub message: MessageState,
    /// Whether its payload is stored encrypted.
    pub encrypted: bool,
    /// The payload.
    pub content: Content,
    /// The consumer groups that read it.
    pub readers: Vec<Reader>,
}

impl MessageInfo {
    /// Its status.
    pub fn status(&self) -> MessageStatus {
        status(&self.readers)
    }
}

impl Queues {
    /// Messages of a queue, newest first, after one. `None`: there is no such queue. A page is short or empty where
    /// messages were deleted or have another status, and ends early if payloads are large: it has 16 MB or one message.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid name; otherwise those of the database.
    pub async fn browse(
        &self,
        queue: &str,
        filter: &BrowseFilter,
        after: Option<MessageKey>,
        limit: u32,
        payloads: bool,
    ) -> Result<Option<Paged<BrowsedMessage, MessageKey>>> {
        check("queue", queue)?;
        check_text("partition", filter.partition.as_deref().unwrap_or_default())?;
        let inner = &self.inner;
        let Some(id) = inner.queue_id(queue).await? else { return Ok(None) };
        let query = || {
            sqlx::query(&inner.sql.page_messages)
                .bind(id)
                .bind(&filter.partition)
                .bind(filter.status.map(MessageStatus::name))
                .bind(filter.from)
                .bind(filter.before)
                .bind(after.and_then(|after| after.time()))
                .bind(after.map(|after| inner.ids.number(after.partition).unwrap_or(0)))
                .bind(after.map(|after| after.offset))
                .bind(i64::from(limit))
                .bind(payloads)
                .bind(PAGE_BYTES_MAX)
        };
        let mut page = Paged { rows: Vec::new(), next: None };
        for row in &inner.db.ask("list messages", query).await? {
            let (partition, offset) =
                (inner.ids.partition(row.try_get("partition_id")?), row.try_get("message_offset")?);
            let created_at: OffsetDateTime = row.try_get("stored_at")?;
            if row.try_get("is_end")? {
                let stored_us = (created_at.unix_timestamp_nanos() / 1_000) as i64;
                page.next = Some(MessageKey { stored_us, partition, offset });
                continue;
            }
            let stored: Option<Vec<u8>> = row.try_get("payload")?;
            let message = BrowsedMessage {
                id: row.try_get("id")?,
                transaction_id: row.try_get("transaction_id")?,
                trace_id: row.try_get("trace_id")?,
                producer: row.try_get("producer")?,
                partition_id: partition,
                partition: row.try_get("partition")?,
                offset,
                created_at,
                status: MessageStatus::of(row.try_get("status")?)?,
                groups: row.try_get::<i64, _>("groups")? as u64,
                consumed_by: row.try_get::<i64, _>("consumed_by")? as u64,
                leased_until: row.try_get("leased_until")?,
                retries: 0,
                content: Content::Omitted,
            };
            page.rows.push(self.with_content(queue, message, row, stored)?);
        }
        Ok(Some(page))
    }

    /// The messages that a consumer group, or [`QUEUE_MODE`], has not consumed, oldest first, with their payloads.
    /// `None`: there is no such queue. A group that does not exist has consumed nothing. 16 MB or one message.
    ///
    /// # Errors
    /// As [`browse`](Self::browse).
    pub async fn peek(
        &self,
        queue: &str,
        group: Option<&str>,
        partition: Option<&str>,
        limit: u32,
    ) -> Result<Option<Vec<BrowsedMessage>>> {
        let group = group.unwrap_or(QUEUE_MODE);
        check("queue", queue)?;
        check("consumerGroup", group)?;
        check_text("partition", partition.unwrap_or_default())?;
        let inner = &self.inner;
        let Some(id) = inner.queue_id(queue).await? else { return Ok(None) };
        let query = || {
            let query = sqlx::query(&inner.sql.peek_messages).bind(id).bind(group).bind(partition);
            query.bind(i64::from(limit)).bind(PAGE_BYTES_MAX)
        };
        let message = |row: &PgRow| {
            let leased_until: Option<OffsetDateTime> = row.try_get("leased_until")?;
            let message = BrowsedMessage {
                id: row.try_get("id")?,
                transaction_id: row.try_get("transaction_id")?,
                trace_id: row.try_get("trace_id")?,
                producer: row.try_get("producer")?,
                partition_id: inner.ids.partition(row.try_get("partition_id")?),
                partition: row.try_get("partition")?,
                offset: row.try_get("message_offset")?,
                created_at: row.try_get("created_at")?,
                status: leased_until.map_or(MessageStatus::Pending, |_| MessageStatus::Processing),
                groups: 1,
                consumed_by: 0,
                leased_until,
                retries: row.try_get::<i32, _>("retries")? as u32,
                content: Content::Omitted,
            };
            self.with_content(queue, message, row, Some(row.try_get("payload")?))
        };
        inner.db.ask("peek", query).await?.iter().map(message).collect::<Result<_>>().map(Some)
    }

    /// As [`message`](Self::message); a payload that cannot be decrypted is replaced by the reason.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn message_info(&self, partition: PartitionId, transaction_id: &str) -> Result<Option<MessageInfo>> {
        let Some(found) = self.find(partition, transaction_id).await? else { return Ok(None) };
        let readers = self.readers(&found).await?;
        let Found { message, encrypted, payload, .. } = found;
        let MessageState { queue, partition, transaction_id, id, .. } = &message;
        let content = self.content(encrypted, &Label { queue, partition, transaction_id, id: *id }, payload);
        Ok(Some(MessageInfo { message, encrypted, content, readers }))
    }

    /// The status of a message for each consumer group.
    pub(crate) async fn readers(&self, found: &Found) -> Result<Vec<Reader>> {
        let inner = &self.inner;
        let query = || sqlx::query(&inner.sql.message_readers).bind(found.partition).bind(found.message.offset);
        let reader = |row: &PgRow| {
            Ok(Reader {
                group: row.try_get("name")?,
                status: MessageStatus::of(row.try_get("status")?)?,
                leased_until: row.try_get("leased_until")?,
                retries: row.try_get::<i32, _>("retries")? as u32,
            })
        };
        inner.db.ask("find readers", query).await?.iter().map(reader).collect()
    }

    fn with_content(
        &self,
        queue: &str,
        message: BrowsedMessage,
        row: &PgRow,
        stored: Option<Vec<u8>>,
    ) -> Result<BrowsedMessage> {
        let Some(stored) = stored else { return Ok(message) };
        let label =
            Label { queue, partition: &message.partition, transaction_id: &message.transaction_id, id: message.id };
        let content = self.content(row.try_get("encrypted")?, &label, stored);
        Ok(BrowsedMessage { content, ..message })
    }

    /// A payload that is only shown: one that cannot be decrypted here is replaced by the reason.
    pub(crate) fn content(&self, encrypted: bool, label: &Label<'_>, stored: Vec<u8>) -> Content {
        match self.inner.encryption.open(encrypted, label, stored) {
            Ok(Some(json)) => Content::Json(json),
            Ok(None) => Content::Unreadable(Error::Damaged { queue: label.queue.to_owned() }.to_string()),
            Err(why) => Content::Unreadable(why.of(label.queue).to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key is read back from its text; other texts are rejected.
    #[test]
    fn a_key_is_read_from_its_text() {
        let partition = Uuid::from_u64_pair(7, 9).to_string().parse().expect("an id");
        let key = MessageKey { stored_us: 1_700_000_000_123_456, partition, offset: 42 };
        assert_eq!(key.to_string().parse(), Ok(key));
        for text in
            ["", "1", "1.2.3", &format!("{key}.4"), &format!("x{key}"), &format!("9{}.{partition}.1", i64::MAX / 10)]
        {
            assert_eq!(text.parse::<MessageKey>(), Err(()), "{text}");
        }
    }
}
