//! The interface of a message queue that is measured.

use serde::{Deserialize, Serialize};

use crate::{Note, Result};

/// How a queue is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// The name of a queue that does not exist yet: a letter, then letters, digits and underscores.
    pub name: String,
    /// The number of partitions, each with its own order.
    pub partitions: usize,
    /// How many messages are sent, received and acked together.
    pub batch: usize,
    /// The number of groups, each of which receives every message.
    pub groups: usize,
    /// The number of connections that send.
    pub senders: usize,
    /// The number of connections that receive, per group.
    pub receivers: usize,
}

impl Queue {
    /// A queue with one group, four connections that send and four that receive.
    pub fn new(name: impl Into<String>, partitions: usize, batch: usize) -> Queue {
        Queue { name: name.into(), partitions, batch, groups: 1, senders: 4, receivers: 4 }
    }

    /// The same queue with `groups` groups and one receiving connection per group.
    pub fn for_groups(self, groups: usize) -> Queue {
        Queue { groups, receivers: 1, ..self }
    }

    /// A queue with one connection that sends single messages, and `receivers` that receive.
    pub fn probed(name: impl Into<String>, receivers: usize) -> Queue {
        Queue { name: name.into(), partitions: 1, batch: 1, groups: 1, senders: 1, receivers }
    }

    /// The number of queues of a system without partitions: one for each receiver of a group. So every receiver gets
    /// messages, and the messages of a partition stay in order.
    pub fn shards(&self) -> usize {
        if self.partitions == 1 { 1 } else { self.receivers }
    }
}

/// A system that is measured.
pub trait Broker: Clone + Send + Sync + 'static {
    /// Its sender.
    type Sender: Sender;
    /// Its receiver.
    type Receiver: Receiver;

    /// Creates an empty queue with its partitions and groups.
    fn open(&self, queue: &Queue) -> impl Future<Output = Result<()>> + Send;

    /// A connection that sends batches of the queue's batch size.
    fn sender(&self, queue: &Queue) -> impl Future<Output = Result<Self::Sender>> + Send;

    /// A connection that receives from a queue for a group. `number` distinguishes the connections of a group.
    fn receiver(
        &self,
        queue: &Queue,
        group: usize,
        number: usize,
    ) -> impl Future<Output = Result<Self::Receiver>> + Send;

    /// Removes a queue.
    fn close(&self, queue: &Queue) -> impl Future<Output = Result<()>> + Send;
}

/// A connection that sends.
pub trait Sender: Send + 'static {
    /// Sends a batch to a partition. Returns when it is stored, or when at most a batch of messages is unconfirmed.
    fn send(&mut self, queue: &Queue, partition: usize, notes: &[Note]) -> impl Future<Output = Result<()>> + Send;

    /// Sends a message to each of these partitions, together if possible.
    fn scatter(&mut self, to: &[(Queue, usize)]) -> impl Future<Output = Result<()>> + Send {
        async move {
            for (queue, partition) in to {
                self.send(queue, *partition, &[Note::now()]).await?;
            }
            Ok(())
        }
    }
}

/// A connection that receives.
pub trait Receiver: Send + 'static {
    /// Waits for a message and returns up to a batch. Empty if the wait has ended without one.
    fn receive(&mut self) -> impl Future<Output = Result<Vec<Note>>> + Send;

    /// Acks the messages that it has received.
    fn end(&mut self) -> impl Future<Output = Result<()>> + Send;
}
