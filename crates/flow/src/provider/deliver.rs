//! Claiming steps by what another queue brings.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reveille_pg::{Schema, Sql};
use reveille_wake::{Claim, PollRequest, PollResult, Topic};
use sqlx::{PgConnection, Row};
use tokio::time::Instant;

use super::{Delivery, EventDrivenQueueProvider, Providers, Receipt, Source};
use crate::claim::token::Token;
use crate::claim::unanswered::{PendingClaim, UnansweredClaims, locked, rotate_randomly};
use crate::claim::{self, Args, ClaimedStep, Key, WANT_MAX};
use crate::namespace::Provider;

/// How often a look asks the queue at most. What it finds may be worth nothing: then it asks again.
const ROUNDS_MAX: usize = 100;
/// How long a look goes on once it has something: who waits for it shall not wait for the rest, nor lose it if that takes too long.
const LOOKING: Duration = Duration::from_secs(1);
/// How soon a step that somebody had for a moment is looked at again.
const BUSY: Duration = Duration::from_millis(20);
/// How soon a queue is asked again that is away.
const AWAY: Duration = Duration::from_secs(1);

/// What makes workers equal: they receive the same from the same queues.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Queued {
    pub(crate) provider: Provider,
    pub(crate) key: Key,
}

/// How steps are claimed that another queue brings.
pub(crate) struct Deliveries {
    providers: Arc<Providers>,
    lost: Arc<UnansweredClaims>,
    /// Steps that are about to be given back: their messages are worth nothing from the commit on.
    given: Mutex<Vec<Token>>,
    names: Sql,
    claim: Sql,
}

impl Deliveries {
    pub(crate) fn new(schema: &Schema, providers: Arc<Providers>, lost: Arc<UnansweredClaims>) -> Deliveries {
        Deliveries {
            providers,
            lost,
            given: Mutex::default(),
            names: schema.sql(reveille_pg::statement!("step_names")),
            claim: schema.sql(reveille_pg::statement!("claim_delivered")),
        }
    }

    /// What these workers receive, beginning anywhere: nobody's steps wait behind those of another name for ever. Only steps that somebody has registered have a queue, whatever names a worker has.
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

    /// Claims the steps of deliveries, each for the seat beside it. Answers what became of each.
    async fn claim(
        &self,
        conn: &mut PgConnection,
        deliveries: &[Delivery],
        waiters: &[&Args],
    ) -> reveille_pg::Result<(PendingClaim<'_>, Vec<String>, Vec<(usize, ClaimedStep)>)> {
        let unheard = self.lost.unheard();
        let messages = || deliveries.iter().map(|delivery| &delivery.message);
        let rows = sqlx::query(&self.claim)
            .bind(messages().map(|message| message.task).collect::<Vec<_>>())
            .bind(messages().map(|message| message.ordinal).collect::<Vec<_>>())
            .bind(messages().map(|message| message.number).collect::<Vec<_>>())
            .bind(unheard.fence)
            .bind(waiters.iter().map(|waiter| waiter.worker.as_str()).collect::<Vec<_>>())
            .bind(waiters.iter().map(|waiter| waiter.lease.as_millis() as i64).collect::<Vec<_>>())
            .fetch_all(conn)
            .await?;
        let (first, steps) = rows.split_first().ok_or(sqlx::Error::RowNotFound)?;
        let verdicts: Vec<String> = first.try_get("verdicts")?;
        let read =
            |row: &sqlx::postgres::PgRow| Ok((row.try_get::<i32, _>("waiter")?.max(0) as usize, claim::read(row)?));
        let steps = steps.iter().map(read).collect::<reveille_pg::Result<_>>()?;
        Ok((unheard, verdicts, steps))
    }
}

impl Claim for Deliveries {
    type Key = Queued;
    type Args = Args;
    type Item = ClaimedStep;

