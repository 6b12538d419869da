//! PGMQ in the same database. Its SQL is installed from its crate if it is missing; no extension is needed.
//!
//! A message that was read is invisible for some seconds, enough to claim its step, and is deleted when the step has
//! ended. Nothing polls: a sender wakes the receivers, and a receiver that finds no message learns when the next
//! invisible one becomes visible.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use parking_lot::Mutex;
use pgmq::{Message, PGMQueueExt, PgmqError};
use reveille_pg::{Database, Schema, Sql};
use reveille_wake::Consumer;
use serde_json::Value;
use sqlx::PgConnection;
use tokio::sync::OnceCell;

use super::events;
use super::{
    Delivery, EventDrivenQueueProvider, MessageRef, QueueError, QueueEvent, QueueProvider, Receipt, Sent, Source,
    StepMessage, queue_name,
};
use crate::events::change_watch::ChangeWatches;
use crate::events::outside_channel;
use crate::namespace::Provider;

const NAME: &str = "PGMQ";
/// How long a message that was read is invisible: longer than claiming its step takes. Messages that a crashed server
/// had read wait for this long. A message that becomes visible while its step is in progress is dropped.
const READING: Duration = Duration::from_secs(3);
/// The pause before the next poll if a visible message could not be read.
const LOCKED: Duration = Duration::from_millis(20);
/// The most queues of one statement, so that its text is bounded.
const ASKED_MAX: usize = 100;

pub(super) struct Pgmq {
    db: Database,
    schema: String,
    announce_queue: Sql,
    /// How long a message that was read is invisible, in seconds: [`READING`], or less if unclaimed steps are sent
    /// again sooner.
    invisible: i32,
    /// Installed by the first use.
    installed: OnceCell<PGMQueueExt>,
    /// The queues that this process knows to exist.
    existing: Mutex<HashSet<String>>,
    change_watches: Consumer<ChangeWatches>,
}

fn failed(what: &'static str) -> impl Fn(PgmqError) -> QueueError {
    move |error| QueueError::new(NAME, what, error)
}

impl Pgmq {
    pub(super) fn new(
        db: &Database,
        schema: &Schema,
        lease: Duration,
        change_watches: Consumer<ChangeWatches>,
    ) -> Pgmq {
        Pgmq {
            db: db.clone(),
            schema: schema.name().to_owned(),
            announce_queue: schema.sql(reveille_pg::statement!("announce_queue")),
            invisible: lease.min(READING).as_secs().max(1) as i32,
            installed: OnceCell::new(),
            existing: Mutex::default(),
            change_watches,
        }
    }

    async fn installed(&self) -> Result<&PGMQueueExt, QueueError> {
        let install = async || {
            let queues = PGMQueueExt::new_with_pool(self.db.pool().clone()).await;
            queues.install_sql_from_embedded().await.map_err(failed("could not be installed"))?;
            Ok(queues)
        };
        self.installed.get_or_try_init(install).await
    }

    async fn session(&self) -> Result<reveille_pg::Session, QueueError> {
        self.db.session().await.map_err(|error| QueueError::new(NAME, "could not be reached", error))
    }

    /// Creates a queue unless this process knows that it exists, and announces it if it is new. Returns whether it was
    /// unknown.
    async fn open(&self, conn: &mut PgConnection, queue: &str, namespace: &str) -> Result<bool, QueueError> {
        let existing = || self.existing.lock();
        if existing().contains(queue) {
            return Ok(false);
        }
        let queues = self.installed().await?;
        let unreachable = |error: sqlx::Error| QueueError::new(NAME, "could not make a queue", error);
        let is_new = "select not exists (select from pgmq.meta m where m.queue_name = $1)";
        let is_new: bool = sqlx::query_scalar(is_new).bind(queue).fetch_one(&mut *conn).await.map_err(unreachable)?;
        queues.create_with_cxn(queue, &mut *conn).await.map_err(failed("could not make a queue"))?;
        if is_new {
            // The process that creates it announces it, even if a claim creates it before a message is sent.
            let channel = outside_channel(&self.schema, "pgmq_queue_created", None);
            let announce = sqlx::query(&self.announce_queue).bind(namespace).bind(queue).bind(channel);
            announce.execute(conn).await.map_err(unreachable)?;
        }
        Ok(existing().insert(queue.to_owned()))
    }

    /// Forgets which queues exist: one may have been dropped.
    fn forget(&self) {
        self.existing.lock().clear();
    }

    async fn send(&self, messages: &[StepMessage]) -> Result<Vec<Sent>, QueueError> {
        let mut by_queue: HashMap<String, Vec<&StepMessage>> = HashMap::new();
        for message in messages {
            let source = Source { namespace: message.namespace.clone(), step: message.step.clone() };
            by_queue.entry(queue_name(&self.schema, &source)).or_default().push(message);
        }
        let queues = self.installed().await?;
        let mut session = self.session().await?;
        let mut sent = Vec::with_capacity(by_queue.len());
        for (queue, messages) in by_queue {
            let created = self.open(&mut session, &queue, &messages[0].namespace).await?;
            let ids = queues.send_batch_with_cxn(&queue, &messages, &mut *session);
            let newest = ids.await.map_err(failed("could not send"))?.into_iter().max();
            sent.push(Sent { queue, created, newest });
        }
        session.finish().await.map_err(|error| QueueError::new(NAME, "could not send", error))?;
        Ok(sent)
    }

