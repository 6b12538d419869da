//! Acks: one update per partition and consumer group.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, Channel, WakeUp, WriteBatch};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use uuid::Uuid;

use crate::admin::message_counters::{GroupCounts, MessageCounters};
use crate::consume::ack_outcome::{AckOutcome, MessageOutcome};
use crate::consume::lease_cache::LeaseCache;
use crate::error::{Error, Result};
use crate::id::PartitionId;
use crate::name::{check, hash};
use crate::produce::balance::Balance;
use crate::queues::Queues;
use crate::storage::partition_ref::PartitionRef;

/// The result of processing a message, as the consumer reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AckStatus {
    /// Processed, with every message before it in its partition.
    #[default]
    Completed,
    /// Processing failed: the message is redelivered up to the queue's `retryLimit`, and becomes a dead letter then.
    Failed,
    /// The message becomes a dead letter at once.
    DeadLetter,
    /// The message is redelivered, and no retry is charged.
    Retry,
}

impl AckStatus {
    fn word(self) -> &'static str {
        match self {
            AckStatus::Completed => "completed",
            AckStatus::Failed => "failed",
            AckStatus::DeadLetter => "dead_letter",
            AckStatus::Retry => "retry",
        }
    }
}

/// An ack of one message.
#[derive(Debug, Clone)]
pub struct Ack {
    /// The transaction id of the message.
    pub transaction_id: String,
    /// Its partition.
    pub partition_id: PartitionId,
    /// How processing ended.
    pub status: AckStatus,
    /// The lease under which the message was delivered. With it a late ack is rejected; without it, the ack is not
    /// fenced.
    pub lease_id: Option<Uuid>,
    /// The consumer group; `None`: that of the lease, or else [`QUEUE_MODE`](crate::QUEUE_MODE).
    pub group: Option<String>,
    /// Why processing failed.
    pub error: Option<String>,
}

impl Ack {
    /// Rejects invalid names.
    pub(crate) fn check(&self) -> Result<()> {
        check("transactionId", &self.transaction_id)?;
        self.group.as_deref().map_or(Ok(()), |group| check("consumerGroup", group))
    }
}

/// The answer to an ack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acked {
    /// Whether the ack was accepted, or why not.
    pub outcome: std::result::Result<(), AckError>,
    /// Whether the message became a dead letter.
    pub dead_lettered: bool,
    /// Whether the partition is free again for the group.
    pub lease_released: bool,
    /// The queue, if the partition exists.
    pub queue: Option<String>,
    /// The partition.
    pub partition: Option<String>,
}

/// Why an ack was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AckError {
    /// No partition has that id.
    #[error("unknown partition")]
    NoPartition,
    /// No consumer of this group has popped from the queue.
    #[error("unknown consumer group")]
    NoGroup,
    /// The lease expired, was released, or never existed. Do not retry: the messages are redelivered.
    #[error("the lease has expired or was released")]
    LeaseOver,
    /// An earlier message of the same partition was not completed in the same call; this one is redelivered after it.
    #[error("an earlier message of the partition failed; this one will be delivered again")]
    BehindFailure,
    /// The message is not one of the lease, or none that the group can read.
    #[error("the message was not delivered under this lease")]
    NotDelivered,
}

impl Queues {
    /// Acks messages. Each gets an answer of its own, in order.
    ///
    /// The acks of one partition, group and lease count together: the last completed message acks all before it, unless
    /// one of those failed in the same call. An ack that is sent again because its answer was lost succeeds again and
    /// changes nothing, until the next lease of the partition has ended too: then it is [`AckError::LeaseOver`].
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid name; else the database's, and then some, all or none may have been acked.
    pub async fn ack(&self, acks: Vec<Ack>) -> Result<Vec<Acked>> {
        let inner = &self.inner;
        let requests = self.group_acks(None, &acks).await?;
        let sent = requests.into_iter().map(|(write, indexes)| async {
            let partition = write.partition.clone();
            Ok::<_, Error>((inner.acks.submit(write).await?, partition, indexes))
        });
        let mut answers: Vec<Acked> = acks.iter().map(|_| Acked::unknown_partition()).collect();
        for (outcome, partition, indexes) in try_join_all(sent).await? {
            for (at, index) in indexes.into_iter().enumerate() {
                answers[index] = outcome.answer(at, &partition);
            }
        }
        Ok(answers)
    }

