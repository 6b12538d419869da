//! Reveille over HTTP: each sender and receiver has a connection, as existing clients have.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use traffic::{Broker, Note, Queue, Receiver, Result, Sender};
use uuid::Uuid;

use super::library::{group, partition};
use crate::connection::Connection;

/// How long one pop waits.
const PATIENCE: Duration = Duration::from_secs(30);
/// Messages of one push while partitions are created.
const MADE_AT_ONCE: usize = 1_000;

/// The servers: messages are pushed to the first and popped from the last.
#[derive(Clone)]
pub(super) struct Http {
    first: SocketAddr,
    last: SocketAddr,
}

impl Http {
    pub(super) fn new(servers: &[SocketAddr]) -> Option<Http> {
        Some(Http { first: *servers.first()?, last: *servers.last()? })
    }
}

#[derive(Serialize)]
struct Items {
    items: Vec<Item>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    queue: String,
    partition: String,
    payload: Box<RawValue>,
    transaction_id: String,
}

impl Item {
    fn new(queue: &Queue, number: usize, note: &Note) -> Result<Item> {
        Ok(Item {
            queue: queue.name.clone(),
            partition: partition(number),
            payload: RawValue::from_string(note.json())?,
            transaction_id: Uuid::now_v7().to_string(),
        })
    }
}

#[derive(Deserialize)]
struct Pushed<'a> {
    status: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Popped {
    messages: Vec<Message>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    transaction_id: String,
    partition_id: String,
    lease_id: String,
    data: Box<RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Acks<'a> {
    consumer_group: &'a str,
    acknowledgments: Vec<Ack>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ack {
    transaction_id: String,
    partition_id: String,
    lease_id: String,
    status: &'static str,
}

#[derive(Deserialize)]
struct Acked {
    success: bool,
    error: Option<String>,
}

/// A connection that pushes.
pub(super) struct Pushes(Connection);

/// A connection that pops.
pub(super) struct Pops {
    connection: Connection,
    path: String,
    group: String,
    unended: Vec<Ack>,
}

impl Broker for Http {
    type Sender = Pushes;
    type Receiver = Pops;

    async fn open(&self, queue: &Queue) -> Result<()> {
        let mut pushes = self.sender(queue).await?;
        let partitions: Vec<(Queue, usize)> =
            (0..queue.partitions).map(|partition| (queue.clone(), partition)).collect();
        pushes.scatter(&partitions).await?;
        for number in 0..queue.groups {
            // The groups start after the messages that created the partitions.
            let path = pop(queue, &group(number), "&subscriptionMode=new");
            pushes.0.ask(Method::GET, &path, None).await?;
        }
        Ok(())
    }

    async fn sender(&self, _: &Queue) -> Result<Pushes> {
        Ok(Pushes(Connection::open(self.first).await?))
    }

    async fn receiver(&self, queue: &Queue, number: usize, _: usize) -> Result<Pops> {
        let group = group(number);
        let path = pop(queue, &group, &format!("&wait=true&timeout={}", PATIENCE.as_millis()));
        Ok(Pops { connection: Connection::open(self.last).await?, path, group, unended: Vec::new() })
    }

    async fn close(&self, _: &Queue) -> Result<()> {
        // The queue is removed with its schema.
        Ok(())
    }
}

fn pop(queue: &Queue, group: &str, more: &str) -> String {
    format!("/api/v1/pop/queue/{}?batch={}&consumerGroup={group}{more}", queue.name, queue.batch)
}

impl Pushes {
    async fn push(&mut self, items: Vec<Item>) -> Result<()> {
        let sent = items.len();
        let answer = self.0.ask(Method::POST, "/api/v1/push", Some(serde_json::to_vec(&Items { items })?)).await?;
        let answer = answer.unwrap_or_default();
        let pushed: Vec<Pushed<'_>> = serde_json::from_slice(&answer)?;
        let queued = pushed.iter().filter(|pushed| pushed.status == "queued").count();
        if queued == sent { Ok(()) } else { Err(format!("{queued} of {sent} messages were queued").into()) }
    }
}

impl Sender for Pushes {
    async fn send(&mut self, queue: &Queue, partition: usize, notes: &[Note]) -> Result<()> {
        self.push(notes.iter().map(|note| Item::new(queue, partition, note)).collect::<Result<_>>()?).await
    }

    async fn scatter(&mut self, to: &[(Queue, usize)]) -> Result<()> {
        for some in to.chunks(MADE_AT_ONCE) {
            self.push(
                some.iter()
                    .map(|(queue, partition)| Item::new(queue, *partition, &Note::now()))
                    .collect::<Result<_>>()?,
            )
            .await?;
        }
        Ok(())
    }
}

impl Receiver for Pops {
    async fn receive(&mut self) -> Result<Vec<Note>> {
        let Some(answer) = self.connection.ask(Method::GET, &self.path, None).await? else { return Ok(Vec::new()) };
        let popped: Popped = serde_json::from_slice(&answer)?;
        let notes = popped.messages.iter().map(|message| Note::read(message.data.get())).collect::<Result<_>>()?;
        let ack = |message: Message| Ack {
            transaction_id: message.transaction_id,
            partition_id: message.partition_id,
            lease_id: message.lease_id,
            status: "completed",
        };
        self.unended = popped.messages.into_iter().map(ack).collect();
        Ok(notes)
    }

    async fn end(&mut self) -> Result<()> {
        let acks = Acks { consumer_group: &self.group, acknowledgments: std::mem::take(&mut self.unended) };
        let body = serde_json::to_vec(&acks)?;
        let answer = self.connection.ask(Method::POST, "/api/v1/ack/batch", Some(body)).await?;
        let acked: Vec<Acked> = serde_json::from_slice(&answer.unwrap_or_default())?;
        match acked.into_iter().find(|acked| !acked.success) {
            Some(refused) => Err(refused.error.unwrap_or_else(|| "an ack was rejected".to_owned()).into()),
            None => Ok(()),
        }
    }
}
