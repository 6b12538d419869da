//! Queue providers: how the steps of a namespace reach workers, through the step table, PGMQ or RabbitMQ.
//!
//! The step row stays the source of truth and is its own outbox: the transaction that makes a step due writes nothing
//! else. In a namespace with another queue a publisher claims due steps, writes a new number to each row ([`publish`])
//! and sends a message with that number. This claim is a lease: a step that stays unclaimed is sent again. The receiver
//! of the message claims the step by the number ([`deliver`]), which succeeds once; from then on it is a step like any
//! other, with a token. The message is acked after the commit that ends the step. So a message that is duplicated, late
//! or lost costs a query or some time, and nothing else.

// Code that only optional providers use is compiled without them, too.
#![cfg_attr(not(all(feature = "pgmq", feature = "rabbitmq")), allow(dead_code, unused_variables))]

pub(crate) mod deliver;
mod events;
pub(crate) mod held;
#[cfg(feature = "pgmq")]
mod pgmq;
pub(crate) mod publish;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
mod table;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use reveille_pg::{Database, Schema};
use reveille_wake::{Channel, Consumer};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Error;
use crate::events::change_watch::ChangeWatches;
use crate::namespace::Provider;
use held::Held;

/// Characters of the readable part of a queue's name; with the hash it has at most 47, the limit of PGMQ.
const READABLE_MAX: usize = 30;
/// Bytes of the hash in a queue's name.
const HASH_BYTES: usize = 6;

/// The options of queue providers.
#[derive(Clone)]
pub struct ProviderOptions {
    /// The URL of RabbitMQ, `amqp://…`, or `amqps://…` for TLS; `None`: no RabbitMQ. It is never printed.
    pub amqp_url: Option<String>,
    /// PEM certificates of the authorities that are trusted to sign RabbitMQ's certificate. `None`: those of the
    /// system. If given, a URL without TLS is rejected.
    pub amqp_ca: Option<String>,
    /// After this time a step that was sent and not claimed is sent again. Steps that a crashed server was sending are
    /// sent again after three seconds.
    pub publish_lease: Duration,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        ProviderOptions { amqp_url: None, amqp_ca: None, publish_lease: Duration::from_secs(60) }
    }
}

impl ProviderOptions {
    /// Whether RabbitMQ is compiled in: the feature `rabbitmq`.
    pub const HAS_RABBITMQ: bool = cfg!(feature = "rabbitmq");
}

impl fmt::Debug for ProviderOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amqp = self.amqp_url.is_some();
        f.debug_struct("ProviderOptions").field("amqp", &amqp).field("publish_lease", &self.publish_lease).finish()
    }
}

/// An operation on a queue failed. Steps that were to be sent are due again; messages that were to be received stay in
/// the queue.
#[derive(Debug, thiserror::Error)]
#[error("{queue} {what}")]
pub struct QueueError {
    queue: &'static str,
    what: &'static str,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl QueueError {
    fn new(
        queue: &'static str,
        what: &'static str,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        QueueError { queue, what, source: error.into() }
    }
}

/// The steps with one name in a namespace. They have a queue of their own, so that workers receive only steps that they
/// claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// The namespace.
    pub namespace: String,
    /// The name of the steps.
    pub step: String,
}

/// The message of a step. The claim returns everything else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepMessage {
    /// The task.
    pub task: Uuid,
    /// The ordinal of the step in its task.
    pub ordinal: i32,
    /// A new number each time the step is sent. Only the latest can claim it.
    pub number: i64,
    /// The namespace.
    pub namespace: String,
    /// The step's name.
    pub step: String,
    /// The task's priority.
    pub priority: i16,
    /// The number of earlier attempts.
    pub attempt: i32,
}

/// A received message.
#[derive(Debug)]
pub struct Delivery {
    /// The message.
    pub message: StepMessage,
    /// Identifies the message to ack or release it.
    pub receipt: Receipt,
}

/// Identifies a received message in its queue.
#[derive(Debug)]
pub struct Receipt(pub(crate) MessageRef);

#[derive(Debug)]
pub(crate) enum MessageRef {
    /// The step row itself.
    Row,
    #[cfg(feature = "pgmq")]
    Message { queue: String, id: i64 },
    #[cfg(feature = "rabbitmq")]
    Tag { delivery: Box<lapin::message::Delivery>, link: std::sync::Weak<rabbitmq::Link> },
}

/// Messages that were sent to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The queue's name.
    pub queue: String,
    /// Whether the queue was created for them.
    pub created: bool,
    /// The id of the newest message, if the queue has message ids.
    pub newest: Option<i64>,
}

/// A queue through which steps reach workers.
#[async_trait]
pub trait QueueProvider: Send + Sync {
    /// The kind of the provider.
    fn kind(&self) -> Provider;

    /// Returns when the queue can be used.
    async fn ready(&self) -> Result<(), QueueError>;

    /// Sends messages, and returns when the queue has stored all of them. After an error it may have stored some. The
    /// step table accepts none.
    async fn publish(&self, messages: &[StepMessage]) -> Result<Vec<Sent>, QueueError>;

    /// Receives at most `most` messages of these sources, without waiting. `conn` is the connection of the poll. If
    /// some messages were received before a failure, they are returned.
    async fn receive(
        &self,
        conn: &mut PgConnection,
        sources: &[Source],
        most: usize,
    ) -> Result<Vec<Delivery>, QueueError>;

