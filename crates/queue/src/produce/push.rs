//! Pushing: from the messages of a request to write batches, and their answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use sqlx::PgConnection;
use tokio::time::timeout;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::message::{NewMessage, PushStatus, Pushed};
use crate::name::hash;
use crate::produce::append::PendingHashes;
use crate::produce::push_write::{PushOutcome, PushWrite, StoredMessage};
use crate::queues::Queues;
use crate::storage::encryption::Label;
use crate::storage::partition_ref::PartitionRef;

/// Messages of one request that one write has for a partition; further ones follow when it has returned.
const WRITE_MAX: usize = 1_000;
/// Bytes of one write.
const WRITE_BYTES_MAX: usize = 1 << 20;
/// How often a partition is resolved again because its queue has changed.
const REOPENED_MAX: usize = 5;
/// How long a push in the caller's transaction waits for a second connection, which it does not need.
const CONNECTION_WAIT: Duration = Duration::from_secs(2);

/// A message of a request, with the ids that every attempt uses.
struct Incoming<'a> {
    message: &'a NewMessage,
    id: Uuid,
    transaction_id: String,
}

impl<'a> Incoming<'a> {
    fn of(message: &'a NewMessage) -> Result<Incoming<'a>> {
        message.check()?;
        let id = Uuid::now_v7();
        let given = message.transaction_id.clone().filter(|given| !given.is_empty());
        Ok(Incoming { message, id, transaction_id: given.unwrap_or_else(|| Uuid::now_v7().to_string()) })
    }

    fn bytes(&self) -> usize {
        self.message.payload.get().len() + self.transaction_id.len()
    }
}

impl Queues {
    /// Pushes messages to their partitions, in order within each. Returns one answer per message, in order.
    ///
    /// Retrying a push is safe if its messages have transaction ids: those that are stored already are duplicates.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid message: nothing was pushed. Otherwise those of the engine: some messages may
    /// have been pushed.
    pub async fn push(&self, messages: Vec<NewMessage>) -> Result<Vec<Pushed>> {
        let incoming = messages.iter().map(Incoming::of).collect::<Result<Vec<_>>>()?;
        let by_partition = self.by_partition(&incoming).await?;
        let mut answers: Vec<Option<Pushed>> = incoming.iter().map(|_| None).collect();
        let sent = by_partition.into_iter().map(|(partition, indexes)| self.send(partition, indexes, &incoming));
        for (index, pushed) in try_join_all(sent).await?.into_iter().flatten() {
            answers[index] = Some(pushed);
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Pushes inside the caller's own transaction: if and only if it commits, the messages are stored and their waiters
    /// are woken. Until then other pushes to the same partitions wait.
    ///
    /// # Errors
    /// As [`push`](Self::push). Then the transaction must be rolled back.
    pub async fn push_in(&self, conn: &mut PgConnection, messages: Vec<NewMessage>) -> Result<Vec<Pushed>> {
        let incoming = messages.iter().map(Incoming::of).collect::<Result<Vec<_>>>()?;
        self.catch_up(&incoming).await?;
        let mut pending = PendingHashes::default();
        let pushed = self.push_incoming(conn, &incoming, &mut pending).await?;
        // This process does not learn whether it commits.
        let mut dedup_cache = self.inner.dedup_cache();
        pending.deltas.iter().for_each(|(partition, delta)| dedup_cache.missed(*partition, delta.offsets.len()));
        Ok(pushed)
    }

    /// Reads hashes of the partitions that every push in a transaction would have to read again.
    async fn catch_up(&self, incoming: &[Incoming<'_>]) -> Result<()> {
        let by_partition = self.by_partition(incoming).await?;
        let behind: Vec<_> = {
            let dedup_cache = self.inner.dedup_cache();
            by_partition.iter().filter_map(|(partition, _)| dedup_cache.behind(partition.id)).collect()
        };
        if behind.is_empty() {
            return Ok(());
        }
        // If all connections are in use by transactions that wait for this one, its own connection reads the hashes.
        let Ok(session) = timeout(CONNECTION_WAIT, self.inner.db.session()).await else { return Ok(()) };
        let mut session = session?;
        self.inner.push.catch_up(&mut session, behind).await?;
        session.finish().await?;
        Ok(())
    }

    /// As [`push_in`](Self::push_in), for a caller that commits the transaction, and adds `pending` to the cache then.
    pub(crate) async fn push_uncommitted(
        &self,
        conn: &mut PgConnection,
        messages: &[NewMessage],
        pending: &mut PendingHashes,
    ) -> Result<Vec<Pushed>> {
        let incoming = messages.iter().map(Incoming::of).collect::<Result<Vec<_>>>()?;
        self.push_incoming(conn, &incoming, pending).await
    }

    async fn push_incoming(
        &self,
        conn: &mut PgConnection,
        incoming: &[Incoming<'_>],
        pending: &mut PendingHashes,
    ) -> Result<Vec<Pushed>> {
        let inner = &self.inner;
        for _ in 0..REOPENED_MAX {
            let mut by_partition: Vec<(Arc<PartitionRef>, Vec<usize>)> = self.by_partition(incoming).await?;
            by_partition.sort_by_key(|(partition, _)| partition.id);
            let writes = by_partition
                .iter()
                .map(|(partition, indexes)| self.push_write(partition, indexes, incoming))
                .collect::<Result<Vec<PushWrite>>>()?;
            let wake_ups: Vec<reveille_wake::WakeUp> =
                by_partition.iter().map(|(partition, _)| partition.pushed(&inner.channel)).collect();
            let wake_ups = reveille_wake::Wake::notifications(&wake_ups);
            let outcomes =
                inner.push.append_uncommitted(conn, &writes.iter().collect::<Vec<_>>(), &wake_ups, pending).await?;
            if outcomes.contains(&PushOutcome::Gone) {
                for ((partition, _), _) in
                    by_partition.iter().zip(&outcomes).filter(|(_, outcome)| **outcome == PushOutcome::Gone)
                {
                    inner.partitions.forget(&partition.queue);
                    inner.dedup_cache().forget(partition.id);
                }
                if outcomes.iter().all(|outcome| *outcome == PushOutcome::Gone) {
                    continue;
                }
                return Err(Error::RolledBack {
                    reason: "a queue was changed by another request meanwhile".to_owned(),
                });
            }
            if outcomes.contains(&PushOutcome::InMaintenance) {
                let reason = "pushes are under maintenance, and a transaction cannot wait for its end".to_owned();
                return Err(Error::RolledBack { reason });
            }
            let mut answers: Vec<Option<Pushed>> = incoming.iter().map(|_| None).collect();
            for ((partition, indexes), outcome) in by_partition.iter().zip(outcomes) {
                for (index, pushed) in self.answers(partition, indexes, &outcome, incoming) {
                    answers[index] = Some(pushed);
                }
            }
            return Ok(answers.into_iter().flatten().collect());
        }
        Err(Error::RolledBack { reason: "a queue is being deleted".to_owned() })
    }

    /// The indexes of the messages of each partition.
    async fn by_partition(&self, incoming: &[Incoming<'_>]) -> Result<Vec<(Arc<PartitionRef>, Vec<usize>)>> {
        let mut names: Vec<(&str, &str)> = Vec::new();
        let mut by_partition: Vec<Vec<usize>> = Vec::new();
        let mut known: HashMap<(&str, &str), usize> = HashMap::new();
        for (index, incoming_message) in incoming.iter().enumerate() {
            let name = (incoming_message.message.queue.as_str(), incoming_message.message.partition_name());
            let at = *known.entry(name).or_insert_with(|| {
                names.push(name);
                by_partition.push(Vec::new());
                names.len() - 1
            });
            by_partition[at].push(index);
        }
        let partitions = self.inner.open(&names).await?;
        Ok(partitions.into_iter().zip(by_partition).collect())
    }

    fn push_write(
        &self,
        partition: &Arc<PartitionRef>,
        indexes: &[usize],
        incoming: &[Incoming<'_>],
    ) -> Result<PushWrite> {
        let encryption = |index: &usize| {
            let Incoming { message, id, transaction_id } = &incoming[*index];
            Ok(StoredMessage {
                id: *id,
                transaction_id: transaction_id.clone(),
                hash: hash(transaction_id),
                payload: self.inner.encryption.close(
                    partition.encrypted,
                    &label(partition, &incoming[*index]),
                    message.payload.get(),
                )?,
                trace_id: message.trace_id.clone(),
                producer: message.producer.clone(),
            })
        };
        let messages = indexes.iter().map(encryption).collect::<Result<Vec<_>>>()?;
        Ok(PushWrite { partition: partition.clone(), messages, drains: false })
    }

    /// Sends the messages of one partition, one write after another to keep their order.
    async fn send(
        &self,
        mut partition: Arc<PartitionRef>,
        indexes: Vec<usize>,
        incoming: &[Incoming<'_>],
    ) -> Result<Vec<(usize, Pushed)>> {
        let mut answers = Vec::with_capacity(indexes.len());
        let mut rest = indexes.as_slice();
        let mut reopened = 0;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take(WRITE_MAX).take_while(|index| {
                let before = bytes;
                bytes += incoming[**index].bytes();
                before == 0 || bytes <= WRITE_BYTES_MAX
            });
            let (write, later) = rest.split_at(fits.count());
            let outcome = self.inner.pushes.submit(self.push_write(&partition, write, incoming)?).await?;
            match outcome {
                PushOutcome::Gone if reopened < REOPENED_MAX => {
                    reopened += 1;
                    self.inner.partitions.forget(&partition.queue);
                    self.inner.dedup_cache().forget(partition.id);
                    let name = (partition.queue.clone(), partition.name.clone());
                    let reopened = self.inner.open(&[(&name.0, &name.1)]).await?;
                    partition = reopened.into_iter().next().unwrap_or(partition);
                }
                PushOutcome::InMaintenance if !self.buffer_messages(&partition, write, incoming).await? => {}
                outcome => {
                    answers.extend(self.answers(&partition, write, &outcome, incoming));
                    rest = later;
                }
            }
        }
        Ok(answers)
    }

    fn answers(
        &self,
        partition: &PartitionRef,
        indexes: &[usize],
        outcome: &PushOutcome,
        incoming: &[Incoming<'_>],
    ) -> Vec<(usize, Pushed)> {
        let answer = |(at, index): (usize, &usize)| {
            let incoming_message = &incoming[*index];
            let (status, message_id) = match outcome {
                PushOutcome::Stored(originals) => match originals.get(at).copied().flatten() {
                    Some(original) => (PushStatus::Duplicate, original),
                    None => (PushStatus::Queued, incoming_message.id),
                },
                PushOutcome::InMaintenance => (PushStatus::Buffered, incoming_message.id),
                PushOutcome::Full(stored) => match stored.get(at).copied().flatten() {
                    Some(id) if id == incoming_message.id => (PushStatus::Queued, id),
                    Some(original) => (PushStatus::Duplicate, original),
                    None => (
                        PushStatus::Failed(format!("queue {:?} has reached its maxSize", partition.queue)),
                        incoming_message.id,
                    ),
                },
                PushOutcome::Gone => {
                    (PushStatus::Failed(format!("queue {:?} is being deleted", partition.queue)), incoming_message.id)
                }
            };
            let transaction_id = incoming_message.transaction_id.clone();
            (
                *index,
                Pushed { status, message_id, transaction_id, partition_id: self.inner.ids.partition(partition.id) },
            )
        };
        indexes.iter().enumerate().map(answer).collect()
    }

    /// Buffers messages until maintenance ends. `false`: it has ended.
    async fn buffer_messages(
        &self,
        partition: &PartitionRef,
        indexes: &[usize],
        incoming: &[Incoming<'_>],
    ) -> Result<bool> {
        let mut payloads = Vec::with_capacity(indexes.len());
        for index in indexes {
            let incoming_message = &incoming[*index];
            payloads.push(self.inner.encryption.close(
                partition.encrypted,
                &label(partition, incoming_message),
                incoming_message.message.payload.get(),
            )?);
        }
        let each = || indexes.iter().map(|index| &incoming[*index]);
        let mut session = self.inner.db.session().await?;
        let kept = sqlx::query_scalar(&self.inner.sql.buffer_messages)
            .bind(&partition.queue)
            .bind(&partition.name)
            .bind(partition.encrypted)
            .bind(each().map(|incoming_message| incoming_message.id).collect::<Vec<_>>())
            .bind(each().map(|incoming_message| incoming_message.transaction_id.as_str()).collect::<Vec<_>>())
            .bind(each().map(|incoming_message| incoming_message.message.trace_id.as_deref()).collect::<Vec<_>>())
            .bind(each().map(|incoming_message| incoming_message.message.producer.as_deref()).collect::<Vec<_>>())
            .bind(payloads)
            .fetch_one(&mut *session)
            .await?;
        session.finish().await?;
        Ok(kept)
    }
}

/// The label that the payload of a message is bound to.
fn label<'a>(partition: &'a PartitionRef, incoming_message: &'a Incoming<'_>) -> Label<'a> {
    Label {
        queue: &partition.queue,
        partition: &partition.name,
        transaction_id: &incoming_message.transaction_id,
        id: incoming_message.id,
    }
}
