//! Waiting for work without missing any: the arm–look–sleep loop.
//!
//! A consumer that finds nothing has to sleep until there may be something. The danger is the gap: a ring that lands after
//! the query and before the sleep is lost, and the consumer sleeps through its own work. Here a group is *armed* before
//! the query, so a ring in the gap is remembered, and nobody sleeps on it.
//!
//! [`Inner::arm_poll_sleep`] is the one loop every consumer runs, once per group at a time, and the only place that sends a
//! claim. It is started by whatever may bring work (a ring, a due time, a newcomer) and ends when its group may sleep.
//!
//! A ring means "look again", never "here is your row": a look that finds nothing is normal.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pg::{Session, within};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::error::{Error, broken, is_about_connecting};
use crate::notify::dispatcher::GroupId;
use crate::underway::Passage;
use crate::wait::claim::{Claim, Claimed, PollRequest, PollResult, Waiter};
use crate::wait::consumer::Inner;
use crate::wait::group::{Answer, WaiterId};
use crate::wait::mode::Event;
use crate::wait::reason::Reason;
use crate::wait::timer::earliest;

/// A look about to be made.
struct Armed<C: Claim> {
    poll: PollRequest<C::Key, C::Args>,
    waiters: Vec<WaiterId>,
    reason: Reason,
    since: Instant,
}

/// How a look went: what it found, who was refused, and what failed for now.
struct PollOutcome<I> {
    items: Vec<(usize, I)>,
    next_due: Option<Duration>,
    due_again: Option<Duration>,
    refused: Vec<(usize, Arc<pg::Error>)>,
    failure: Option<Arc<pg::Error>>,
}

impl<I> PollOutcome<I> {
    fn nothing() -> Self {
        PollOutcome { items: Vec::new(), next_due: None, due_again: None, refused: Vec::new(), failure: None }
    }
}

/// A group whose look has not been settled. If the product's code panics, this settles it as failed, so that the panic of
/// one claim does not leave its group waiting for ever.
struct Unsettled<C: Claim> {
    inner: Arc<Inner<C>>,
    group: GroupId,
    armed: Option<Armed<C>>,
}

impl<C: Claim> Inner<C> {
    /// Arm, look, sleep. Armed, every ring is remembered; the look asks the database; then the group sleeps, unless something
    /// rang. To sleep is to end this loop: the next ring, due time or newcomer starts it again.
    ///
    /// While it is awake it keeps its connection: getting one costs the pool a round trip and a task switch.
    pub(crate) async fn arm_poll_sleep(self: Arc<Self>, group: GroupId, _underway: Passage) {
        let mut line = None;
        loop {
            let awake = Instant::now();
            let _calm = if self.is_pending(group, Reason::Resync) {
                Some(self.dispatcher.resyncs.acquire().await)
            } else {
                None
            };
            let _arrival = match self.is_pending(group, Reason::Arrived) {
                true => Some(self.turn(&self.arrivals, &mut line).await),
                false => None,
            };
            let _turn = self.turn(&self.polls, &mut line).await;
            // Whoever was woken together with the first waiter comes along: one look for all of them.
            tokio::task::yield_now().await;

            let Some(armed) = self.arm(group, awake) else { break };
            let mut unsettled = Unsettled { inner: self.clone(), group, armed: Some(armed) };
            let result = match &unsettled.armed {
                Some(armed) => self.poll(&mut line, &armed.poll).await,
                None => break,
            };
            if let Some(armed) = unsettled.armed.take() {
                self.settle(group, armed, result);
            }
        }
        self.hang_up(line).await;
    }

