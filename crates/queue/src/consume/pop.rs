//! Popping messages: a lease on the partitions that have waited longest.

use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::value::RawValue;
use time::OffsetDateTime;
use tokio::time::Instant;
use uuid::Uuid;

use crate::admin::message_counters::GroupCounts;
use crate::consume::ack::{Ack, AckStatus};
use crate::consume::claim::{Args, Key, LeasedBatch};
use crate::error::{Error, Result};
use crate::id::PartitionId;
use crate::message::{Message, Stored};
use crate::name::{QUEUE_MODE, check, check_text};
use crate::queues::Queues;
use crate::storage::encryption::{Label, Unopened};

/// The most messages of one pop.
pub const BATCH_MAX: usize = 10_000;
/// The most partitions of one pop.
pub const PARTITIONS_MAX: usize = 1_000;
/// The longest wait of one pop, and the longest lease.
pub const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// Damaged messages that a pop makes dead letters after one claim; the next claim continues.
const DAMAGED_MAX: usize = 100;
/// How often a pop claims again because of damaged messages. Then it fails, and the next pop continues.
const DAMAGED_ROUNDS_MAX: usize = 10;

/// A message that cannot be decrypted, and why.
type Unreadable<'a> = (&'a Message<Stored>, Unopened);

/// What to read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// A queue: one partition of it, or those that have waited longest.
    Queue {
        /// Its name. It need not exist yet.
        queue: String,
        /// The partition; `None`: any.
        partition: Option<String>,
    },
    /// All queues of a namespace, of a task, or of both.
    Space {
        /// The namespace; `None`: any.
        namespace: Option<String>,
        /// The task; `None`: any.
        task: Option<String>,
    },
}

impl Source {
    /// Any partition of a queue.
    pub fn queue(queue: impl Into<String>) -> Source {
        Source::Queue { queue: queue.into(), partition: None }
    }

    /// One partition of a queue.
    pub fn partition(queue: impl Into<String>, partition: impl Into<String>) -> Source {
        Source::Queue { queue: queue.into(), partition: Some(partition.into()) }
    }

    fn check(&self) -> Result<()> {
        match self {
            Source::Queue { queue, partition } => {
                check("queue", queue)?;
                partition.as_deref().map_or(Ok(()), |partition| check("partition", partition))
            }
            Source::Space { namespace: None, task: None } => {
                Err(Error::invalid("namespace", "a namespace or a task is required"))
            }
            Source::Space { namespace, task } => {
                check_text("namespace", namespace.as_deref().unwrap_or_default())?;
                check_text("task", task.as_deref().unwrap_or_default())
            }
        }
    }

    /// Queue, partition, namespace, task.
    pub(crate) fn parts(&self) -> [Option<&str>; 4] {
        match self {
            Source::Queue { queue, partition } => [Some(queue), partition.as_deref(), None, None],
            Source::Space { namespace, task } => [None, None, namespace.as_deref(), task.as_deref()],
        }
    }
}

/// Where a new consumer group begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subscription {
    /// At the first stored message.
    #[default]
    All,
    /// With the next message that is pushed.
    New,
    /// At the first message that was stored at this time or later.
    Since(OffsetDateTime),
}

/// What to pop.
#[derive(Debug, Clone)]
pub struct Pop {
    /// What to read.
    pub source: Source,
    /// The consumer group; `None`: [`QUEUE_MODE`].
    pub group: Option<String>,
    /// The most messages.
    pub batch: usize,
    /// The most partitions.
    pub partitions: usize,
    /// The lease time; `None`: that of the queue.
    pub lease: Option<Duration>,
    /// Whether the messages are acked by the pop itself.
    pub auto_ack: bool,
    /// Where the group begins, if it is new.
    pub subscription: Subscription,
}

impl Pop {
    /// One message of a source, without a consumer group.
    pub fn new(source: Source) -> Pop {
        let subscription = Subscription::default();
        Pop { source, group: None, batch: 1, partitions: 1, lease: None, auto_ack: false, subscription }
    }
}

/// Popped messages, in order within each partition, under one lease.
#[derive(Debug)]
pub struct Batch {
    /// The lease to ack them with; `None` after [`auto_ack`](Pop::auto_ack).
    pub lease_id: Option<Uuid>,
    /// The consumer group.
    pub group: String,
    /// The messages.
    pub messages: Vec<Message>,
    /// The number of partitions that they are from.
    pub partitions: usize,
    pub(crate) queues: Queues,
}