    /// Acks inside the caller's own transaction: the acks take effect, and wake waiting pops, exactly if it commits.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub async fn ack_in(&self, conn: &mut PgConnection, acks: &[Ack]) -> Result<Vec<Acked>> {
        let (answers, uncommitted) = self.ack_uncommitted(conn, acks).await?;
        // Whether the transaction commits is never known here, so messages are not counted.
        uncommitted.iter().for_each(|(write, outcome)| self.inner.ack.update_balance(write, outcome));
        Ok(answers)
    }

    /// As [`ack_in`](Self::ack_in), for a caller that commits the transaction and calls
    /// [`committed`](BatchedWrite::committed) with each of the outcomes then.
    pub(crate) async fn ack_uncommitted(
        &self,
        conn: &mut PgConnection,
        acks: &[Ack],
    ) -> Result<(Vec<Acked>, Vec<(Write, AckOutcome)>)> {
        let requests = self.group_acks(Some(&mut *conn), acks).await?;
        let kind = &self.inner.ack;
        let writes: Vec<&Write> = requests.iter().map(|(write, _)| write).collect();
        let wake_ups: Vec<WakeUp> = writes.iter().flat_map(|write| kind.wake_ups(write, None)).collect();
        let (channels, payloads) = reveille_wake::Wake::notifications(&wake_ups);
        let query = sqlx::query(&kind.ack).bind(None::<Uuid>).bind(&channels).bind(&payloads).bind(true);
        let rows = bind_writes(query, &writes).fetch_all(conn).await?;
        let mut answers: Vec<Acked> = acks.iter().map(|_| Acked::unknown_partition()).collect();
        let mut uncommitted = Vec::with_capacity(requests.len());
        for ((write, indexes), row) in requests.into_iter().zip(&rows) {
            // The statement waits for locks, so there is an outcome for every ack.
            let Some(outcome) = AckOutcome::from_row(row)? else { continue };
            for (at, index) in indexes.into_iter().enumerate() {
                answers[index] = outcome.answer(at, &write.partition);
            }
            uncommitted.push((write, outcome));
        }
        Ok((answers, uncommitted))
    }

    /// The acks by partition, group and lease, each with the indexes of its messages in the request. Acks of unknown
    /// partitions are left out.
    async fn group_acks(&self, conn: Option<&mut PgConnection>, acks: &[Ack]) -> Result<Vec<(Write, Vec<usize>)>> {
        acks.iter().try_for_each(Ack::check)?;
        let number = |ack: &Ack| self.inner.ids.number(ack.partition_id);
        let numbers: BTreeSet<i64> = acks.iter().filter_map(number).collect();
        let partitions = self.inner.find_partitions(conn, numbers).await?;
        let mut requests: Vec<(Write, Vec<usize>)> = Vec::new();
        let mut request_of: HashMap<(i64, Option<&str>, Option<Uuid>), usize> = HashMap::new();
        for (index, ack) in acks.iter().enumerate() {
            let Some(partition) = number(ack).and_then(|number| partitions.get(&number)) else { continue };
            // A lease determines its group.
            let key = (partition.id, ack.group.as_deref().filter(|_| ack.lease_id.is_none()), ack.lease_id);
            let at = *request_of.entry(key).or_insert_with(|| {
                let (group, lease) = (ack.group.clone(), ack.lease_id);
                requests.push((Write { partition: partition.clone(), group, lease, messages: Vec::new() }, Vec::new()));
                requests.len() - 1
            });
            let (write, indexes) = &mut requests[at];
            write.group = write.group.take().or_else(|| ack.group.clone());
            // PostgreSQL cannot store a NUL.
            let error = ack.error.as_ref().map(|error| error.replace('\0', "\u{fffd}"));
            write.messages.push(AckedMessage { hash: hash(&ack.transaction_id), status: ack.status, error });
            indexes.push(index);
        }
        requests.sort_by_key(|(write, _)| write.partition.id);
        Ok(requests)
    }
}