    async fn turn<'a>(&self, turns: &'a Semaphore, line: &mut Option<Session>) -> Option<SemaphorePermit<'a>> {
        if let Ok(turn) = turns.try_acquire() {
            return Some(turn);
        }
        // Whoever has a turn may be waiting for the very connection.
        self.hang_up(line.take()).await;
        turns.acquire().await.ok()
    }

    async fn hang_up(&self, line: Option<Session>) {
        if let Some(session) = line
            && let Err(error) = session.finish().await
        {
            tracing::debug!(consumer = &*self.name, %error, "a connection could not be put back");
        }
    }

    fn is_pending(&self, group: GroupId, reason: Reason) -> bool {
        self.state().groups.get(&group).is_some_and(|entry| entry.group.is_pending(reason))
    }

    /// Begins a look; `None` ends the loop, because there is no reason for one.
    ///
    /// `awake` is when the loop was there to look; what it waited for since then was its turn.
    fn arm(&self, id: GroupId, awake: Instant) -> Option<Armed<C>> {
        let now = Instant::now();
        let mut state = self.state();
        let hearing = state.hearing;
        let entry = state.groups.get_mut(&id)?;
        let Some(begun) = entry.group.begin(now, hearing) else {
            entry.running = false;
            self.settled(&mut state, id);
            return None;
        };
        let waiters = begun.waiters.iter().filter_map(|waiter| entry.group.waiter(*waiter)).map(|waiter| Waiter {
            want: waiter.want,
            args: waiter.waiter.args.clone(),
            waited: now.saturating_duration_since(waiter.since),
            waits: waiter.waits,
        });
        let prefetch = if self.prefetches() { entry.prefetch.room(now) } else { 0 };
        let poll = PollRequest { key: entry.key.clone(), waiters: waiters.collect(), prefetch };
        self.metrics.woken(begun.reason);
        let late = awake.saturating_duration_since(begun.asleep_since) > self.options.notify_delivery_timeout;
        let event = match begun.reason {
            Reason::Rung | Reason::Notified if late => Some(Event::LookLate),
            Reason::Rung | Reason::Notified => Some(Event::Rung),
            Reason::Timer => Some(Event::TimerFired),
            _ => None,
        };
        if let Some(event) = event {
            self.feed(&mut state, event, now);
        }
        Some(Armed { poll, waiters: begun.waiters, reason: begun.reason, since: begun.since })
    }

    /// Sends the claim. If it is refused for good, then once for each seat, so that only those it is refused to hear of it.
    async fn poll(&self, line: &mut Option<Session>, poll: &PollRequest<C::Key, C::Args>) -> PollOutcome<C::Item> {
        let mut result = PollOutcome::nothing();
        match self.look_once(line, poll).await {
            Ok(PollResult { items, next_due, due_again }) => {
                result = PollOutcome { items, next_due, due_again, ..result };
            }
            Err(error) if error.is_transient() => result.failure = Some(Arc::new(error)),
            // Not having a connection is the same for everybody.
            Err(error) if poll.waiters.len() == 1 || is_about_connecting(&error) => {
                let error = Arc::new(error);
                result.refused.extend((0..poll.waiters.len()).map(|waiter| (waiter, error.clone())));
            }
            Err(_) => {
                for (index, waiter) in poll.waiters.iter().enumerate() {
                    let alone = Waiter { args: waiter.args.clone(), ..*waiter };
                    match self
                        .look_once(line, &PollRequest { key: poll.key.clone(), waiters: vec![alone], prefetch: 0 })
                        .await
                    {
                        Ok(polled) => {
                            result.items.extend(polled.items.into_iter().map(|(_, item)| (index, item)));
                            result.next_due = earliest([result.next_due, polled.next_due]);
                            result.due_again = earliest([result.due_again, polled.due_again]);
                        }
                        Err(error) if error.is_transient() => {
                            result.failure = Some(Arc::new(error));
                            break;
                        }
                        Err(error) => result.refused.push((index, Arc::new(error))),
                    }
                }
            }
        }
        result
    }

    async fn look_once(
        &self,
        line: &mut Option<Session>,
        poll: &PollRequest<C::Key, C::Args>,
    ) -> pg::Result<PollResult<C::Item>> {
        self.metrics.poll(poll.waiters.len());
        // Taken out, so that one that failed or was given up is not used again.
        let kept = line.take();
        let (polled, session) = self
            .within_time(async {
                let mut session = match kept {
                    Some(session) => session,
                    None => self.db.session().await?,
                };
                let polled = self.claim.poll(&mut session, poll).await?;
                // Through a pooler the session is a transaction, and this its commit.
                if self.db.has_pooler() {
                    session.finish().await?;
                    return Ok((polled, None));
                }
                Ok((polled, Some(session)))
            })
            .await?;
        *line = session;
        Ok(polled)
    }

    pub(crate) async fn within_time<T>(&self, work: impl Future<Output = pg::Result<T>>) -> pg::Result<T> {
        within(self.options.poll_timeout, work).await
    }

    /// Hands out what a look found and puts the group to sleep, unless something rang.
    fn settle(self: &Arc<Self>, id: GroupId, armed: Armed<C>, result: PollOutcome<C::Item>) {
        let now = Instant::now();
        let found = result.items.len();
        let mut by_seat: Vec<Vec<C::Item>> = armed.waiters.iter().map(|_| Vec::new()).collect();
        let (mut prefetch, mut orphans) = (Vec::new(), Vec::new());
        for (waiter, item) in result.items {
            // An item for a seat that does not exist is for who comes next.
            by_seat.get_mut(waiter).unwrap_or(&mut prefetch).push(item);
        }
        let short = by_seat.iter().zip(&armed.poll.waiters).any(|(got, waiter)| got.len() < waiter.want);
        let skipped = short && result.next_due == Some(Duration::ZERO);
        self.count(&armed, found, skipped, result.failure.is_some(), now);
        let was_refused = !result.refused.is_empty();
        let event = match (&result.failure, found) {
            (Some(_), _) => Some(Event::LookFailed),
            // Neither says that there is nothing.
            (None, 0) if was_refused || skipped => None,
            (None, 0) => Some(Event::LookEmpty),
            (None, _) if armed.reason == Reason::Fallback => Some(Event::FallbackFoundWork),
            (None, _) => Some(Event::LookFound),
        };

        let (mut deliveries, mut refusals) = (Vec::new(), Vec::new());
        let mut state = self.state();
        let closed = state.closed;
        let Some(entry) = state.groups.get_mut(&id) else {
            drop(state);
            orphans.extend(by_seat.into_iter().flatten().chain(prefetch));
            return self.give_back(armed.poll.key, orphans);
        };
        if result.failure.is_some() && !entry.group.is_failing() {
            let error = result.failure.as_ref().map(tracing::field::display);
            tracing::warn!(consumer = &*self.name, error, "work cannot be looked for; trying again");
        }
        for (waiter, items) in armed.waiters.iter().zip(by_seat).filter(|(_, items)| !items.is_empty()) {
            match entry.group.leave(*waiter, now) {
                Some(waiter) => deliveries.push((waiter.reply, items)),
                None => orphans.extend(items),
            }
        }
        for (index, error) in result.refused {
            let waiter = armed.waiters.get(index).and_then(|waiter| entry.group.leave(*waiter, now));
            refusals.extend(waiter.map(|waiter| (waiter, error)));
        }
        let answer = match result.failure {
            Some(failure) => Answer::Failed(failure),
            None if was_refused => Answer::Refused,
            None => {
                let PollOutcome { next_due, due_again, .. } = result;
                Answer::Ran { found: found > 0, skipped, next_due, due_again }
            }
        };
        let dismissed = entry.group.end(answer, now, &self.rules);
        for item in prefetch {
            // First those who came while the look was in the air.
            if let Some(waiter) = entry.group.take_idle(now, |waiter| self.claim.fits(&item, &waiter.args)) {
                deliveries.push((waiter.reply, vec![item]));
            } else if self.prefetches() && !closed {
                self.metrics.prefetch.add(1);
                entry.prefetch.keep(Claimed::new(self.clone(), armed.poll.key.clone(), vec![item]), now);
            } else {
                orphans.push(item);
            }
        }
        state.waiters -= deliveries.len() + refusals.len() + dismissed.len();
        if let Some(event) = event {
            self.feed(&mut state, event, now);
        }
        self.settled(&mut state, id);
        drop(state);

        self.deliver(&armed.poll.key, deliveries);
        self.dismiss(dismissed);
        for (waiter, source) in refusals {
            drop(waiter.reply.send(Err(Error::refused(&self.name, source))));
        }
        if !orphans.is_empty() {
            self.give_back(armed.poll.key, orphans);
        }
    }

    fn count(&self, armed: &Armed<C>, found: usize, skipped: bool, failed: bool, now: Instant) {
        self.metrics.items.add(found as u64);
        if failed {
            self.metrics.failed_polls.add(1);
        } else if skipped {
            self.metrics.skipped_polls.add(1);
        } else if found == 0 {
            self.metrics.empty_polls.add(1);
        }
        if found > 0 && matches!(armed.reason, Reason::Rung | Reason::Notified) {
            self.metrics.ring_to_claim(now.saturating_duration_since(armed.since));
        }
    }
}

impl<C: Claim> Drop for Unsettled<C> {
    fn drop(&mut self) {
        let Some(armed) = self.armed.take() else { return };
        let failure = Some(Arc::new(broken(io::ErrorKind::Other, "the claim panicked")));
        self.inner.settle(self.group, armed, PollOutcome { failure, ..PollOutcome::nothing() });
        let mut state = self.inner.state();
        if let Some(entry) = state.groups.get_mut(&self.group) {
            entry.running = false;
        }
        self.inner.settled(&mut state, self.group);
    }
}