impl Queues {
    /// Pops messages that are there now, or the first that arrive until `deadline`. `None`: there were none.
    ///
    /// A waiting pop costs no connection and no query.
    ///
    /// # Errors
    /// [`Error::Invalid`] for invalid names; [`Error::WrongKey`] for a message whose key this process does not have: it
    /// is released, for a process that has it; [`reveille_wake::Error::Full`] if too many pops wait;
    /// [`reveille_wake::Error::Closed`] while the process stops; otherwise those of the database.
    ///
    /// # Cancel safety
    /// Dropping the future releases its leases; no retry is charged.
    pub async fn pop(&self, pop: Pop, deadline: Option<Instant>) -> Result<Option<Batch>> {
        pop.source.check()?;
        let group = pop.group.clone().unwrap_or_else(|| QUEUE_MODE.to_owned());
        check("consumerGroup", &group)?;
        let args = || Args {
            batch: pop.batch.clamp(1, BATCH_MAX),
            partitions: pop.partitions.clamp(1, PARTITIONS_MAX),
            lease: pop.lease.map(|lease| lease.min(LONGEST)),
            subscription: pop.subscription,
            waiting_since: Instant::now(),
            queue_was_missing: AtomicBool::new(false),
        };
        let key = Key { source: pop.source, group };
        let mut rounds = 0;
        loop {
            let claimed = match deadline {
                Some(deadline) => self.inner.pops.claim(key.clone(), 1, args(), deadline).await?,
                None => self.inner.pops.claim_now(key.clone(), 1, args()).await?,
            };
            let Some(claimed) = claimed else { return Ok(None) };
            // Before the ack: a message that cannot be decrypted here must not be acked here.
            let decrypted = match self.decrypted(&claimed) {
                Ok(decrypted) => decrypted,
                Err(damaged) => {
                    rounds += 1;
                    self.dead_letter_damaged(damaged, rounds).await?;
                    continue;
                }
            };
            // Acked before it is accepted: if the client disconnects, its batch is released only if it was not acked.
            let refused = if pop.auto_ack { self.consume(&claimed, &key.group).await? } else { HashSet::new() };
            // An acked message is not redelivered, so the batch is delivered even if other partitions were lost.
            let partitions = claimed.iter().map(LeasedBatch::partitions).sum::<usize>().saturating_sub(refused.len());
            if partitions == 0 && pop.auto_ack {
                continue;
            }
            let Some(leased) = claimed.accept().pop() else { return Ok(None) };
            let lease_id = (!pop.auto_ack).then_some(leased.lease_id);
            let messages = leased.messages.into_iter().zip(decrypted);
            let ours = messages.filter(|(message, _)| !refused.contains(&message.partition_id));
            let messages = ours.map(|(message, payload)| message.opened(payload)).collect::<Result<Vec<_>>>()?;
            self.count_delivered(&messages, &key.group);
            return Ok(Some(Batch { lease_id, group: key.group, messages, partitions, queues: self.clone() }));
        }
    }

    fn count_delivered(&self, messages: &[Message], group: &str) {
        for of_queue in messages.chunk_by(|one, other| one.queue == other.queue) {
            let counts = GroupCounts { delivered: of_queue.len() as u64, ..GroupCounts::default() };
            self.inner.counters.add(&of_queue[0].queue, group, counts);
        }
    }

    /// Acks the batches. Returns the partitions whose lease is over.
    async fn consume(&self, claimed: &[LeasedBatch], group: &str) -> Result<HashSet<PartitionId>> {
        let mut acks: Vec<Ack> = Vec::new();
        for leased in claimed {
            for message in &leased.messages {
                let ack = Ack {
                    transaction_id: message.transaction_id.clone(),
                    partition_id: message.partition_id,
                    status: AckStatus::Completed,
                    lease_id: Some(leased.lease_id),
                    group: Some(group.to_owned()),
                    error: None,
                };
                // The ack of the last message covers the partition.
                match acks.last_mut().filter(|last| last.partition_id == ack.partition_id) {
                    Some(last) => *last = ack,
                    None => acks.push(ack),
                }
            }
        }
        let partitions: Vec<PartitionId> = acks.iter().map(|ack| ack.partition_id).collect();
        let acked = self.ack(acks).await?;
        let refused = acked.iter().zip(partitions).filter(|(acked, _)| acked.outcome.is_err());
        Ok(refused.map(|(_, partition)| partition).collect())
    }

    /// The decrypted payloads, or the messages that cannot be decrypted, each with the reason.
    fn decrypted<'a>(&self, claimed: &'a [LeasedBatch]) -> Result<Vec<Option<Box<RawValue>>>, Vec<Unreadable<'a>>> {
        let (mut payloads, mut unreadable) = (Vec::new(), Vec::new());
        for message in claimed.iter().flat_map(|leased| &leased.messages) {
            let Message { queue, partition, transaction_id, id, payload, .. } = message;
            if !payload.encrypted {
                payloads.push(None);
                continue;
            }
            match self.inner.encryption.decrypt(&Label { queue, partition, transaction_id, id: *id }, &payload.bytes) {
                Ok(payload) => payloads.push(Some(payload)),
                Err(why) => unreadable.push((message, why)),
            }
        }
        if unreadable.is_empty() { Ok(payloads) } else { Err(unreadable) }
    }

    /// Makes messages dead letters that no process can decrypt, so that they do not block their partition.
    ///
    /// # Errors
    /// [`Error::WrongKey`] if another process may decrypt one of them. Then nothing was changed, and all leases are
    /// released.
    async fn dead_letter_damaged(&self, unreadable: Vec<Unreadable<'_>>, round: usize) -> Result<()> {
        for (message, why) in &unreadable {
            self.inner.encryption.failures.unopened(&message.queue, *why);
        }
        let hopeless = |why: Unopened| why == Unopened::Damaged && round <= DAMAGED_ROUNDS_MAX;
        if let Some((message, why)) = unreadable.iter().find(|(_, why)| !hopeless(*why)) {
            return Err(why.of(&message.queue));
        }
        for (message, why) in unreadable.iter().take(DAMAGED_MAX) {
            let Message { partition_id, offset, id, transaction_id, queue, .. } = message;
            let is_done =
                self.dead_letter_at(*partition_id, *offset, *id, transaction_id, &why.of(queue).to_string()).await?;
            self.inner.counters.dead_lettered(queue, QUEUE_MODE, usize::from(is_done));
        }
        Ok(())
    }
}
