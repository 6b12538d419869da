//! Claiming steps by messages of a queue.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reveille_pg::{Schema, Sql};
use reveille_wake::{Claim, PollRequest, PollResult, SentClaims, Topic};
use sqlx::{PgConnection, Row};
use tokio::time::Instant;

use super::{Delivery, EventDrivenQueueProvider, Providers, Receipt, Source};
use crate::claim::release::{Releases, rotate_randomly};
use crate::claim::token::Token;
use crate::claim::{self, Args, ClaimedStep, Key, WANT_MAX};
use crate::namespace::Provider;
use crate::task::stored::unknown;

/// The most times that one poll receives from the queue: messages may turn out to be stale, and are replaced.
const ROUNDS_MAX: usize = 100;
/// How long a poll continues once it has claimed a step: waiters should get it soon, and it would be released if the
/// poll timed out.
const POLL_MAX: Duration = Duration::from_secs(1);
/// The pause before the next poll if a step was locked.
const BUSY: Duration = Duration::from_millis(20);
/// The pause before the next poll if the queue is unavailable.
const AWAY: Duration = Duration::from_secs(1);

/// What equal claims have in common: they receive the same messages from the same queues.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct DeliveryKey {
    pub(crate) provider: Provider,
    pub(crate) key: Key,
}

/// What `claim_delivered` did with a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Claimed,
    /// The message is not the latest of its step, or the step has ended.
    Stale,
    /// A limit of the step is reached.
    NoRoom,
    /// Another transaction holds the step.
    Locked,
}

impl Verdict {
    fn of(word: &str) -> Option<Verdict> {
        match word {
            "claimed" => Some(Verdict::Claimed),
            "stale" => Some(Verdict::Stale),
            "no_room" => Some(Verdict::NoRoom),
            "locked" => Some(Verdict::Locked),
            _ => None,
        }
    }
}

/// Claims steps by messages of a queue.
pub(crate) struct Deliveries {
    providers: Arc<Providers>,
    releases: Arc<Releases>,
    /// Steps that are being released: after the commit their messages are stale.
    released: Mutex<Vec<Token>>,
    names: Sql,
    claim: Sql,
}

impl Deliveries {
    pub(crate) fn new(schema: &Schema, providers: Arc<Providers>, releases: Arc<Releases>) -> Deliveries {
        Deliveries {
            providers,
            releases,
            released: Mutex::default(),
            names: schema.sql(reveille_pg::statement!("step_names")),
            claim: schema.sql(reveille_pg::statement!("claim_delivered")),
        }
    }

    /// The sources of a claim, beginning with a random one, so that no step name is always served last. Only step names
    /// of registered templates have a queue.
    async fn sources(&self, conn: &mut PgConnection, key: &Key) -> reveille_pg::Result<Vec<Source>> {
        let query = sqlx::query(&self.names).bind(&key.namespaces).bind(&key.left_out).bind(&key.steps);
        let rows = query.fetch_all(conn).await?;
        let read = |row: &sqlx::postgres::PgRow| {
            Ok(Source { namespace: row.try_get("namespace")?, step: row.try_get("step")? })
        };
        let mut sources = rows.iter().map(read).collect::<sqlx::Result<Vec<Source>>>()?;
        rotate_randomly(&mut sources);
        Ok(sources)
    }

    /// Claims the steps of deliveries, each for the waiter at the same index.
    async fn claim(
        &self,
        conn: &mut PgConnection,
        deliveries: &[Delivery],
        waiters: &[&Args],
    ) -> reveille_pg::Result<(SentClaims<i64>, Vec<Verdict>, Vec<(usize, ClaimedStep)>)> {
        let (fence, sent) = self.releases.sent();
        let sent_at = Instant::now();
        let messages = || deliveries.iter().map(|delivery| &delivery.message);
        let rows = sqlx::query(&self.claim)
            .bind(messages().map(|message| message.task).collect::<Vec<_>>())
            .bind(messages().map(|message| message.ordinal).collect::<Vec<_>>())
            .bind(messages().map(|message| message.number).collect::<Vec<_>>())
            .bind(fence)
            .bind(waiters.iter().map(|waiter| waiter.worker.as_str()).collect::<Vec<_>>())
            .bind(waiters.iter().map(|waiter| waiter.lease.as_millis() as i64).collect::<Vec<_>>())
            .fetch_all(conn)
            .await?;
        let (first, steps) = rows.split_first().ok_or(sqlx::Error::RowNotFound)?;
        let verdicts: Vec<String> = first.try_get("verdicts")?;
        let verdict = |word: &str| Verdict::of(word).ok_or_else(|| unknown("verdict of claim_delivered", word));
        let verdicts = verdicts.iter().map(|word| verdict(word)).collect::<sqlx::Result<Vec<Verdict>>>()?;
        let read = |row: &sqlx::postgres::PgRow| {
            Ok((row.try_get::<i32, _>("waiter")?.max(0) as usize, claim::read(row, sent_at)?))
        };
        let steps = steps.iter().map(read).collect::<reveille_pg::Result<_>>()?;
        Ok((sent, verdicts, steps))
    }
}

impl Claim for Deliveries {
    type Key = DeliveryKey;
    type Args = Args;
    type Item = ClaimedStep;