impl Acked {
    fn unknown_partition() -> Acked {
        let outcome = Err(AckError::NoPartition);
        Acked { outcome, dead_lettered: false, lease_released: false, queue: None, partition: None }
    }
}

/// The acks of one partition, group and lease.
pub(crate) struct Write {
    pub(crate) partition: Arc<PartitionRef>,
    group: Option<String>,
    lease: Option<Uuid>,
    pub(crate) messages: Vec<AckedMessage>,
}

pub(crate) struct AckedMessage {
    pub(crate) hash: i64,
    pub(crate) status: AckStatus,
    error: Option<String>,
}

/// A write that acks a whole lease of this process.
struct WholeLease {
    /// Its index in the batch.
    index: usize,
    lease: Uuid,
    group: Arc<str>,
}

/// Sends acks.
pub(crate) struct Acks {
    channel: Channel,
    lease_cache: Arc<Mutex<LeaseCache>>,
    balance: Arc<Balance>,
    counters: Arc<MessageCounters>,
    ack: Sql,
    ack_leases: Sql,
}

impl Acks {
    pub(crate) fn new(
        schema: &Schema,
        channel: Channel,
        lease_cache: Arc<Mutex<LeaseCache>>,
        balance: Arc<Balance>,
        counters: Arc<MessageCounters>,
    ) -> Acks {
        let (ack, ack_leases) = (reveille_pg::statement!("ack"), reveille_pg::statement!("ack_leases"));
        Acks { channel, lease_cache, balance, counters, ack: schema.sql(ack), ack_leases: schema.sql(ack_leases) }
    }

    /// The writes that ack a whole lease of this process: these need no decision about each message.
    fn whole_leases(&self, writes: &[&Write]) -> Vec<WholeLease> {
        let lease_cache = self.lease_cache.lock();
        let whole = |(index, write): (usize, &&Write)| {
            let completed = write.messages.iter().all(|message| message.status == AckStatus::Completed);
            let hashes: Vec<i64> = write.messages.iter().map(|message| message.hash).collect();
            let lease = write.lease.filter(|_| completed)?;
            let group = lease_cache.group_if_whole(lease, write.partition.id, &hashes)?;
            Some(WholeLease { index, lease, group })
        };
        writes.iter().enumerate().filter_map(whole).collect()
    }

    /// Tells the balance whether the consumer group still has a backlog.
    fn update_balance(&self, write: &Write, outcome: &AckOutcome) {
        if outcome.is_released() {
            self.balance.acked(write.partition.id, &outcome.group, outcome.has_more);
        }
    }

    /// Counts messages. An ack covers those before it, too: their number is known for leases of this process; elsewhere
    /// each ack counts for one.
    fn count(&self, write: &Write, outcome: &AckOutcome) {
        let consumed = outcome.consumed(write);
        let known = write.lease.and_then(|lease| {
            let mut lease_cache = self.lease_cache.lock();
            let newly_acked = lease_cache.count_acked(lease, write.partition.id, &consumed);
            if outcome.is_released() || outcome.is_lease_over() {
                lease_cache.remove(lease, write.partition.id);
            }
            newly_acked
        });
        // An ack that is sent again under a lease that is over was counted the first time.
        let consumed = known.unwrap_or(if outcome.is_lease_over() { 0 } else { consumed.len() });
        let each = || write.messages.iter().zip(&outcome.messages);
        let dead_lettered = each().filter(|(_, outcome)| **outcome == MessageOutcome::DeadLettered).count();
        let failed = each().filter(|(message, message_outcome)| {
            **message_outcome == MessageOutcome::Acked
                && message.status == AckStatus::Failed
                && !outcome.is_lease_over()
        });
        let counts = GroupCounts {
            acked: consumed.saturating_sub(dead_lettered) as u64,
            failed: failed.count() as u64,
            dead_lettered: dead_lettered as u64,
            ..GroupCounts::default()
        };
        self.counters.add(&write.partition.queue, &outcome.group, counts);
    }
}

