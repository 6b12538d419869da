//! Sending steps that are due through another queue.
//!
//! One publisher per namespace, for as long as it has such a queue. It takes steps that are due as a worker would, and sends them after its commit. What could not be sent is due again at
//! once, and sent when the queue is back; what was taken by a process that died before it could send it is due again after seconds ([`SENDING`]). What was sent is the queue's, and sent
//! again only if it stays unclaimed for long.

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
use crate::claim::unanswered::random_fence;
use crate::event_driven::outside_channel;
use crate::flow::Flow;
use crate::name::{of_namespace, of_step};
use crate::namespace::{Known, Mode, Provider};

/// Steps that are sent at a time: a commit is shared by many, and a queue that fails costs as many.
const PUBLISH_MAX: usize = 500;
/// For how long steps are taken to be sent. What takes longer is sent twice; what a process had that died waits for this long.
const SENDING: Duration = Duration::from_secs(3);
/// How long one wait is; it is only begun again.
const WAIT: Duration = Duration::from_secs(86_400);
/// The first pause before a queue that is away is asked again, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Whose steps: a namespace, and the queue that it has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Outlet {
    namespace: String,
    provider: Provider,
}

/// A step that was taken to be sent.
pub(crate) type Taken = StepMessage;

/// How steps to be sent are taken.
pub(crate) struct Publishes {
    channel: Channel,
    /// For how long steps are taken: [`SENDING`], or less if they are sent again sooner.
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
    type Key = Outlet;
    type Args = ();
    type Item = Taken;