    fn topics(&self, DeliveryKey { key, .. }: &DeliveryKey) -> Vec<Topic> {
        key.topics(&self.providers.channel)
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<DeliveryKey, Args>,
    ) -> reveille_pg::Result<PollResult<ClaimedStep>> {
        self.releases.release_unanswered(conn).await?;
        let DeliveryKey { provider, key } = &poll.key;
        let Ok(queue) = self.providers.get(*provider) else { return Ok(PollResult::new(None)) };
        let mut sources = self.sources(conn, key).await?;
        // Each waiter gets a step before any gets a second.
        let most = poll.waiters.iter().map(|waiter| waiter.want).max().unwrap_or_default().min(WANT_MAX);
        let wants = |round: usize| poll.waiters.iter().enumerate().filter(move |(_, waiter)| waiter.want > round);
        let mut free: VecDeque<usize> = (0..most).flat_map(wants).map(|(index, _)| index).take(WANT_MAX).collect();
        let (mut claimed, mut again) = (Vec::new(), None);
        // If anything fails later in this poll, all claims of it are unanswered.
        let mut sent = Vec::new();
        let late = Instant::now() + POLL_MAX;
        for round in 0..=ROUNDS_MAX {
            let enough = free.is_empty() || !claimed.is_empty() && Instant::now() >= late;
            if enough || round == ROUNDS_MAX {
                again = Some(Duration::ZERO);
                break;
            }
            let deliveries = match queue.receive(conn, &sources, free.len()).await {
                Ok(deliveries) if deliveries.is_empty() => {
                    // A message that another server has read may become visible again without a wake-up.
                    match queue.next_visible(conn, &sources).await {
                        Ok(visible) => again = again.into_iter().chain(visible).min(),
                        Err(error) => {
                            tracing::warn!(error = reveille_pg::causes(&error), "receiving messages failed; retrying");
                            is_sound(conn).await?;
                            again = Some(AWAY);
                        }
                    }
                    break;
                }
                Ok(deliveries) => deliveries,
                Err(error) => {
                    tracing::warn!(error = reveille_pg::causes(&error), "receiving messages failed; retrying");
                    is_sound(conn).await?;
                    again = Some(AWAY);
                    break;
                }
            };
            let mut received = Received { providers: &self.providers, queue, deliveries };
            let waiters: Vec<usize> = free.drain(..received.deliveries.len().min(free.len())).collect();
            let args: Vec<&Args> = waiters.iter().map(|waiter| &*poll.waiters[*waiter].args).collect();
            let (claim, verdicts, steps) = self.claim(conn, &received.deliveries, &args).await?;
            sent.push(claim);
            let mut steps: VecDeque<(usize, ClaimedStep)> = steps.into();
            let (mut dropped, mut back) = (Vec::new(), Vec::new());
            let deliveries = std::mem::take(&mut received.deliveries);
            for (index, (delivery, verdict)) in deliveries.into_iter().zip(verdicts).enumerate() {
                match verdict {
                    Verdict::Claimed => {
                        if let Some((_, step)) = steps.pop_front_if(|(of, _)| *of == index) {
                            self.providers.held.hold(*provider, &step.token, delivery.receipt, step.lease);
                            claimed.push((waiters[index], step));
                            continue;
                        }
                        dropped.push((*provider, delivery.receipt));
                    }
                    Verdict::Stale => dropped.push((*provider, delivery.receipt)),
                    Verdict::NoRoom | Verdict::Locked => {
                        if verdict == Verdict::Locked {
                            again = Some(BUSY);
                        }
                        // A wake-up follows when the limit allows another step. Other sources may have room now.
                        let message = &delivery.message;
                        sources.retain(|of| of.namespace != message.namespace || of.step != message.step);
                        back.push(delivery.receipt);
                    }
                }
                free.push_front(waiters[index]);
            }
            self.providers.ack_soon(dropped);
            if back.is_empty() {
                continue;
            }
            // Released at once, so that other claims find them.
            if let Err(error) = queue.release(Some(&mut *conn), back).await {
                tracing::debug!(
                    error = reveille_pg::causes(&error),
                    "releasing messages failed; they become visible again by themselves"
                );
                is_sound(conn).await?;
            }
        }
        sent.into_iter().for_each(SentClaims::answered);
        let mut polled = PollResult::new(again);
        for (waiter, step) in claimed {
            // The engine watches its lease.
            polled.give(waiter, step, None);
        }
        Ok(polled)
    }

    async fn give_back(&self, conn: &mut PgConnection, steps: &[ClaimedStep]) -> reveille_pg::Result<()> {
        self.releases.release(conn, steps).await?;
        self.released.lock().extend(steps.iter().map(|step| step.token));
        Ok(())
    }

    fn given_back(&self) {
        self.providers.ended(&std::mem::take(&mut *self.released.lock()));
    }

    async fn sweep(&self, _: &mut PgConnection, keys: &[DeliveryKey]) -> reveille_pg::Result<Vec<usize>> {
        // Only a poll can tell whether a queue has messages.
        Ok((0..keys.len()).collect())
    }
}

/// Fails with a transient error if the connection cannot be used any more. Through a pooler a poll is one transaction:
/// an error of the queue has aborted it, with all its claims.
async fn is_sound(conn: &mut PgConnection) -> reveille_pg::Result<()> {
    let asked = sqlx::raw_sql("select 1").execute(conn).await;
    asked.map(|_| ()).map_err(|error| sqlx::Error::Io(io::Error::other(error)).into())
}

/// Received messages whose steps are not claimed yet. Dropping this releases them: the poll failed or timed out.
struct Received<'a> {
    providers: &'a Arc<Providers>,
    queue: &'a Arc<dyn EventDrivenQueueProvider>,
    deliveries: Vec<Delivery>,
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        let receipts: Vec<Receipt> = self.deliveries.drain(..).map(|delivery| delivery.receipt).collect();
        self.providers.release_soon(self.queue.kind(), receipts);
    }
}
