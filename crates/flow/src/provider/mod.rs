//! Through what the steps of a namespace are handed out: the tables themselves, PGMQ, or RabbitMQ.
//!
//! The step row stays the truth, and is its own outbox: the transaction that makes a step due is all there is to write. In a namespace with another queue somebody waits for due steps as workers
//! do, marks each with a number of its own ([`publish`]), and sends a message with that number. Being sent is a lease: what nobody claims is sent again. Who receives the message
//! claims the step by that number ([`deliver`]), once; from there on it is a step like any other, with its token. The message is acked when the step has ended, after the commit. So a message
//! that comes twice, late or never costs a look or some time, and nothing else.

// What only optional queues use is compiled without them, too.
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

/// Letters of a queue's name that tell people what it is for; with the hash it fits what PGMQ allows, which is 47.
const READABLE_MAX: usize = 30;
/// Bytes of the hash in a queue's name.
const HASH_BYTES: usize = 6;

/// About queues beside the tables.
#[derive(Clone)]
pub struct ProviderOptions {
    /// Where RabbitMQ is, as `amqp://…`, or `amqps://…` for TLS; `None`: there is none. It is not printed.
    pub amqp_url: Option<String>,
    /// Certificates, in PEM, of the authorities that may have signed RabbitMQ's own. `None`: those of the system. With it an address without TLS is refused.
    pub amqp_ca: Option<String>,
    /// After how long a step that was sent and not claimed is sent again. What a server had that died is found after three seconds.
    pub publish_lease: Duration,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        ProviderOptions { amqp_url: None, amqp_ca: None, publish_lease: Duration::from_secs(60) }
    }
}

impl ProviderOptions {
    /// Whether this build can talk to RabbitMQ: the feature `rabbitmq`.
    pub const HAS_RABBITMQ: bool = cfg!(feature = "rabbitmq");
}

impl fmt::Debug for ProviderOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amqp = self.amqp_url.is_some();
        f.debug_struct("ProviderOptions").field("amqp", &amqp).field("publish_lease", &self.publish_lease).finish()
    }
}

/// Why a queue could not do something. What was to be sent is due again, what was to be received is still there.
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

/// Which steps: those of a name in a namespace. Each has a queue of its own, so that nobody receives what it does not work on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// The namespace.
    pub namespace: String,
    /// The name of the steps.
    pub step: String,
}

/// What is sent for a step. Everything else is handed out by the claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepMessage {
    /// The task.
    pub task: Uuid,
    /// Which of its steps.
    pub ordinal: i32,
    /// Another one each time it is sent: who brings the latest may claim the step.
    pub number: i64,
    /// The namespace.
    pub namespace: String,
    /// The step's name.
    pub step: String,
    /// The task's priority.
    pub priority: i16,
    /// How many attempts there were before.
    pub attempt: i32,
}

/// A message that a queue has brought.
#[derive(Debug)]
pub struct Delivery {
    /// What was sent.
    pub message: StepMessage,
    /// What to present when it has done its work.
    pub receipt: Receipt,
}

/// A message as its queue knows it.
#[derive(Debug)]
pub struct Receipt(pub(crate) Mark);

#[derive(Debug)]
pub(crate) enum Mark {
    /// The row of the step itself.
    Row,
    #[cfg(feature = "pgmq")]
    Message { queue: String, id: i64 },
    #[cfg(feature = "rabbitmq")]
    Tag { delivery: Box<lapin::message::Delivery>, link: std::sync::Weak<rabbitmq::Link> },
}

/// What was sent to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The queue's name.
    pub queue: String,
    /// It was made for this.
    pub created: bool,
    /// The number of its newest message, where messages have numbers.
    pub newest: Option<i64>,
}

/// A queue through which steps are handed out.
#[async_trait]
pub trait QueueProvider: Send + Sync {
    /// Which one it is.
    fn kind(&self) -> Provider;

