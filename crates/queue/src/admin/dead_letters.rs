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
use sqlx::{Acquire, PgTransaction, Postgres, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::admin::resources::{Listed, PAGE_BYTES_MAX, Page};
use crate::error::{Error, Result};
use crate::id::{Ids, PartitionId};
use crate::message::{NewMessage, PushStatus};
use crate::name::{LENGTH_MAX, check_text};
use crate::produce::append::PendingHashes;
use crate::queues::Queues;
use crate::storage::encryption::Label;

/// Dead letters of one step. A replay step is one transaction, which locks their partitions.
const STEP: i64 = 200;
/// How often a step is repeated with other ids because one has just been used.
const ATTEMPTS: usize = 4;

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
}

impl DeadLetterFilter {
    fn check(&self) -> Result<()> {
        let names = [
            ("queue", &self.queue),
            ("partition", &self.partition),
            ("consumerGroup", &self.group),
            ("transactionId", &self.transaction_id),
        ];
        names.into_iter().try_for_each(|(what, name)| check_text(what, name.as_deref().unwrap_or_default()))
    }

    fn bind<'q>(&'q self, query: Query<'q, Postgres, PgArguments>, ids: Ids) -> Query<'q, Postgres, PgArguments> {
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
    /// [`Error::Invalid`] for an invalid name; otherwise those of the database.
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

    /// Pushes dead letters again, oldest first. Those whose queue is full, or that cannot be decrypted here, stay.
    ///
    /// # Errors
    /// [`Error::RolledBack`] if a queue is changed or under maintenance: some may have been replayed, the others are
    /// unchanged. Otherwise those of the database.
    pub async fn replay(&self, filter: &DeadLetterFilter) -> Result<Replayed> {
        filter.check()?;
        let inner = &self.inner;
        let mut done = Replayed::default();
        let mut after = 0;
        loop {
            let mut transaction = inner.db.begin().await?;
            let query = filter.bind(sqlx::query(&inner.sql.take_dead_letters), inner.ids).bind(after).bind(STEP);
            let taken = query.fetch_all(&mut *transaction).await.map_err(Error::from)?;
            let (mut ids, mut bytes) = (Vec::with_capacity(taken.len()), 0);
            for row in &taken {
                bytes += row.try_get::<i64, _>(1)?;
                if !ids.is_empty() && bytes > PAGE_BYTES_MAX {
                    break;
                }
                ids.push(row.try_get::<i64, _>(0)?);
            }
            let query = sqlx::query(&inner.sql.read_dead_letters).bind(&ids);
            let rows = query.fetch_all(&mut *transaction).await.map_err(Error::from)?;
            let mut letters: Vec<(Uuid, Vec<i64>, NewMessage)> = Vec::with_capacity(rows.len());
            for row in &rows {
                let letter = self.read(row)?;
                let (id, message_id) = (letter.id, letter.message_id);
                after = id;
                match (letters.iter_mut().find(|(known, ..)| *known == message_id), letter.message()) {
                    // Dead letters of several groups for one message are replayed once.
                    (Some((_, ids, _)), _) => ids.push(id),
                    (None, Some(message)) => letters.push((message_id, vec![id], message)),
                    (None, None) => done.skipped.push(format!("dead letter {id} cannot be decrypted here")),
                }
            }
            let (pushed, pending) = self.push_letters(&mut transaction, &mut letters).await?;
            let mut ended: Vec<i64> = Vec::new();
            for ((_, ids, _), status) in letters.into_iter().zip(pushed) {
                match status {
                    PushStatus::Queued => ended.extend(ids),
                    PushStatus::Failed(why) => done.skipped.push(format!("dead letter {}: {why}", ids[0])),
                    _ => done.skipped.push(format!("dead letter {}: its transaction id is in use", ids[0])),
                }
            }
            let query = sqlx::query(&inner.sql.delete_dead_letters).bind(&ended);
            query.execute(&mut *transaction).await.map_err(Error::from)?;
            transaction.commit().await.map_err(Error::from)?;
            inner.push.learn(pending);
            done.replayed += ended.len();
            if ids.len() == taken.len() && (taken.len() as i64) < STEP {
                return Ok(done);
            }
        }
    }

    /// Deletes dead letters; returns their number.
    ///
    /// # Errors
    /// As [`dead_letters`](Self::dead_letters).
    pub async fn purge(&self, filter: &DeadLetterFilter) -> Result<u64> {
        filter.check()?;
        let inner = &self.inner;
        let mut purged = 0;
        loop {
            let query = || filter.bind(sqlx::query(&inner.sql.purge_dead_letters), inner.ids).bind(STEP);
            let rows = inner.db.ask("purge dead letters", query).await?;
            purged += rows.len() as u64;
            if (rows.len() as i64) < STEP {
                return Ok(purged);
            }
        }
    }

    /// Pushes dead letters in their order. Those whose transaction id is used are renamed and pushed under the new one.
    /// Also returns the hashes to cache after the commit.
    async fn push_letters(
        &self,
        transaction: &mut PgTransaction<'_>,
        letters: &mut [(Uuid, Vec<i64>, NewMessage)],
    ) -> Result<(Vec<PushStatus>, PendingHashes)> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            // Rolled back if an id is used: the next attempt pushes the dead letter under another id, in its order.
            let mut savepoint = transaction.begin().await?;
            let messages: Vec<NewMessage> = letters.iter().map(|(.., message)| message.clone()).collect();
            let mut pending = PendingHashes::default();
            let pushed = self.push_uncommitted(&mut savepoint, &messages, &mut pending).await?;
            if attempt == ATTEMPTS || pushed.iter().all(|pushed| pushed.status != PushStatus::Duplicate) {
                savepoint.commit().await?;
                return Ok((pushed.into_iter().map(|pushed| pushed.status).collect(), pending));
            }
            savepoint.rollback().await?;
            for ((_, ids, message), pushed) in letters.iter_mut().zip(pushed) {
                if pushed.status == PushStatus::Duplicate {
                    message.rename(ids[0]);
                }
            }
        }
    }

    fn read(&self, row: &PgRow) -> Result<DeadLetter> {
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

impl DeadLetter {
    /// The message to push. `None`: it cannot be decrypted here.
    fn message(self) -> Option<NewMessage> {
        Some(NewMessage {
            queue: self.queue,
            partition: Some(self.partition),
            payload: self.payload?,
            transaction_id: Some(self.transaction_id),
            trace_id: self.trace_id,
            producer: self.producer,
        })
    }
}

impl NewMessage {
    /// Gives it a transaction id that no other dead letter gets.
    fn rename(&mut self, number: i64) {
        let end = format!("~{number}");
        let given = self.transaction_id.take().unwrap_or_default();
        let start: String = given.chars().take(LENGTH_MAX - end.len()).collect();
        self.transaction_id = Some(start + &end);
    }
}
