//! PGMQ: its own SQL in the database, its own crate to use it; a connection for each sender and receiver.
//!
//! Messages are sent by `send_batch`, read with a visibility timeout by `read_with_poll`, and removed by `delete`, all
//! in batches.
//!
//! It has no partitions: many of them are divided among as many queues as a group has consumers. It has no groups,
//! either: each has its own queues, to which every message is sent.

use std::time::Duration;

use pgmq::{Message, PGMQueueExt};
use serde_json::value::RawValue;
use traffic::{Broker, Note, Queue, Receiver, Result, Sender};

/// For how long a message that was read is invisible, in seconds.
const INVISIBLE: i32 = 30;
/// How long a read waits in the database.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it looks there: its default where single messages are awaited; more often where there is much to read.
const POLLS: Duration = Duration::from_millis(100);
const LOOKS_OFTEN: Duration = Duration::from_millis(10);

/// A database.
#[derive(Clone)]
pub(crate) struct Pgmq {
    url: String,
    prefix: String,
}

/// A connection that sends.
pub(crate) struct Sends {
    prefix: String,
    queues: PGMQueueExt,
}

/// A connection that reads.
pub(crate) struct Reads {
    queues: PGMQueueExt,
    name: String,
    batch: i32,
    polls: Duration,
    unended: Vec<i64>,
}

impl Pgmq {
    /// Installs its SQL, if it is not there.
    pub(crate) async fn install(url: String, prefix: String) -> Result<Pgmq> {
        let queues = PGMQueueExt::new(url.clone(), 1).await?;
        queues.install_sql_from_embedded().await?;
        Ok(Pgmq { url, prefix })
    }
}

fn named(prefix: &str, queue: &Queue, group: usize, shard: usize) -> String {
    format!("{prefix}_{}_{group}_{shard}", queue.name)
}

impl Broker for Pgmq {
    type Sender = Sends;
    type Receiver = Reads;

    async fn open(&self, queue: &Queue) -> Result<()> {
        let queues = PGMQueueExt::new(self.url.clone(), 1).await?;
        for group in 0..queue.groups {
            for shard in 0..queue.shards() {
                queues.create(&named(&self.prefix, queue, group, shard)).await?;
            }
        }
        Ok(())
    }

    async fn sender(&self, _: &Queue) -> Result<Sends> {
        Ok(Sends { prefix: self.prefix.clone(), queues: PGMQueueExt::new(self.url.clone(), 1).await? })
    }

    async fn receiver(&self, queue: &Queue, group: usize, number: usize) -> Result<Reads> {
        let queues = PGMQueueExt::new(self.url.clone(), 1).await?;
        let name = named(&self.prefix, queue, group, number % queue.shards());
        let polls = if queue.senders == 1 { POLLS } else { LOOKS_OFTEN };
        Ok(Reads { queues, name, batch: i32::try_from(queue.batch)?, polls, unended: Vec::new() })
    }

    async fn close(&self, queue: &Queue) -> Result<()> {
        let queues = PGMQueueExt::new(self.url.clone(), 1).await?;
        for group in 0..queue.groups {
            for shard in 0..queue.shards() {
                queues.drop_queue(&named(&self.prefix, queue, group, shard)).await?;
            }
        }
        Ok(())
    }
}

impl Sender for Sends {
    async fn send(&mut self, queue: &Queue, partition: usize, notes: &[Note]) -> Result<()> {
        let messages: Vec<Box<RawValue>> =
            notes.iter().map(|note| Ok(RawValue::from_string(note.json())?)).collect::<Result<_>>()?;
        for group in 0..queue.groups {
            self.queues.send_batch(&named(&self.prefix, queue, group, partition % queue.shards()), &messages).await?;
        }
        Ok(())
    }
}

impl Receiver for Reads {
    async fn receive(&mut self) -> Result<Vec<Note>> {
        let read: Option<Vec<Message<Box<RawValue>>>> = self
            .queues
            .read_batch_with_poll(&self.name, INVISIBLE, self.batch, Some(PATIENCE), Some(self.polls))
            .await?;
        let read = read.unwrap_or_default();
        self.unended = read.iter().map(|message| message.msg_id).collect();
        read.iter().map(|message| Note::read(message.message.get())).collect()
    }

    async fn end(&mut self) -> Result<()> {
        let ended = self.queues.delete_batch(&self.name, &self.unended).await?;
        if ended == self.unended.len() { Ok(()) } else { Err("a message was not there any more".into()) }
    }
}
