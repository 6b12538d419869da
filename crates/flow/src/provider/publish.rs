//! Sending due steps to a queue.
//!
//! There is one publisher per namespace with a queue. It leases due steps, and sends them after the commit. Steps that
//! could not be sent are due again at once, and sent when the queue is available again; those that a process had leased
//! when it crashed are due again after seconds ([`SENDING`]). A step that was sent is sent again only if it stays
//! unclaimed for long.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reveille_pg::{Schema, Sql};
use reveille_wake::{Channel, Claim, Claimed, PollRequest, PollResult, Topic};
use sqlx::{PgConnection, Row};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use super::{EventDrivenQueueProvider, Providers, Sent, StepMessage};
use crate::claim::release::random_fence;
use crate::events::outside_channel;
use crate::flow::Flow;
use crate::name::{of_namespace, of_step};
use crate::namespace::{Mode, NamespaceMap, Provider};

/// The most steps of one batch.
const PUBLISH_MAX: usize = 500;
/// How long steps are leased to be sent. A batch that takes longer is sent twice; the steps of a crashed process wait
/// for this long.
const SENDING: Duration = Duration::from_secs(3);
/// How long one claim waits before it is repeated.
const WAIT: Duration = Duration::from_secs(86_400);
/// The first and the longest pause after a failure of the queue.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A namespace and its queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PublishKey {
    namespace: String,
    provider: Provider,
}

/// Leases due steps to send them.
pub(crate) struct Publishes {
    channel: Channel,
    /// How long steps are leased: [`SENDING`], or less if they are sent again sooner.
    sending: Duration,
    publish: Sql,
    unpublish: Sql,
    sweep: Sql,
}

impl Publishes {
    pub(crate) fn new(schema: &Schema, channel: Channel, lease: Duration) -> Publishes {
        Publishes {
            channel,
            sending: SENDING.min(lease),
            publish: schema.sql(reveille_pg::statement!("publish_steps")),
            unpublish: schema.sql(reveille_pg::statement!("unpublish_steps")),
            sweep: schema.sql(reveille_pg::statement!("due_providers")),
        }
    }
}

impl Claim for Publishes {
    type Key = PublishKey;
    type Args = ();
    type Item = StepMessage;

    fn topics(&self, key: &PublishKey) -> Vec<Topic> {
        vec![self.channel.topic_of(&of_namespace(&key.namespace))]
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<PublishKey, ()>,
    ) -> reveille_pg::Result<PollResult<StepMessage>> {
        let number = random_fence();
        let rows = sqlx::query(&self.publish)
            .bind(&poll.key.namespace)
            .bind(poll.key.provider.word())
            .bind(poll.wanted().min(PUBLISH_MAX) as i32)
            .bind(number)
            .bind(self.sending.as_millis() as i64)
            .fetch_all(conn)
            .await?;
        let (last, steps) = rows.split_last().ok_or(sqlx::Error::RowNotFound)?;
        let mut polled = PollResult::next_due_ms(last.try_get("next_due_ms")?);
        for row in steps {
            let message = StepMessage {
                task: row.try_get("task_id")?,
                ordinal: row.try_get("ordinal")?,
                number,
                namespace: poll.key.namespace.clone(),
                step: row.try_get("name")?,
                priority: row.try_get("priority")?,
                attempt: row.try_get("attempt")?,
            };
            let again = Duration::from_secs_f64(row.try_get::<f64, _>("again_ms")?.max(0.0) / 1_000.0);
            polled.give(0, message, Some(again));
        }
        Ok(polled)
    }

    async fn give_back(&self, conn: &mut PgConnection, steps: &[StepMessage]) -> reveille_pg::Result<()> {
        sqlx::query(&self.unpublish)
            .bind(steps.iter().map(|step| step.task).collect::<Vec<_>>())
            .bind(steps.iter().map(|step| step.ordinal).collect::<Vec<_>>())
            .bind(steps.iter().map(|step| step.number).collect::<Vec<_>>())
            .execute(conn)
            .await?;
        Ok(())
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[PublishKey]) -> reveille_pg::Result<Vec<usize>> {
        let query = sqlx::query_scalar(&self.sweep)
            .bind(keys.iter().map(|key| key.namespace.as_str()).collect::<Vec<_>>())
            .bind(keys.iter().map(|key| key.provider.word()).collect::<Vec<_>>());
        let due: Vec<i32> = query.fetch_all(conn).await?;
        Ok(due.into_iter().map(|index| index as usize - 1).collect())
    }
}

/// The running publishers. Dropping this aborts them.
pub(crate) struct Publishing {
    end: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Publishing {
    /// Starts the publishers.
    pub(crate) fn start(flow: &Flow) -> Publishing {
        let (end, ended) = oneshot::channel();
        Publishing { end: Some(end), task: tokio::spawn(flow.clone().publish(ended)) }
    }

    /// Stops the publishers. When this returns, the steps that they had leased and not sent are being released.
    pub(crate) async fn stop(mut self) {
        self.end = None;
        if let Err(error) = (&mut self.task).await {
            tracing::warn!(%error, "the publishers did not stop cleanly");
        }
    }
}

impl Drop for Publishing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Flow {
    async fn publish(self, ended: oneshot::Receiver<()>) {
        let mut publishers = JoinSet::new();
        tokio::select! {
            () = self.keep_publishers(&mut publishers) => {}
            _ = ended => {}
        }
        publishers.shutdown().await;
    }

