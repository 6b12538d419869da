//! RabbitMQ: durable queues, publisher confirms, manual acks, over AMQP.
//!
//! As its documentation recommends: confirms are awaited while more is published, up to a batch of them; consumers are
//! pushed with a prefetch of some hundred, and end many messages by one ack. Each sender and receiver has a connection
//! with one channel.
//!
//! It has no partitions: many of them are divided among as many queues as a group has consumers, by a direct exchange.
//! This keeps the order within a partition, and all cores have queues.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};

use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer, ExchangeKind, PublisherConfirm};
use tokio::time::timeout;
use traffic::{Broker, Note, Queue, Receiver, Result, Sender};

/// Messages that are on their way to a consumer: within what its documentation calls the best for throughput.
const PREFETCH: u16 = 200;
/// How long a receiver waits before it is asked again.
const PATIENCE: Duration = Duration::from_secs(30);
/// A message that survives a restart.
const PERSISTENT: u8 = 2;

/// The kind of its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Quorum,
    Classic,
}

/// A server.
#[derive(Clone)]
pub(crate) struct Rabbit {
    url: String,
    prefix: String,
    kind: Kind,
}

/// A connection that publishes.
pub(crate) struct Publisher {
    prefix: String,
    _connection: Connection,
    channel: Channel,
    /// Published and not confirmed.
    unconfirmed: VecDeque<PublisherConfirm>,
    window: usize,
}

/// A connection that is pushed to.
pub(crate) struct Subscriber {
    _connection: Connection,
    consumer: Consumer,
    batch: usize,
    unended: Option<Delivery>,
}

impl Rabbit {
    pub(crate) fn new(url: String, prefix: String, kind: Kind) -> Rabbit {
        Rabbit { url, prefix, kind }
    }

    async fn connect(&self) -> Result<(Connection, Channel)> {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        Ok((connection, channel))
    }

    fn queue(&self, queue: &Queue, group: usize, shard: usize) -> String {
        format!("{}.{group}.{shard}", exchange(&self.prefix, queue))
    }
}

fn exchange(prefix: &str, queue: &Queue) -> String {
    format!("{prefix}.{}", queue.name)
}

fn shard_of(queue: &Queue, partition: usize) -> String {
    (partition % queue.shards()).to_string()
}

impl Broker for Rabbit {
    type Sender = Publisher;
    type Receiver = Subscriber;

    async fn open(&self, queue: &Queue) -> Result<()> {
        let (connection, channel) = self.connect().await?;
        let exchange = exchange(&self.prefix, queue);
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        channel
            .exchange_declare(exchange.as_str().into(), ExchangeKind::Direct, durable, FieldTable::default())
            .await?;
        let mut arguments = FieldTable::default();
        let kind = if self.kind == Kind::Quorum { "quorum" } else { "classic" };
        arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
        for group in 0..queue.groups {
            for shard in 0..queue.shards() {
                let name = self.queue(queue, group, shard);
                let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
                channel.queue_declare(name.as_str().into(), durable, arguments.clone()).await?;
                channel
                    .queue_bind(
                        name.as_str().into(),
                        exchange.as_str().into(),
                        shard.to_string().as_str().into(),
                        QueueBindOptions::default(),
                        FieldTable::default(),
                    )
                    .await?;
            }
        }
        Ok(connection.close(200, "done".into()).await?)
    }

    async fn sender(&self, queue: &Queue) -> Result<Publisher> {
        let (connection, channel) = self.connect().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let prefix = self.prefix.clone();
        Ok(Publisher { prefix, _connection: connection, channel, unconfirmed: VecDeque::new(), window: queue.batch })
    }

    async fn receiver(&self, queue: &Queue, group: usize, number: usize) -> Result<Subscriber> {
        let (connection, channel) = self.connect().await?;
        channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
        let name = self.queue(queue, group, number % queue.shards());
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let consumer = channel.basic_consume(name.as_str().into(), "".into(), options, arguments).await?;
        Ok(Subscriber { _connection: connection, consumer, batch: queue.batch, unended: None })
    }

    async fn close(&self, queue: &Queue) -> Result<()> {
        let (connection, channel) = self.connect().await?;
        for group in 0..queue.groups {
            for shard in 0..queue.shards() {
                let name = self.queue(queue, group, shard);
                channel.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await?;
            }
        }
        let exchange = exchange(&self.prefix, queue);
        channel.exchange_delete(exchange.as_str().into(), ExchangeDeleteOptions::default()).await?;
        Ok(connection.close(200, "done".into()).await?)
    }
}

impl Publisher {
    async fn confirm_to(&mut self, most: usize) -> Result<()> {
        while self.unconfirmed.len() > most {
            let Some(confirm) = self.unconfirmed.pop_front() else { break };
            if !confirm.await?.is_ack() {
                return Err("a message was not confirmed".into());
            }
        }
        Ok(())
    }
}

impl Sender for Publisher {
    async fn send(&mut self, queue: &Queue, partition: usize, notes: &[Note]) -> Result<()> {
        let (exchange, key) = (exchange(&self.prefix, queue), shard_of(queue, partition));
        for note in notes {
            // What is on its way is a batch at most.
            self.confirm_to(self.window - 1).await?;
            let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
            let (exchange, key) = (exchange.as_str().into(), key.as_str().into());
            let options = BasicPublishOptions::default();
            let confirm =
                self.channel.basic_publish(exchange, key, options, note.json().as_bytes(), properties).await?;
            self.unconfirmed.push_back(confirm);
        }
        if self.window == 1 { self.confirm_to(0).await } else { Ok(()) }
    }
}

impl Receiver for Subscriber {
    async fn receive(&mut self) -> Result<Vec<Note>> {
        let mut notes = Vec::new();
        // The first is waited for, the others taken if they are here.
        let Ok(first) = timeout(PATIENCE, self.consumer.next()).await else { return Ok(notes) };
        let mut next = Some(first.ok_or("the server has ended the consumer")??);
        while let Some(delivery) = next.take() {
            notes.push(Note::read(std::str::from_utf8(&delivery.data)?)?);
            self.unended = Some(delivery);
            if notes.len() < self.batch
                && let Some(here) = futures_util::FutureExt::now_or_never(self.consumer.next())
            {
                next = Some(here.ok_or("the server has ended the consumer")??);
            }
        }
        Ok(notes)
    }

    async fn end(&mut self) -> Result<()> {
        if let Some(last) = self.unended.take()
            && !last.ack(BasicAckOptions { multiple: true }).await?
        {
            return Err("an ack was not sent".into());
        }
        Ok(())
    }
}