    /// When a message of these sources that is invisible now may be received again, because its receiver has died.
    /// `None`: there is none, or waiters are woken.
    async fn next_visible(&self, _: &mut PgConnection, _: &[Source]) -> Result<Option<Duration>, QueueError> {
        Ok(None)
    }

    /// Acks messages. A message that does not exist any more is not an error.
    async fn ack(&self, receipts: Vec<Receipt>) -> Result<(), QueueError>;

    /// Releases messages, to be received again at once. `conn` is the connection that received them, if there is one:
    /// through a pooler they are locked until it commits.
    async fn release(&self, conn: Option<&mut PgConnection>, receipts: Vec<Receipt>) -> Result<(), QueueError>;
}

/// A queue that reports when there are messages, so that it need not be polled.
pub trait EventDrivenQueueProvider: QueueProvider {
    /// Whether it reports them. All providers do: a step that becomes ready, or is sent, causes a wake-up.
    fn supports_push_notifications(&self) -> bool;

    /// Events of steps of a namespace that can be received, one each time there are newer ones. Ends when the flow is
    /// closed.
    fn create_event_stream(&self, namespace: &str) -> BoxStream<'static, QueueEvent>;
}

/// There are steps to receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEvent {
    /// The namespace.
    pub namespace: String,
}

/// The queue providers of a flow, and the receipts of claimed steps.
pub(crate) struct Providers {
    pub(crate) held: Held,
    table: Arc<dyn EventDrivenQueueProvider>,
    pgmq: Option<Arc<dyn EventDrivenQueueProvider>>,
    rabbitmq: Option<Arc<dyn EventDrivenQueueProvider>>,
    /// Wakes receivers when messages were sent.
    pub(crate) channel: Channel,
}

impl Providers {
    pub(crate) fn new(
        db: &Database,
        schema: &Schema,
        options: &ProviderOptions,
        channel: Channel,
        change_watches: &Consumer<ChangeWatches>,
    ) -> Providers {
        #[cfg(feature = "pgmq")]
        let pgmq = Some(Arc::new(pgmq::Pgmq::new(db, schema, options.publish_lease, change_watches.clone())) as _);
        #[cfg(not(feature = "pgmq"))]
        let pgmq = None;
        #[cfg(feature = "rabbitmq")]
        let rabbitmq = options.amqp_url.clone().map(|url| {
            Arc::new(rabbitmq::Rabbitmq::new(url, options.amqp_ca.clone(), schema.name(), change_watches.clone())) as _
        });
        #[cfg(not(feature = "rabbitmq"))]
        let rabbitmq = None;
        let table = Arc::new(table::Table::new(schema, change_watches.clone()));
        Providers { held: Held::default(), table, pgmq, rabbitmq, channel }
    }

    /// The provider of a kind.
    ///
    /// # Errors
    /// [`Error::Invalid`] if this process has none.
    pub(crate) fn get(&self, kind: Provider) -> Result<&Arc<dyn EventDrivenQueueProvider>, Error> {
        let (found, reason) = match kind {
            Provider::Table => (Some(&self.table), ""),
            Provider::Pgmq => (self.pgmq.as_ref(), "this server was built without PGMQ (cargo feature `pgmq`)"),
            Provider::Rabbitmq if cfg!(feature = "rabbitmq") => {
                (self.rabbitmq.as_ref(), "this server has no RabbitMQ: set its URL")
            }
            Provider::Rabbitmq => (None, "this server was built without RabbitMQ (cargo feature `rabbitmq`)"),
        };
        found.ok_or_else(|| Error::invalid("provider", reason))
    }
}

impl crate::Flow {
    /// The queue provider of a kind.
    ///
    /// # Errors
    /// [`Error::Invalid`] if this process has none.
    pub fn provider(&self, kind: Provider) -> Result<Arc<dyn EventDrivenQueueProvider>, Error> {
        self.inner.providers.get(kind).cloned()
    }
}

/// The name of the queue of a source: a readable part, and a hash that makes it unique.
pub(crate) fn queue_name(schema: &str, source: &Source) -> String {
    let readable = if schema == crate::events::DEFAULT_SCHEMA {
        format!("{}_{}", source.namespace, source.step)
    } else {
        format!("{schema}_{}_{}", source.namespace, source.step)
    };
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' };
    let readable: String = readable.chars().map(letter).take(READABLE_MAX).collect();
    let mut hash = Sha256::new();
    for part in [schema, &source.namespace, &source.step] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let hash: String = hash.finalize()[..HASH_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{readable}_{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(schema: &str, namespace: &str, step: &str) -> String {
        queue_name(schema, &Source { namespace: namespace.to_owned(), step: step.to_owned() })
    }

    /// For any namespace and step name the queue has a name that every broker accepts, and that no other source has.
    #[test]
    fn a_queue_has_a_name_of_its_own() {
        let long = "ü'\"; ".repeat(50);
        let names = [
            named("reveille", "a_b", "c"),
            named("reveille", "a", "b_c"),
            named("other", "a", "b_c"),
            named("reveille", &long, "x"),
            named("reveille", &long, "y"),
        ];
        assert!(names[0].starts_with("a_b_c_"), "{}", names[0]);
        for (index, name) in names.iter().enumerate() {
            assert!(name.len() <= 47, "{name}");
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
                "{name}"
            );
            assert_eq!(names.iter().position(|other| other == name), Some(index));
        }
    }
}
