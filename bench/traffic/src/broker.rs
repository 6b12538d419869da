//! What is measured: a message queue as its users use it.

use serde::{Deserialize, Serialize};

use crate::{Note, Result};

/// How a queue is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Its name: a letter, then letters, digits and underlines. It is new.
    pub name: String,
    /// How many partitions it has, each with its own order.
    pub partitions: usize,
    /// How many messages are sent, received and ended together.
    pub batch: usize,
    /// How many groups receive everything.
    pub groups: usize,
    /// How many connections send.
    pub senders: usize,
    /// How many connections receive for each group.
    pub receivers: usize,
}

impl Queue {
    /// Four connections that send, and four that receive for one group.
    pub fn new(name: impl Into<String>, partitions: usize, batch: usize) -> Queue {
        Queue { name: name.into(), partitions, batch, groups: 1, senders: 4, receivers: 4 }
    }

    /// With so many groups, for each of which one connection receives.
    pub fn for_groups(self, groups: usize) -> Queue {
        Queue { groups, receivers: 1, ..self }
    }

    /// One connection that sends single messages, and so many that receive.
    pub fn probed(name: impl Into<String>, receivers: usize) -> Queue {
        Queue { name: name.into(), partitions: 1, batch: 1, groups: 1, senders: 1, receivers }
    }

    /// The number of queues of a system without partitions: one for each receiver of a group. So all of them have
    /// messages, and the messages of a partition stay in order.
    pub fn shards(&self) -> usize {
        if self.partitions == 1 { 1 } else { self.receivers }
    }
}

/// A system.
pub trait Broker: Clone + Send + Sync + 'static {
    /// Its sender.
    type Sender: Sender;
    /// Its receiver.
    type Receiver: Receiver;

    /// Creates an empty queue with its partitions and groups.
    fn open(&self, queue: &Queue) -> impl Future<Output = Result<()>> + Send;

    /// A connection that sends in batches of the size that this queue has.
    fn sender(&self, queue: &Queue) -> impl Future<Output = Result<Self::Sender>> + Send;

    /// A connection that receives from a queue for a group; `number` distinguishes those of one group.
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
    /// Sends a batch to a partition. Returns when it is stored, or when no more than a batch is not.
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
    /// Receives up to a batch as soon as there is a message. Empty if the wait has ended.
    fn receive(&mut self) -> impl Future<Output = Result<Vec<Note>>> + Send;

    /// Ends what it has received.
    fn end(&mut self) -> impl Future<Output = Result<()>> + Send;
}