    /// Reads messages from the queue of a source, until there are `most`.
    async fn read(
        &self,
        conn: &mut PgConnection,
        source: &Source,
        most: usize,
        deliveries: &mut Vec<Delivery>,
    ) -> Result<(), QueueError> {
        let queues = self.installed().await?;
        let queue = queue_name(&self.schema, source);
        self.open(conn, &queue, &source.namespace).await?;
        let left = most.saturating_sub(deliveries.len());
        let read = queues.read_batch_with_cxn(&queue, self.invisible, left as i32, &mut *conn);
        let read: Vec<Message<Value, Value>> = read.await.map_err(failed("could not be read"))?;
        let mut unreadable = Vec::new();
        for Message { msg_id: id, message, .. } in read {
            let receipt = Receipt(MessageRef::Message { queue: queue.clone(), id });
            match serde_json::from_value(message) {
                Ok(message) => deliveries.push(Delivery { message, receipt }),
                Err(error) => {
                    tracing::warn!(queue, id, %error, "dropped an unreadable PGMQ message");
                    unreadable.push(id);
                }
            }
        }
        if !unreadable.is_empty() {
            let dropped = queues.delete_batch_with_cxn(&queue, &unreadable, &mut *conn).await;
            dropped.map_err(failed("could not drop a message"))?;
        }
        Ok(())
    }

    async fn make_visible(&self, conn: &mut PgConnection, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        let queues = self.installed().await?;
        for Receipt(message) in receipts {
            if let MessageRef::Message { queue, id } = message {
                let put = queues.set_vt_with_cxn::<_, Value, Value>(&queue, id, 0, &mut *conn).await;
                put.map_err(failed("could not put a message back"))?;
            }
        }
        Ok(())
    }

    /// Deletes messages of one queue.
    async fn delete(&self, queue: &str, ids: &[i64]) -> Result<(), QueueError> {
        let queues = self.installed().await?;
        let mut session = self.session().await?;
        let deleted = queues.delete_batch_with_cxn(queue, ids, &mut *session).await;
        deleted.map_err(failed("could not end messages"))?;
        session.finish().await.map_err(|error| QueueError::new(NAME, "could not end messages", error))
    }
}

#[async_trait]
impl QueueProvider for Pgmq {
    fn kind(&self) -> Provider {
        Provider::Pgmq
    }

    async fn ready(&self) -> Result<(), QueueError> {
        self.installed().await.map(|_| ())
    }

    async fn publish(&self, messages: &[StepMessage]) -> Result<Vec<Sent>, QueueError> {
        self.send(messages).await.inspect_err(|_| self.forget())
    }

    async fn receive(
        &self,
        conn: &mut PgConnection,
        sources: &[Source],
        most: usize,
    ) -> Result<Vec<Delivery>, QueueError> {
        let mut deliveries = Vec::new();
        for source in sources {
            if deliveries.len() >= most {
                break;
            }
            if let Err(error) = self.read(conn, source, most, &mut deliveries).await {
                self.forget();
                // Return the messages that were read. Through a pooler they were read in a transaction that has failed.
                if deliveries.is_empty() || self.db.has_pooler() {
                    return Err(error);
                }
                break;
            }
        }
        Ok(deliveries)
    }

    async fn next_visible(&self, conn: &mut PgConnection, sources: &[Source]) -> Result<Option<Duration>, QueueError> {
        let mut soonest: Option<f64> = None;
        for sources in sources.chunks(ASKED_MAX) {
            let soonest_of = |source| format!("select min(vt) as vt from pgmq.q_{}", queue_name(&self.schema, source));
            let queues: Vec<String> = sources.iter().map(soonest_of).collect();
            let sql = format!(
                "select extract(epoch from min(q.vt) - clock_timestamp())::float8 from ({}) q",
                queues.join(" union all ")
            );
            let query = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).persistent(false);
            let seconds: Option<f64> = query.fetch_one(&mut *conn).await.map_err(|error| {
                self.forget();
                QueueError::new(NAME, "could not be read", error)
            })?;
            soonest = soonest.into_iter().chain(seconds).reduce(f64::min);
        }
        // A message that is visible by now was locked by another transaction, or is new: the next poll is soon.
        Ok(soonest.map(|seconds| Duration::from_secs_f64(seconds.max(LOCKED.as_secs_f64()))))
    }

    async fn ack(&self, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        let mut by_queue: HashMap<String, Vec<i64>> = HashMap::new();
        for Receipt(message) in receipts {
            if let MessageRef::Message { queue, id } = message {
                by_queue.entry(queue).or_default().push(id);
            }
        }
        let mut ended = Ok(());
        for (queue, ids) in by_queue {
            // One by one: if one queue has been dropped, the messages of the others are deleted nevertheless.
            ended = ended.and(self.delete(&queue, &ids).await);
        }
        ended
    }

    async fn release(&self, conn: Option<&mut PgConnection>, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        if let Some(conn) = conn {
            return self.make_visible(conn, receipts).await;
        }
        let mut session = self.session().await?;
        self.make_visible(&mut session, receipts).await?;
        session.finish().await.map_err(|error| QueueError::new(NAME, "could not put messages back", error))
    }
}

impl EventDrivenQueueProvider for Pgmq {
    fn supports_push_notifications(&self) -> bool {
        true
    }

    fn create_event_stream(&self, namespace: &str) -> BoxStream<'static, QueueEvent> {
        events::stream(&self.change_watches, namespace)
    }
}
