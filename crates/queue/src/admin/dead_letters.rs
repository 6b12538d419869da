//! Dead letters: messages that failed for a consumer group.
//!
//! They are copies, so they outlive the retention of their queue. A replay pushes a dead letter to its partition as a
//! new message, behind the others, for every consumer group. It keeps its transaction id if that is free. If the
//! original message is still in the partition, the new one gets that id, a `~` and the number of the dead letter. The
//! push and the end of the dead letter are one transaction.
//!
use serde_json::value::RawValue;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::admin::resources::{Listed, PAGE_BYTES_MAX, Page};
use crate::error::Result;
use crate::id::{Ids, PartitionId};
use crate::name::check_text;
use crate::queues::Queues;
use crate::storage::encryption::Label;

/// A filter of dead letters. `None`: any.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterFilter {
    /// Those of a queue.
    pub queue: Option<String>,
    /// Those of partitions of this name.
    pub partition: Option<String>,
    /// Those of this consumer group.
    pub group: Option<String>,
    /// Those that failed at this time or later.
    pub from: Option<OffsetDateTime>,
    /// Those that failed before this time.
    pub before: Option<OffsetDateTime>,
    /// Those with these numbers.
    pub ids: Option<Vec<i64>>,
    /// Those of this partition.
    pub partition_id: Option<PartitionId>,
    /// Those with this transaction id.
    pub transaction_id: Option<String>,
    /// Those whose error contains this text, in upper or lower case.
    pub error: Option<String>,
    /// Those up to this number: those that existed when something was shown.
    pub up_to: Option<i64>,
}

impl DeadLetterFilter {
    pub(crate) fn check(&self) -> Result<()> {
        let names = [
            ("queue", &self.queue),
            ("partition", &self.partition),
            ("consumerGroup", &self.group),
            ("transactionId", &self.transaction_id),
            ("error", &self.error),
        ];
        names.into_iter().try_for_each(|(what, name)| check_text(what, name.as_deref().unwrap_or_default()))
    }

    pub(crate) fn bind<'q>(
        &'q self,
        query: Query<'q, Postgres, PgArguments>,
        ids: Ids,
    ) -> Query<'q, Postgres, PgArguments> {
        query
            .bind(&self.queue)
            .bind(&self.partition)
            .bind(&self.group)
            .bind(self.from)
            .bind(self.before)
            .bind(&self.ids)
            // An id of another schema matches no partition.
            .bind(self.partition_id.map(|partition| ids.number(partition).unwrap_or(-1)))
            .bind(&self.transaction_id)
            .bind(&self.error)
            .bind(self.up_to)
    }
}

/// A dead letter.
#[derive(Debug, Clone)]
pub struct DeadLetter {
    /// Its number.
    pub id: i64,
    /// The id of the message.
    pub message_id: Uuid,
    /// The transaction id that the producer gave it.
    pub transaction_id: String,
    /// Its id for tracing.
    pub trace_id: Option<String>,
    /// The name of the producer.
    pub producer: Option<String>,
    /// The payload as it was pushed; `None` if it cannot be decrypted here.
    pub payload: Option<Box<RawValue>>,
    /// Its queue.
    pub queue: String,
    /// Its partition.
    pub partition: String,
    /// The id of the partition.
    pub partition_id: PartitionId,
    /// Its position in the partition.
    pub offset: i64,
    /// The consumer group.
    pub group: String,
    /// The error of the consumer.
    pub error: Option<String>,
    /// How often it had been retried.
    pub retries: u32,
    /// When it was stored.
    pub created_at: OffsetDateTime,
    /// When it became a dead letter.
    pub failed_at: OffsetDateTime,
}

/// The result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The number of replayed dead letters.
    pub replayed: usize,
    /// The dead letters that were not replayed, each with the reason.
    pub skipped: Vec<String>,
}

impl Queues {
    /// Dead letters, newest first. A page ends early if its payloads are large: it has 16 MB or one dead letter.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for an invalid name; otherwise those of the database.
    pub async fn dead_letters(&self, filter: &DeadLetterFilter, page: Page) -> Result<Listed<DeadLetter>> {
        filter.check()?;
        let inner = &self.inner;
        let list = async |page: Page| {
            let query = || {
                let query = filter.bind(sqlx::query(&inner.sql.list_dead_letters), inner.ids);
                query.bind(page.limit()).bind(page.offset()).bind(PAGE_BYTES_MAX)
            };
            inner.db.ask("list dead letters", query).await
        };
        let rows = list(page).await?;
        let total = |rows: &[PgRow]| rows.first().map(|row| row.try_get::<i64, _>("found")).transpose();
        let total = match total(&rows)? {
            Some(total) => total,
            // An empty page does not contain the total.
            None => total(&list(Page { limit: 1, offset: 0 }).await?)?.unwrap_or_default(),
        };
        let rows = rows.iter().map(|row| self.read(row)).collect::<Result<_>>()?;
        Ok(Listed { rows, total: total as u64 })
    }

    pub(crate) fn read(&self, row: &PgRow) -> Result<DeadLetter> {
        let inner = &self.inner;
        let (message_id, transaction_id): (Uuid, String) = (row.try_get("message_id")?, row.try_get("transaction_id")?);
        let label = Label {
            queue: row.try_get("queue")?,
            partition: row.try_get("partition")?,
            transaction_id: &transaction_id,
            id: message_id,
        };
        // The failure was reported when the message became a dead letter.
        let payload = inner.encryption.open(row.try_get("encrypted")?, &label, row.try_get("payload")?).ok().flatten();
        Ok(DeadLetter {
            id: row.try_get("id")?,
            message_id,
            transaction_id,
            trace_id: row.try_get("trace_id")?,
            producer: row.try_get("producer")?,
            payload,
            queue: row.try_get("queue")?,
            partition: row.try_get("partition")?,
            partition_id: inner.ids.partition(row.try_get("partition_id")?),
            offset: row.try_get("message_offset")?,
            group: row.try_get("consumer")?,
            error: row.try_get("error")?,
            retries: row.try_get::<i32, _>("retries")? as u32,
            created_at: row.try_get("created_at")?,
            failed_at: row.try_get("failed_at")?,
        })
    }
}