    /// Returns when it can be used, or says why it cannot.
    async fn ready(&self) -> Result<(), QueueError>;

    /// Sends messages, and returns when the queue has all of them for good. After an error it may have some. The tables take none.
    async fn publish(&self, messages: &[StepMessage]) -> Result<Vec<Sent>, QueueError>;

    /// Receives what is there of these sources now, at most so many; does not wait. `conn` is a connection that who asks has anyway. What was received before something failed is no error.
    async fn receive(
        &self,
        conn: &mut PgConnection,
        sources: &[Source],
        most: usize,
    ) -> Result<Vec<Delivery>, QueueError>;

    /// When a message of these sources that is invisible now may be received again, because its receiver has died. `None`: there is none, or waiters are woken.
    async fn next_visible(&self, _: &mut PgConnection, _: &[Source]) -> Result<Option<Duration>, QueueError> {
        Ok(None)
    }

    /// Ends messages that have done their work. One that is not there any more is no error.
    async fn ack(&self, receipts: Vec<Receipt>) -> Result<(), QueueError>;

    /// Puts messages back, to be received again at once. `conn` is the connection by which they were received, if that is still at hand: through a pooler it has them locked until it commits.
    async fn release(&self, conn: Option<&mut PgConnection>, receipts: Vec<Receipt>) -> Result<(), QueueError>;
}

/// A queue that says when there is something, so that nobody has to ask.
pub trait EventDrivenQueueProvider: QueueProvider {
    /// Whether it does. All of these do: whatever is made ready, or sent, rings.
    fn supports_push_notifications(&self) -> bool;

    /// Word of steps of a namespace that can be received, one for each time there is something newer. It ends when the flow is closed.
    fn create_event_stream(&self, namespace: &str) -> BoxStream<'static, QueueEvent>;
}

/// There is something to be received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEvent {
    /// In this namespace.
    pub namespace: String,
}

/// The queues of a flow, and what was received from them and has not ended.
pub(crate) struct Providers {
    pub(crate) held: Held,
    table: Arc<dyn EventDrivenQueueProvider>,
    pgmq: Option<Arc<dyn EventDrivenQueueProvider>>,
    rabbitmq: Option<Arc<dyn EventDrivenQueueProvider>>,
    /// Rung when something was sent.
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

    /// The queue of a kind.
    ///
    /// # Errors
    /// [`Error::Invalid`] if this process has none.
    pub(crate) fn get(&self, kind: Provider) -> Result<&Arc<dyn EventDrivenQueueProvider>, Error> {
        let (found, reason) = match kind {
            Provider::Table => (Some(&self.table), ""),
            Provider::Pgmq => (self.pgmq.as_ref(), "this server was built without PGMQ (cargo feature `pgmq`)"),
            Provider::Rabbitmq if cfg!(feature = "rabbitmq") => {
                (self.rabbitmq.as_ref(), "this server knows no RabbitMQ: give it the address of one")
            }
            Provider::Rabbitmq => (None, "this server was built without RabbitMQ (cargo feature `rabbitmq`)"),
        };
        found.ok_or_else(|| Error::invalid("provider", reason))
    }
}

impl crate::Flow {
    /// The queue of a kind, as this process uses it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if this process has none.
    pub fn provider(&self, kind: Provider) -> Result<Arc<dyn EventDrivenQueueProvider>, Error> {
        self.inner.providers.get(kind).cloned()
    }
}

/// The name of the queue of a source: a piece that people can read, and a hash that no other source has.
pub(crate) fn queue_name(schema: &str, source: &Source) -> String {
    let readable = if schema == crate::event_driven::DEFAULT_SCHEMA {
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

    /// Whatever a namespace and a step are called, their queue has a name that every broker takes, and no other source has it.
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
        for (place, name) in names.iter().enumerate() {
            assert!(name.len() <= 47, "{name}");
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
                "{name}"
            );
            assert_eq!(names.iter().position(|other| other == name), Some(place));
        }
    }
}