    /// Runs a publisher for each namespace with a queue, and follows changes of the settings.
    async fn keep_publishers(&self, publishers: &mut JoinSet<()>) {
        let mut known = self.inner.wait_for_namespaces().await;
        let mut running: HashMap<PublishKey, AbortHandle> = HashMap::new();
        loop {
            let wanted = publish_keys(&known.borrow_and_update());
            for (_, ended) in running.extract_if(|key, _| !wanted.contains(key)) {
                ended.abort();
            }
            while publishers.try_join_next().is_some() {}
            for key in wanted {
                match self.inner.providers.get(key.provider) {
                    Ok(queue) => {
                        let run = self.clone().run_publisher(key.clone(), queue.clone());
                        running.entry(key).or_insert_with(|| publishers.spawn(run));
                    }
                    Err(error) => {
                        tracing::warn!(namespace = key.namespace, %error, "steps are not sent by this server")
                    }
                }
            }
            if known.changed().await.is_err() {
                return;
            }
        }
    }

    async fn run_publisher(self, key: PublishKey, queue: Arc<dyn EventDrivenQueueProvider>) {
        let mut pause = PAUSE;
        loop {
            match self.publish_some(&key, &queue).await {
                Ok(true) => pause = PAUSE,
                Ok(false) => return,
                Err(error) => {
                    let namespace = &key.namespace;
                    tracing::warn!(namespace, error = reveille_pg::causes(&*error), "sending steps failed; retrying");
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// Waits for due steps and sends them. `false`: the flow is closed.
    async fn publish_some(
        &self,
        key: &PublishKey,
        queue: &Arc<dyn EventDrivenQueueProvider>,
    ) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
        // While the queue is unavailable, no steps are leased for it.
        queue.ready().await?;
        let inner = &self.inner;
        let taken = match inner.publishes.claim(key.clone(), PUBLISH_MAX, (), Instant::now() + WAIT).await {
            Ok(Some(taken)) => taken,
            Ok(None) => return Ok(true),
            Err(reveille_wake::Error::Closed { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // If sending fails, dropping the guard releases the steps.
        let sent = queue.publish(&taken).await?;
        inner.wake.wake_up(&[inner.providers.sent(&taken)]);
        let taken = taken.accept();
        self.extend_sent(&taken).await;
        self.announce_sent(key, &sent).await;
        Ok(true)
    }

    /// Extends the leases of sent steps. If this fails, the steps are sent twice.
    async fn extend_sent(&self, sent: &[StepMessage]) {
        let query = || {
            sqlx::query(&self.inner.sql.sent_steps)
                .bind(sent.iter().map(|step| step.task).collect::<Vec<_>>())
                .bind(sent.iter().map(|step| step.ordinal).collect::<Vec<_>>())
                .bind(sent.iter().map(|step| step.number).collect::<Vec<_>>())
                .bind(self.inner.publish_lease.as_millis() as i64)
        };
        if let Err(error) = self.inner.db.ask("extend the leases of sent steps", query).await {
            tracing::debug!(error = reveille_pg::causes(&error), "sent steps will be sent again");
        }
    }

    /// Announces messages in PGMQ to outside listeners, if the namespace is set to.
    async fn announce_sent(&self, key: &PublishKey, sent: &[Sent]) {
        let announces = match self.inner.watch_namespaces().await {
            Ok(known) => known.borrow().get(&key.namespace).is_some_and(|space| space.settings.announces),
            Err(_) => false,
        };
        if !announces || key.provider != Provider::Pgmq {
            return;
        }
        for Sent { queue, newest, .. } in sent {
            let query = || {
                sqlx::query(&self.inner.sql.announce_sent).bind(queue).bind(*newest).bind(outside_channel(
                    self.inner.schema.name(),
                    "pgmq_message_ready",
                    Some(&key.namespace),
                ))
            };
            if let Err(error) = self.inner.db.ask("announce messages", query).await {
                tracing::debug!(error = reveille_pg::causes(&error), "announcing messages failed");
            }
        }
    }
}

impl Providers {
    /// The wake-up for receivers of sent steps.
    fn sent(&self, taken: &Claimed<Publishes>) -> reveille_wake::WakeUp {
        let mut keys: Vec<String> = taken.iter().map(|step| of_step(&step.namespace, &step.step)).collect();
        keys.extend(taken.first().map(|step| of_namespace(&step.namespace)));
        keys.sort_unstable();
        keys.dedup();
        self.channel.wake_up_keys(keys.iter().map(String::as_str))
    }
}

/// The namespaces with a queue, except those in shadow mode.
fn publish_keys(known: &NamespaceMap) -> Vec<PublishKey> {
    let queued = known
        .values()
        .filter(|namespace| namespace.settings.provider != Provider::Table && namespace.settings.mode != Mode::Shadow);
    queued
        .map(|namespace| PublishKey { namespace: namespace.name.clone(), provider: namespace.settings.provider })
        .collect()
}