    fn topics(&self, outlet: &Outlet) -> Vec<Topic> {
        vec![self.channel.topic_of(&of_namespace(&outlet.namespace))]
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Outlet, ()>,
    ) -> reveille_pg::Result<PollResult<Taken>> {
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

    async fn give_back(&self, conn: &mut PgConnection, steps: &[Taken]) -> reveille_pg::Result<()> {
        sqlx::query(&self.unpublish)
            .bind(steps.iter().map(|step| step.task).collect::<Vec<_>>())
            .bind(steps.iter().map(|step| step.ordinal).collect::<Vec<_>>())
            .bind(steps.iter().map(|step| step.number).collect::<Vec<_>>())
            .execute(conn)
            .await?;
        Ok(())
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[Outlet]) -> reveille_pg::Result<Vec<usize>> {
        let query = sqlx::query_scalar(&self.sweep)
            .bind(keys.iter().map(|outlet| outlet.namespace.as_str()).collect::<Vec<_>>())
            .bind(keys.iter().map(|outlet| outlet.provider.word()).collect::<Vec<_>>());
        let due: Vec<i32> = query.fetch_all(conn).await?;
        Ok(due.into_iter().map(|place| place as usize - 1).collect())
    }
}

/// Publishers at work. Dropped, they end.
pub(crate) struct Publishing {
    end: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Publishing {
    /// Begins to send whatever is due.
    pub(crate) fn start(flow: &Flow) -> Publishing {
        let (end, ended) = oneshot::channel();
        Publishing { end: Some(end), task: tokio::spawn(flow.clone().publish(ended)) }
    }

    /// Ends them, and returns when they have: what they had taken and not sent is on its way back then.
    pub(crate) async fn stop(mut self) {
        self.end = None;
        if let Err(error) = (&mut self.task).await {
            tracing::warn!(%error, "steps were not sent to the end");
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

    /// Keeps a publisher for each namespace that has another queue than the tables, as they are set and from when that changes.
    async fn keep_publishers(&self, publishers: &mut JoinSet<()>) {
        let mut known = self.inner.namespaces_at_last().await;
        let mut running: HashMap<Outlet, AbortHandle> = HashMap::new();
        loop {
            let wanted = outlets(&known.borrow_and_update());
            for (_, ended) in running.extract_if(|outlet, _| !wanted.contains(outlet)) {
                ended.abort();
            }
            while publishers.try_join_next().is_some() {}
            for outlet in wanted {
                match self.inner.providers.get(outlet.provider) {
                    Ok(queue) => {
                        let run = self.clone().run_publisher(outlet.clone(), queue.clone());
                        running.entry(outlet).or_insert_with(|| publishers.spawn(run));
                    }
                    Err(error) => tracing::warn!(namespace = outlet.namespace, %error, "its steps are not sent here"),
                }
            }
            if known.changed().await.is_err() {
                return;
            }
        }
    }

    async fn run_publisher(self, outlet: Outlet, queue: Arc<dyn EventDrivenQueueProvider>) {
        let mut pause = PAUSE;
        loop {
            match self.publish_some(&outlet, &queue).await {
                Ok(true) => pause = PAUSE,
                Ok(false) => return,
                Err(error) => {
                    let namespace = &outlet.namespace;
                    tracing::warn!(namespace, error = reveille_pg::causes(&*error), "steps could not be sent for now");
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// Waits for steps and sends them. Answers whether to go on.
    async fn publish_some(
        &self,
        outlet: &Outlet,
        queue: &Arc<dyn EventDrivenQueueProvider>,
    ) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
        // While it is away, nothing is taken for it.
        queue.ready().await?;
        let inner = &self.inner;
        let taken = match inner.publishes.claim(outlet.clone(), PUBLISH_MAX, (), Instant::now() + WAIT).await {
            Ok(Some(taken)) => taken,
            Ok(None) => return Ok(true),
            Err(reveille_wake::Error::Closed { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // What is not sent is given back when it is dropped.
        let sent = queue.publish(&taken).await?;
        inner.wake.wake_up(&[inner.providers.sent(&taken)]);
        let taken = taken.accept();
        self.keep_sent(&taken).await;
        self.announce_sent(outlet, &sent).await;
        Ok(true)
    }

    /// What was sent is not sent again soon. If this fails it is, which costs a superfluous message.
    async fn keep_sent(&self, sent: &[Taken]) {
        let query = || {
            sqlx::query(&self.inner.sql.sent_steps)
                .bind(sent.iter().map(|step| step.task).collect::<Vec<_>>())
                .bind(sent.iter().map(|step| step.ordinal).collect::<Vec<_>>())
                .bind(sent.iter().map(|step| step.number).collect::<Vec<_>>())
                .bind(self.inner.publish_lease.as_millis() as i64)
        };
        if let Err(error) = self.inner.db.ask("keep what was sent", query).await {
            tracing::debug!(error = reveille_pg::causes(&error), "steps that were sent will be sent again");
        }
    }

    /// Tells listeners outside of what was sent through PGMQ, if the namespace wants that.
    async fn announce_sent(&self, outlet: &Outlet, sent: &[Sent]) {
        let announces = match self.inner.known_namespaces().await {
            Ok(known) => known.borrow().get(&outlet.namespace).is_some_and(|space| space.settings.announces),
            Err(_) => false,
        };
        if !announces || outlet.provider != Provider::Pgmq {
            return;
        }
        for Sent { queue, newest, .. } in sent {
            let query = || {
                sqlx::query(&self.inner.sql.announce_sent).bind(queue).bind(*newest).bind(outside_channel(
                    self.inner.schema.name(),
                    "pgmq_message_ready",
                    Some(&outlet.namespace),
                ))
            };
            if let Err(error) = self.inner.db.ask("announce messages", query).await {
                tracing::debug!(error = reveille_pg::causes(&error), "listeners outside were not told");
            }
        }
    }
}

impl Providers {
    /// Rings who waits for what was sent.
    fn sent(&self, taken: &Claimed<Publishes>) -> reveille_wake::WakeUp {
        let mut keys: Vec<String> = taken.iter().map(|step| of_step(&step.namespace, &step.step)).collect();
        keys.extend(taken.first().map(|step| of_namespace(&step.namespace)));
        keys.sort_unstable();
        keys.dedup();
        self.channel.wake_up_keys(keys.iter().map(String::as_str))
    }
}

/// The namespaces that have another queue than the tables. What is only listened to is not sent.
fn outlets(known: &Known) -> Vec<Outlet> {
    let queued = known
        .values()
        .filter(|namespace| namespace.settings.provider != Provider::Table && namespace.settings.mode != Mode::Shadow);
    queued
        .map(|namespace| Outlet { namespace: namespace.name.clone(), provider: namespace.settings.provider })
        .collect()
}
