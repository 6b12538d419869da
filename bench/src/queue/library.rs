//! Reveille as a library, in the process that uses it.

use std::time::Duration;

use reveille_queue::{Ack, AckStatus, NewMessage, Options, Pop, Queues, Source};
use serde_json::value::RawValue;
use tokio::time::Instant;
use traffic::{Broker, Note, Queue, Receiver, Result, Sender};
use uuid::Uuid;

/// How long one pop waits.
const PATIENCE: Duration = Duration::from_secs(30);
/// Messages of one push while partitions are created.
const MADE_AT_ONCE: usize = 1_000;

/// The queues of a schema.
#[derive(Clone)]
pub(super) struct Library {
    queues: Queues,
}

/// A caller that pushes.
pub(super) struct Pushes {
    queues: Queues,
}

/// A caller that pops.
pub(super) struct Pops {
    queues: Queues,
    pop: Pop,
    unended: Vec<Ack>,
}

impl Library {
    pub(super) async fn connect(url: &str, schema: &str, connections: u32) -> Result<Library> {
        let pool = reveille_pg::Options::default().max_connections(connections);
        let db = reveille_pg::Database::connect(url, pool).await?;
        Ok(Library { queues: Queues::open(db, reveille_pg::Schema::new(schema)?, Options::default()).await? })
    }
}

/// The name of a partition.
pub(super) fn partition(number: usize) -> String {
    format!("part-{number}")
}

/// The name of a group.
pub(super) fn group(number: usize) -> String {
    format!("group-{number}")
}

fn message(queue: &Queue, number: usize, note: &Note) -> Result<NewMessage> {
    Ok(NewMessage {
        partition: Some(partition(number)),
        // Existing clients send one with every message.
        transaction_id: Some(Uuid::now_v7().to_string()),
        ..NewMessage::new(&queue.name, RawValue::from_string(note.json())?)
    })
}

impl Broker for Library {
    type Sender = Pushes;
    type Receiver = Pops;

    async fn open(&self, queue: &Queue) -> Result<()> {
        let partitions: Vec<usize> = (0..queue.partitions).collect();
        for some in partitions.chunks(MADE_AT_ONCE) {
            let made = some.iter().map(|partition| message(queue, *partition, &Note::now()));
            self.queues.push(made.collect::<Result<_>>()?).await?;
        }
        for number in 0..queue.groups {
            // The groups start after the messages that created the partitions.
            let subscription = reveille_queue::Subscription::New;
            let first = Pop { group: Some(group(number)), subscription, ..Pop::new(Source::queue(&queue.name)) };
            self.queues.pop(first, None).await?;
        }
        Ok(())
    }

    async fn sender(&self, _: &Queue) -> Result<Pushes> {
        Ok(Pushes { queues: self.queues.clone() })
    }

    async fn receiver(&self, queue: &Queue, number: usize, _: usize) -> Result<Pops> {
        let group = Some(group(number));
        let pop = Pop { group, batch: queue.batch, ..Pop::new(Source::queue(&queue.name)) };
        Ok(Pops { queues: self.queues.clone(), pop, unended: Vec::new() })
    }

    async fn close(&self, _: &Queue) -> Result<()> {
        self.queues.close().await;
        Ok(())
    }
}

impl Sender for Pushes {
    async fn send(&mut self, queue: &Queue, partition: usize, notes: &[Note]) -> Result<()> {
        let messages = notes.iter().map(|note| message(queue, partition, note)).collect::<Result<_>>()?;
        self.queues.push(messages).await?;
        Ok(())
    }

    async fn scatter(&mut self, to: &[(Queue, usize)]) -> Result<()> {
        for some in to.chunks(MADE_AT_ONCE) {
            let messages = some
                .iter()
                .map(|(queue, partition)| message(queue, *partition, &Note::now()))
                .collect::<Result<_>>()?;
            self.queues.push(messages).await?;
        }
        Ok(())
    }
}

impl Receiver for Pops {
    async fn receive(&mut self) -> Result<Vec<Note>> {
        let Some(batch) = self.queues.pop(self.pop.clone(), Some(Instant::now() + PATIENCE)).await? else {
            return Ok(Vec::new());
        };
        let notes = batch.messages.iter().map(|message| Note::read(message.payload.get())).collect::<Result<_>>()?;
        let ack = |message: reveille_queue::Message| Ack {
            transaction_id: message.transaction_id,
            partition_id: message.partition_id,
            status: AckStatus::Completed,
            lease_id: batch.lease_id,
            group: Some(batch.group.clone()),
            error: None,
        };
        self.unended = batch.messages.into_iter().map(ack).collect();
        Ok(notes)
    }

    async fn end(&mut self) -> Result<()> {
        let acked = self.queues.ack(std::mem::take(&mut self.unended)).await?;
        match acked.into_iter().find_map(|acked| acked.outcome.err()) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}
