//! RabbitMQ: a durable queue per source, publisher confirms, acks by hand.
//!
//! Messages are fetched when somebody waits for them, as many as are waited for: none lies unacked in a process that has no use for it, however many are under way there. Whoever
//! sends rings, so nobody asks in vain. A connection that is lost is made anew by whoever needs it next; what was received by it and not acked comes again, and is dropped where it was claimed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicNackOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use sqlx::PgConnection;
use tokio::sync::Mutex;
use tokio::time::timeout;
use wake::Consumer;

use super::events::{self, Events};
use super::{
    Delivery, EventDrivenQueueProvider, Mark, QueueError, QueueEvent, QueueProvider, Receipt, Sent, Source,
    StepMessage, queue_name,
};
use crate::namespace::Provider;

const NAME: &str = "RabbitMQ";
/// A message that survives a restart.
const PERSISTENT: u8 = 2;
/// The highest priority of a message; each costs the server memory, so its documentation advises ten at most.
const PRIORITY_MAX: u8 = 9;
/// Where a task's priority of zero is among those.
const PRIORITY_ZERO: i16 = 4;
/// How long it may take to have what is sent together: a server that is short of memory or disk takes nothing for a while.
const SENDING: Duration = Duration::from_secs(30);
/// How long it may take to be there, or to answer, before it counts as away.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Rabbitmq {
    url: String,
    schema: String,
    link: Mutex<Option<Arc<Link>>>,
    events: Consumer<Events>,
}

/// A connection.
struct Link {
    connection: Connection,
    /// For what is sent, and for what is received.
    sends: Channel,
    receives: Channel,
    /// The queues that it has declared.
    declared: std::sync::Mutex<HashSet<String>>,
}

fn failed(what: &'static str) -> impl Fn(lapin::Error) -> QueueError {
    move |error| QueueError::new(NAME, what, error)
}

impl Link {
    async fn open(url: &str) -> lapin::Result<Link> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let sends = connection.create_channel().await?;
        sends.confirm_select(ConfirmSelectOptions::default()).await?;
        let receives = connection.create_channel().await?;
        Ok(Link { connection, sends, receives, declared: std::sync::Mutex::default() })
    }

    fn is_alive(&self) -> bool {
        self.connection.status().connected() && self.sends.status().connected() && self.receives.status().connected()
    }

    /// Makes a queue, if this connection has not yet. Answers whether it has now.
    async fn declare(&self, queue: &str) -> lapin::Result<bool> {
        let declared = || self.declared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if declared().contains(queue) {
            return Ok(false);
        }
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut arguments = FieldTable::default();
        arguments.insert("x-max-priority".into(), AMQPValue::ShortShortUInt(PRIORITY_MAX));
        self.sends.queue_declare(queue.into(), durable, arguments).await?;
        Ok(declared().insert(queue.to_owned()))
    }
}

impl Rabbitmq {
    pub(super) fn new(url: String, schema: &str, events: Consumer<Events>) -> Rabbitmq {
        Rabbitmq { url, schema: schema.to_owned(), link: Mutex::default(), events }
    }

    /// The connection; a new one if there is none that works.
    async fn link(&self) -> Result<Arc<Link>, QueueError> {
        let mut link = self.link.lock().await;
        if let Some(link) = link.as_ref().filter(|link| link.is_alive()) {
            return Ok(link.clone());
        }
        *link = None;
        let opened = in_time("could not be reached", Link::open(&self.url)).await?;
        Ok(link.insert(Arc::new(opened)).clone())
    }

    /// Leaves the connection: it has failed, or what it knows is not so any more.
    async fn leave(&self) {
        *self.link.lock().await = None;
    }