    fn topics(&self, Queued { key, .. }: &Queued) -> Vec<Topic> {
        key.topics(&self.providers.channel)
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Queued, Args>,
    ) -> reveille_pg::Result<PollResult<ClaimedStep>> {
        self.lost.give_back_unanswered(conn).await?;
        let Queued { provider, key } = &poll.key;
        let Ok(queue) = self.providers.get(*provider) else { return Ok(PollResult::new(None)) };
        let mut sources = self.sources(conn, key).await?;
        // Each seat gets a step before any gets a second.
        let most = poll.waiters.iter().map(|waiter| waiter.want).max().unwrap_or_default().min(WANT_MAX);
        let wants = |round: usize| poll.waiters.iter().enumerate().filter(move |(_, waiter)| waiter.want > round);
        let mut free: VecDeque<usize> = (0..most).flat_map(wants).map(|(place, _)| place).take(WANT_MAX).collect();
        let (mut claimed, mut again) = (Vec::new(), None);
        // What was claimed goes back if anything after it fails.
        let mut unheard = Vec::new();
        let late = Instant::now() + LOOKING;
        for round in 0..=ROUNDS_MAX {
            let enough = free.is_empty() || !claimed.is_empty() && Instant::now() >= late;
            if enough || round == ROUNDS_MAX {
                again = Some(Duration::ZERO);
                break;
            }
            let deliveries = match queue.receive(conn, &sources, free.len()).await {
                Ok(deliveries) if deliveries.is_empty() => {
                    // What another server has read may come back without a wake-up.
                    match queue.next_visible(conn, &sources).await {
                        Ok(visible) => again = again.into_iter().chain(visible).min(),
                        Err(error) => {
                            tracing::warn!(error = reveille_pg::causes(&error), "nothing can be received for now");
                            is_sound(conn).await?;
                            again = Some(AWAY);
                        }
                    }
                    break;
                }
                Ok(deliveries) => deliveries,
                Err(error) => {
                    tracing::warn!(error = reveille_pg::causes(&error), "nothing can be received for now");
                    is_sound(conn).await?;
                    again = Some(AWAY);
                    break;
                }
            };
            let mut in_hand = InHand { providers: &self.providers, queue, deliveries };
            let waiters: Vec<usize> = free.drain(..in_hand.deliveries.len().min(free.len())).collect();
            let args: Vec<&Args> = waiters.iter().map(|waiter| &*poll.waiters[*waiter].args).collect();
            let (claim, verdicts, steps) = self.claim(conn, &in_hand.deliveries, &args).await?;
            unheard.push(claim);
            let mut steps: VecDeque<(usize, ClaimedStep)> = steps.into();
            let (mut dropped, mut back) = (Vec::new(), Vec::new());
            let deliveries = std::mem::take(&mut in_hand.deliveries);
            for (place, (delivery, verdict)) in deliveries.into_iter().zip(verdicts).enumerate() {
                match verdict.as_str() {
                    "claimed" => {
                        if let Some((_, step)) = steps.pop_front_if(|(of, _)| *of == place) {
                            self.providers.held.hold(*provider, &step.token, delivery.receipt, step.lease);
                            claimed.push((waiters[place], step));
                            continue;
                        }
                        dropped.push((*provider, delivery.receipt));
                    }
                    "stale" => dropped.push((*provider, delivery.receipt)),
                    _ => {
                        if verdict == "locked" {
                            again = Some(BUSY);
                        }
                        // It is rung when there is room again; others may have room now.
                        let message = &delivery.message;
                        sources.retain(|of| of.namespace != message.namespace || of.step != message.step);
                        back.push(delivery.receipt);
                    }
                }
                free.push_front(waiters[place]);
            }
            self.providers.ack_soon(dropped);
            if back.is_empty() {
                continue;
            }
            // Put back at once: who is rung finds them.
            if let Err(error) = queue.release(Some(&mut *conn), back).await {
                tracing::debug!(
                    error = reveille_pg::causes(&error),
                    "messages were not put back; they come back by themselves"
                );
                is_sound(conn).await?;
            }
        }
        unheard.into_iter().for_each(PendingClaim::heard);
        let mut polled = PollResult::new(again);
        for (waiter, step) in claimed {
            // Its lease is the engine's to watch.
            polled.give(waiter, step, None);
        }
        Ok(polled)
    }

    async fn give_back(&self, conn: &mut PgConnection, steps: &[ClaimedStep]) -> reveille_pg::Result<()> {
        self.lost.give_back(conn, steps).await?;
        locked(&self.given).extend(steps.iter().map(|step| step.token));
        Ok(())
    }

    fn given_back(&self) {
        self.providers.ended(&std::mem::take(&mut *locked(&self.given)));
    }

    async fn sweep(&self, _: &mut PgConnection, keys: &[Queued]) -> reveille_pg::Result<Vec<usize>> {
        // What a queue has, who looks knows best.
        Ok((0..keys.len()).collect())
    }
}

/// Fails, as something that passes, if a connection is of no use any more. Through a pooler a look is one transaction: what its queue failed with has ended it, with all that was claimed.
async fn is_sound(conn: &mut PgConnection) -> reveille_pg::Result<()> {
    let asked = sqlx::raw_sql("select 1").execute(conn).await;
    asked.map(|_| ()).map_err(|error| sqlx::Error::Io(io::Error::other(error)).into())
}

/// What was received and is not decided about. Dropped, it goes back: who looked was too slow, or the database away.
struct InHand<'a> {
    providers: &'a Arc<Providers>,
    queue: &'a Arc<dyn EventDrivenQueueProvider>,
    deliveries: Vec<Delivery>,
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let receipts: Vec<Receipt> = self.deliveries.drain(..).map(|delivery| delivery.receipt).collect();
        self.providers.release_soon(self.queue.kind(), receipts);
    }
}
