//! PGMQ: its own SQL in the same database, installed from its own crate where it is missing; no extension.
//!
//! A message is read for seconds, which is as long as it may take to claim its step, and deleted when that has ended. Nothing polls: a sender wakes the receivers, and a receiver that finds nothing is told when
//! what others have read can be read again.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use pgmq::{Message, PGMQueueExt, PgmqError};
use reveille_pg::{Database, Schema, Sql};
use reveille_wake::Consumer;
use serde_json::Value;
use sqlx::PgConnection;
use tokio::sync::OnceCell;

use super::events;
use super::{
    Delivery, EventDrivenQueueProvider, Mark, QueueError, QueueEvent, QueueProvider, Receipt, Sent, Source,
    StepMessage, queue_name,
};
use crate::event_driven::outside_channel;
use crate::events::change_watch::ChangeWatches;
use crate::namespace::Provider;

const NAME: &str = "PGMQ";
/// For how long a message that was read is invisible: longer than its step takes to be claimed. What a server had read that died waits for this long; what comes again while its step is under way is
/// dropped.
const READING: Duration = Duration::from_secs(3);
/// How soon a message is looked for again that is visible and could not be read.
const LOCKED: Duration = Duration::from_millis(20);
/// Queues that one statement asks about, so that its text is bounded.
const ASKED_MAX: usize = 100;

pub(super) struct Pgmq {
    db: Database,
    schema: String,
    announce_queue: Sql,
    /// For how long a message that was read is invisible, in seconds: [`READING`], or the time after which an unclaimed step is sent again.
    invisible: i32,
    /// Installed by the first who needs it.
    installed: OnceCell<PGMQueueExt>,
    /// The queues that are there.
    known: Mutex<HashSet<String>>,
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
            known: Mutex::default(),
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

    /// Makes the queue of a namespace, if this process has not yet, and announces it if it did not exist. Answers whether this process has made it now.
    async fn open(&self, conn: &mut PgConnection, queue: &str, namespace: &str) -> Result<bool, QueueError> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(queue) {
            return Ok(false);
        }
        let queues = self.installed().await?;
        let unreachable = |error: sqlx::Error| QueueError::new(NAME, "could not make a queue", error);
        let is_new = "select not exists (select from pgmq.meta m where m.queue_name = $1)";
        let is_new: bool = sqlx::query_scalar(is_new).bind(queue).fetch_one(&mut *conn).await.map_err(unreachable)?;
        queues.create_with_cxn(queue, &mut *conn).await.map_err(failed("could not make a queue"))?;
        if is_new {
            // The process that makes it announces it, also for a claim before anything was sent.
            let channel = outside_channel(&self.schema, "pgmq_queue_created", None);
            let announce = sqlx::query(&self.announce_queue).bind(namespace).bind(queue).bind(channel);
            announce.execute(conn).await.map_err(unreachable)?;
        }
        Ok(known().insert(queue.to_owned()))
    }

    /// Forgets which queues are there: somebody may have dropped one.
    fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
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

    /// Adds what is in the queue of a source, until there are `most`.
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
        let mut strangers = Vec::new();
        for Message { msg_id: id, message, .. } in read {
            let receipt = Receipt(Mark::Message { queue: queue.clone(), id });
            match serde_json::from_value(message) {
                Ok(message) => deliveries.push(Delivery { message, receipt }),
                Err(error) => {
                    tracing::warn!(queue, id, %error, "dropped a message of PGMQ that is none of this engine's");
                    strangers.push(id);
                }
            }
        }
        if !strangers.is_empty() {
            let dropped = queues.delete_batch_with_cxn(&queue, &strangers, &mut *conn).await;
            dropped.map_err(failed("could not drop a message"))?;
        }
        Ok(())
    }

    async fn put_back(&self, conn: &mut PgConnection, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        let queues = self.installed().await?;
        for Receipt(mark) in receipts {
            if let Mark::Message { queue, id } = mark {
                let put = queues.set_vt_with_cxn::<_, Value, Value>(&queue, id, 0, &mut *conn).await;
                put.map_err(failed("could not put a message back"))?;
            }
        }
        Ok(())
    }

    /// Ends messages of one queue.
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
                // What is here is not to be lost. Through a pooler it is not here: it was read in a transaction that has failed.
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
        for Receipt(mark) in receipts {
            if let Mark::Message { queue, id } = mark {
                by_queue.entry(queue).or_default().push(id);
            }
        }
        let mut ended = Ok(());
        for (queue, ids) in by_queue {
            // Each by itself: a queue that somebody has dropped is no reason to keep the messages of others.
            ended = ended.and(self.delete(&queue, &ids).await);
        }
        ended
    }

    async fn release(&self, conn: Option<&mut PgConnection>, receipts: Vec<Receipt>) -> Result<(), QueueError> {
        if let Some(conn) = conn {
            return self.put_back(conn, receipts).await;
        }
        let mut session = self.session().await?;
        self.put_back(&mut session, receipts).await?;
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