    async fn send(&self, messages: &[StepMessage]) -> Result<Vec<Sent>, QueueError> {
        let link = self.link().await?;
        let mut confirms = Vec::with_capacity(messages.len());
        let mut sent: Vec<Sent> = Vec::new();
        for message in messages {
            let source = Source { namespace: message.namespace.clone(), step: message.step.clone() };
            let queue = queue_name(&self.schema, &source);
            let created = in_time("could not make a queue", link.declare(&queue)).await?;
            let body = serde_json::to_vec(message).map_err(|error| QueueError::new(NAME, "could not send", error))?;
            let properties =
                BasicProperties::default().with_delivery_mode(PERSISTENT).with_priority(priority(message.priority));
            // A queue that somebody has deleted is not to swallow it.
            let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let published = link.sends.basic_publish("".into(), queue.as_str().into(), mandatory, &body, properties);
            confirms.push(in_time("could not send", published).await?);
            if !sent.iter().any(|sent| sent.queue == queue) {
                sent.push(Sent { queue, created, newest: None });
            }
        }
        for confirm in confirms {
            match in_time("did not confirm", confirm).await? {
                Confirmation::Ack(None) => {}
                _ => return Err(QueueError::new(NAME, "did not confirm", "a message was refused or had no queue")),
            }
        }
        Ok(sent)
    }

    async fn fetch(&self, sources: &[Source], most: usize) -> Result<Vec<Delivery>, QueueError> {
        let link = self.link().await?;
        let mut deliveries = Vec::new();
        for source in sources {
            let queue = queue_name(&self.schema, source);
            in_time("could not make a queue", link.declare(&queue)).await?;
            while deliveries.len() < most {
                let got = link.receives.basic_get(queue.as_str().into(), BasicGetOptions::default());
                let Some(got) = in_time("could not be read", got).await? else { break };
                let mut delivery = Box::new(got.delivery);
                match serde_json::from_slice(&std::mem::take(&mut delivery.data)) {
                    Ok(message) => deliveries.push(Delivery { message, receipt: Receipt(Mark::Tag(delivery)) }),
                    Err(error) => {
                        tracing::warn!(queue, %error, "dropped a message of RabbitMQ that is none of this engine's");
                        let dropped = delivery.acker.ack(BasicAckOptions::default());
                        in_time("could not drop a message", dropped).await?;
                    }
                }
            }
        }
        Ok(deliveries)
    }
}

/// What is asked of the server, unless it takes too long.
async fn in_time<T>(what: &'static str, asked: impl Future<Output = lapin::Result<T>>) -> Result<T, QueueError> {
    match timeout(PATIENCE, asked).await {
        Ok(answer) => answer.map_err(failed(what)),
        Err(late) => Err(QueueError::new(NAME, what, late)),
    }
}

fn priority(of_task: i16) -> u8 {
    of_task.saturating_add(PRIORITY_ZERO).clamp(0, PRIORITY_MAX.into()) as u8
}

#[async_trait]
impl QueueProvider for Rabbitmq {
    fn kind(&self) -> Provider {
        Provider::Rabbitmq
    }

    async fn ready(&self) -> Result<(), QueueError> {
        self.link().await.map(|_| ())
    }

    async fn publish(&self, messages: &[StepMessage]) -> Result<Vec<Sent>, QueueError> {
        let sent = timeout(SENDING, self.send(messages)).await;
        let sent = sent.unwrap_or_else(|late| Err(QueueError::new(NAME, "took too long to confirm", late)));
        if sent.is_err() {
            self.leave().await;
        }
        sent
    }

    async fn receive(
        &self,
        _: &mut PgConnection,
        sources: &[Source],
        most: usize,
    ) -> Result<Vec<Delivery>, QueueError> {
        let received = self.fetch(sources, most).await;
        if received.is_err() {
            self.leave().await;
        }
        received
    }

    async fn ack(&self, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        for Receipt(mark) in receipts {
            if let Mark::Tag(delivery) = mark {
                in_time("could not end a message", delivery.acker.ack(BasicAckOptions::default())).await?;
            }
        }
        Ok(())
    }

    async fn release(&self, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        let again = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        for Receipt(mark) in receipts {
            if let Mark::Tag(delivery) = mark {
                in_time("could not put a message back", delivery.acker.nack(again)).await?;
            }
        }
        Ok(())
    }
}

impl EventDrivenQueueProvider for Rabbitmq {
    fn supports_push_notifications(&self) -> bool {
        true
    }

    fn create_event_stream(&self, namespace: &str) -> BoxStream<'static, QueueEvent> {
        events::stream(&self.events, namespace)
    }
}
