//! The cost of a message while a backlog waits: sending some more messages, then receiving as many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::{Broker, Note, Queue, Receiver, Result, Sender};

/// Messages of one call while the backlog is made.
const MADE_AT_ONCE: usize = 1_000;
/// How long receiving the measured messages may take.
const RECEIVED_WITHIN: Duration = Duration::from_secs(300);

/// A queue with a backlog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backlog {
    /// The queue.
    pub queue: Queue,
    /// Messages that wait before the measurement, and at least as many all the time.
    pub backlog: usize,
    /// Messages that are sent, and as many that are received.
    pub messages: usize,
}

/// How long both parts took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BacklogOutcome {
    /// Messages that were sent.
    pub sent: u64,
    /// From the first call to the last answer.
    pub sending_seconds: f64,
    /// Messages that were received and acked; at least as many as were sent, by less than a batch of each receiver.
    pub received: u64,
    /// From the first call to the last ack.
    pub receiving_seconds: f64,
}

/// The connections of a queue with its backlog.
pub(crate) struct Prepared<S, R> {
    senders: Vec<S>,
    receivers: Vec<R>,
}

impl Backlog {
    pub(crate) async fn prepare<B: Broker>(&self, broker: &B) -> Result<Prepared<B::Sender, B::Receiver>> {
        broker.open(&self.queue).await?;
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for _ in 0..self.queue.senders {
            senders.push(broker.sender(&self.queue).await?);
        }
        for number in 0..self.queue.receivers {
            receivers.push(broker.receiver(&self.queue, 0, number).await?);
        }
        // The warm-up of the receivers ends with the backlog that is measured.
        let warm_up = self.queue.batch * self.queue.receivers * 10;
        let (senders, _) = self.send(senders, self.backlog + warm_up, MADE_AT_ONCE).await?;
        let (receivers, _) = self.receive(receivers, warm_up).await?;
        Ok(Prepared { senders, receivers })
    }

    pub(crate) async fn measure<S: Sender, R: Receiver>(
        &self,
        prepared: &mut Prepared<S, R>,
    ) -> Result<BacklogOutcome> {
        let begun = Instant::now();
        let sending = self.send(std::mem::take(&mut prepared.senders), self.messages, self.queue.batch);
        let (senders, sent) = sending.await?;
        let sending_seconds = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let receiving = self.receive(std::mem::take(&mut prepared.receivers), self.messages);
        let (receivers, received) = timeout(RECEIVED_WITHIN, receiving).await??;
        let receiving_seconds = begun.elapsed().as_secs_f64();
        (prepared.senders, prepared.receivers) = (senders, receivers);
        Ok(BacklogOutcome { sent, sending_seconds, received, receiving_seconds })
    }

    /// Sends so many messages through all senders: batches of the queue, each to one partition, in turn; larger ones, of
    /// which there are few, to all partitions in turn.
    async fn send<S: Sender>(&self, senders: Vec<S>, messages: usize, batch: usize) -> Result<(Vec<S>, u64)> {
        let scatters = batch > self.queue.batch;
        let (next, sent) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (messages, batch, partitions) = (messages as u64, batch as u64, self.queue.partitions as u64);
        let mut tasks = JoinSet::new();
        for mut sender in senders {
            let (queue, next, sent) = (self.queue.clone(), Arc::clone(&next), Arc::clone(&sent));
            tasks.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let size = batch.min(messages.saturating_sub(number * batch));
                    if size == 0 {
                        return Result::Ok(sender);
                    }
                    if scatters {
                        let to = |offset| (queue.clone(), ((number * batch + offset) % partitions) as usize);
                        sender.scatter(&(0..size).map(to).collect::<Vec<_>>()).await?;
                    } else {
                        let notes: Vec<Note> = (0..size).map(|_| Note::now()).collect();
                        sender.send(&queue, (number % partitions) as usize, &notes).await?;
                    }
                    sent.fetch_add(size, Ordering::Relaxed);
                }
            });
        }
        let senders = tasks.join_all().await.into_iter().collect::<Result<_>>()?;
        Ok((senders, sent.load(Ordering::Relaxed)))
    }

    /// Receives and acks at least so many messages through all receivers.
    async fn receive<R: Receiver>(&self, receivers: Vec<R>, messages: usize) -> Result<(Vec<R>, u64)> {
        let received = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for mut receiver in receivers {
            let received = Arc::clone(&received);
            tasks.spawn(async move {
                while received.load(Ordering::Relaxed) < messages as u64 {
                    let notes = receiver.receive().await?;
                    receiver.end().await?;
                    received.fetch_add(notes.len() as u64, Ordering::Relaxed);
                }
                Result::Ok(receiver)
            });
        }
        let receivers = tasks.join_all().await.into_iter().collect::<Result<_>>()?;
        Ok((receivers, received.load(Ordering::Relaxed)))
    }
}