fn bind_writes<'q>(query: Query<'q, Postgres, PgArguments>, writes: &[&'q Write]) -> Query<'q, Postgres, PgArguments> {
    let messages = || writes.iter().flat_map(|write| &write.messages);
    let mut last = 0;
    let last_messages: Vec<i32> = writes
        .iter()
        .map(|write| {
            last += write.messages.len() as i32;
            last
        })
        .collect();
    query
        .bind(writes.iter().map(|write| write.partition.id).collect::<Vec<_>>())
        .bind(writes.iter().map(|write| write.group.as_deref()).collect::<Vec<_>>())
        .bind(writes.iter().map(|write| write.lease).collect::<Vec<_>>())
        .bind(last_messages)
        .bind(messages().map(|message| message.hash).collect::<Vec<_>>())
        .bind(messages().map(|message| message.status.word()).collect::<Vec<_>>())
        .bind(messages().map(|message| message.error.as_deref()).collect::<Vec<_>>())
}

impl BatchedWrite for Acks {
    type Write = Write;
    type Key = (i64, Option<String>, Option<Uuid>);
    type Outcome = AckOutcome;
    // Sent again, an ack finds its messages acked under this lease or the last, and changes nothing.
    const RECORDS_OUTCOMES: bool = false;

    fn key(&self, write: &Write) -> Self::Key {
        (write.partition.id, write.group.clone(), write.lease)
    }

    fn bytes(&self, write: &Write) -> usize {
        write.messages.iter().map(|message| 32 + message.error.as_ref().map_or(0, String::len)).sum()
    }

    fn wake_ups(&self, write: &Write, outcome: Option<&AckOutcome>) -> Vec<WakeUp> {
        match outcome {
            // The group may be known by the lease alone: then all pops that wait for the queue are woken.
            None => match &write.group {
                Some(group) => vec![write.partition.released(&self.channel, group)],
                None => vec![write.partition.pushed(&self.channel)],
            },
            Some(outcome) if outcome.has_more => vec![write.partition.released(&self.channel, &outcome.group)],
            Some(_) => Vec::new(),
        }
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Write>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let mut outcomes: Vec<Option<AckOutcome>> = batch.writes.iter().map(|_| None).collect();
        let mut backend = None;
        let whole = self.whole_leases(&batch.writes);
        if !whole.is_empty() {
            let rows = batch
                .query(&self.ack_leases)
                .bind(whole.iter().map(|whole| batch.writes[whole.index].partition.id).collect::<Vec<_>>())
                .bind(whole.iter().map(|whole| whole.lease).collect::<Vec<_>>())
                .fetch_all(&mut *conn)
                .await?;
            for row in rows {
                let number: i32 = row.try_get("number")?;
                let WholeLease { index, group, .. } = &whole[number as usize - 1];
                let messages = batch.writes[*index].messages.len();
                outcomes[*index] = Some(AckOutcome::released(group, messages, row.try_get("has_more")?));
                backend = row.try_get("backend")?;
            }
            let mut lease_cache = self.lease_cache.lock();
            whole.iter().for_each(|whole| lease_cache.set_tried(whole.lease, batch.writes[whole.index].partition.id));
        }
        // The others, and leases that were not acked as a whole.
        let rest: Vec<usize> = (0..outcomes.len()).filter(|index| outcomes[*index].is_none()).collect();
        if !rest.is_empty() {
            let writes: Vec<&Write> = rest.iter().map(|index| batch.writes[*index]).collect();
            let rows = bind_writes(batch.query(&self.ack), &writes).fetch_all(conn).await?;
            for (index, row) in rest.into_iter().zip(&rows) {
                outcomes[index] = AckOutcome::from_row(row)?;
                backend = row.try_get("backend")?;
            }
        }
        Ok(BatchResult::new(outcomes, backend))
    }

    fn committed(&self, write: &Write, outcome: &AckOutcome) {
        self.update_balance(write, outcome);
        self.count(write, outcome);
    }
}
