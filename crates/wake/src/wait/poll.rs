//! Waiting for work without missing any: the loop that polls.
//!
//! A consumer that finds nothing has to sleep until there may be something. The danger is the gap: a wake-up that
//! arrives after the query and before the sleep would be lost, and the consumer would sleep although there is work. So
//! a poll *begins* before its query: a wake-up after that is remembered, and the group polls again instead of sleeping.
//!
//! [`Inner::poll_until_asleep`] is the one loop that sends claims, one at a time per group. A wake-up, a due time or a
//! new waiter starts it, and it ends when its group may sleep.
//!
//! A wake-up means "poll again", never "this row is yours": a poll that finds nothing is normal.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use reveille_pg::{Session, within};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::error::{Error, broken, is_about_connecting};
use crate::in_progress::InProgressGuard;
use crate::notify::dispatcher::GroupId;
use crate::wait::claim::{Claim, PollRequest, PollResult, Waiter};
use crate::wait::consumer::{Inner, State};
use crate::wait::group::{BegunPoll, PollEnd, WaiterId};
use crate::wait::mode::Event;
use crate::wait::reason::Reason;
use crate::wait::timer::earliest;

/// A poll that has begun.
pub(crate) struct RunningPoll<C: Claim> {
    pub(crate) request: Arc<PollRequest<C::Key, C::Args>>,
    waiters: Vec<WaiterId>,
    reason: Reason,
    since: Instant,
}

/// What a poll found, which waiters were refused, and what failed for now.
pub(crate) struct PollOutcome<I> {
    pub(crate) items: Vec<(usize, I)>,
    next_due: Option<Duration>,
    due_again: Option<Duration>,
    refused: Vec<(usize, Arc<reveille_pg::Error>)>,
    failure: Option<Arc<reveille_pg::Error>>,
}

impl<I> PollOutcome<I> {
    fn nothing() -> Self {
        PollOutcome { items: Vec::new(), next_due: None, due_again: None, refused: Vec::new(), failure: None }
    }

    pub(crate) fn of(PollResult { items, next_due, due_again }: PollResult<I>) -> Self {
        PollOutcome { items, next_due, due_again, ..PollOutcome::nothing() }
    }
}

/// A poll whose outcome has not been applied. If the product's code panics, dropping this ends the poll as failed, so
/// that its group does not wait for ever.
struct PollGuard<C: Claim> {
    inner: Arc<Inner<C>>,
    group: GroupId,
    poll: Option<RunningPoll<C>>,
}

impl<C: Claim> Inner<C> {
    /// Begins a poll, sends the claim and applies its outcome, until the group has no reason to poll. Then the group
    /// sleeps, which means that this loop ends: the next wake-up, due time or new waiter starts it again.
    ///
    /// It keeps its connection between polls: getting one costs the pool a round trip and a task switch.
    pub(crate) async fn poll_until_asleep(self: Arc<Self>, group: GroupId, _in_progress: InProgressGuard) {
        let mut session = None;
        loop {
            let ready = Instant::now();
            let _resync = if self.is_pending(group, Reason::Resync) {
                Some(self.dispatcher.resync_permits.acquire().await)
            } else {
                None
            };
            let _arrival = match self.is_pending(group, Reason::Arrived) {
                true => Some(self.permit(&self.arrival_permits, &mut session).await),
                false => None,
            };
            let _poll = self.permit(&self.poll_permits, &mut session).await;
            // Waiters that come in the same tick of the runtime are served by the same poll.
            tokio::task::yield_now().await;

            let Some(poll) = self.begin_poll(group, ready) else { break };
            let mut guard = PollGuard { inner: self.clone(), group, poll: Some(poll) };
            let outcome = match &guard.poll {
                Some(poll) => self.poll(&mut session, &poll.request).await,
                None => break,
            };
            if let Some(poll) = guard.poll.take() {
                self.apply_outcome(group, poll, outcome);
            }
        }
        self.release(session).await;
    }

    async fn permit<'a>(&self, permits: &'a Semaphore, session: &mut Option<Session>) -> Option<SemaphorePermit<'a>> {
        if let Ok(permit) = permits.try_acquire() {
            return Some(permit);
        }
        // The holder of a permit may be waiting for this very connection.
        self.release(session.take()).await;
        permits.acquire().await.ok()
    }

    async fn release(&self, session: Option<Session>) {
        if let Some(session) = session
            && let Err(error) = session.finish().await
        {
            tracing::debug!(consumer = &*self.name, %error, "cannot return a connection to the pool");
        }
    }

    fn is_pending(&self, group: GroupId, reason: Reason) -> bool {
        self.state.lock().groups.get(&group).is_some_and(|entry| entry.group.is_pending(reason))
    }

    /// Begins a poll; `None` ends the loop, because there is no reason for one.
    ///
    /// `ready` is when the loop was ready to poll; from then on it only waited for its permits.
    fn begin_poll(&self, id: GroupId, ready: Instant) -> Option<RunningPoll<C>> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let epoch = state.epoch;
        let entry = state.groups.get_mut(&id)?;
        let Some(begun) = entry.group.begin_poll(now, epoch) else {
            entry.running = false;
            self.group_changed(&mut state, id);
            return None;
        };
        self.poll_begun(&mut state, id, begun, ready, now)
    }

    /// Begins a poll that a write batch makes in its own statement: for the group that has waited longest of those that
    /// are asleep.
    pub(crate) fn begin_attached_poll(&self, groups: &[GroupId]) -> Option<(GroupId, RunningPoll<C>)> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let entries = groups.iter().filter_map(|id| state.groups.get(id).map(|entry| (*id, entry)));
        let (id, _) = entries
            .filter(|(_, entry)| entry.group.is_asleep() && self.claim.attaches(&entry.key))
            .min_by_key(|(_, entry)| entry.group.waiting_since())?;
        let epoch = state.epoch;
        let begun = state.groups.get_mut(&id)?.group.begin_attached_poll(now, epoch)?;
        let poll = self.poll_begun(&mut state, id, begun, now, now)?;
        self.metrics.poll(poll.waiters.len());
        self.group_changed(&mut state, id);
        Some((id, poll))
    }

    /// Ends an attached poll of which there is no result: the group makes another.
    pub(crate) fn abandon_attached_poll(&self, id: GroupId) {
        let mut state = self.state.lock();
        if let Some(entry) = state.groups.get_mut(&id) {
            entry.group.abandon_poll(Instant::now());
            self.group_changed(&mut state, id);
        }
    }

    fn poll_begun(
        &self,
        state: &mut State<C>,
        id: GroupId,
        begun: BegunPoll,
        ready: Instant,
        now: Instant,
    ) -> Option<RunningPoll<C>> {
        let entry = state.groups.get(&id)?;
        let waiters = begun.waiters.iter().filter_map(|waiter| entry.group.waiter(*waiter)).map(|waiter| Waiter {
            want: waiter.want,
            args: waiter.request.args.clone(),
            waited: now.saturating_duration_since(waiter.since),
        });
        let request = PollRequest { key: entry.key.clone(), waiters: waiters.collect() };
        self.metrics.woken(begun.reason);
        let late = ready.saturating_duration_since(begun.ready_since) > self.options.notify_delivery_timeout;
        let event = match begun.reason {
            Reason::Local | Reason::Notified if late => Some(Event::PollLate),
            Reason::Local | Reason::Notified | Reason::Attached => Some(Event::WakeUp),
            Reason::Timer => Some(Event::TimerFired),
            _ => None,
        };
        if let Some(event) = event {
            self.record_event(state, event, now);
        }
        let request = Arc::new(request);
        Some(RunningPoll { request, waiters: begun.waiters, reason: begun.reason, since: begun.since })
    }

    /// Sends the claim. If it is refused for good, it is sent once per waiter, so that only those waiters fail for
    /// which it is refused.
    async fn poll(
        &self,
        session: &mut Option<Session>,
        request: &PollRequest<C::Key, C::Args>,
    ) -> PollOutcome<C::Item> {
        let mut outcome = PollOutcome::nothing();
        match self.send_claim(session, request).await {
            Ok(result) => outcome = PollOutcome::of(result),
            Err(error) if error.is_transient() => outcome.failure = Some(Arc::new(error)),
            // Without a connection all waiters fail alike.
            Err(error) if request.waiters.len() == 1 || is_about_connecting(&error) => {
                let error = Arc::new(error);
                outcome.refused.extend((0..request.waiters.len()).map(|waiter| (waiter, error.clone())));
            }
            Err(_) => {
                for (index, waiter) in request.waiters.iter().enumerate() {
                    let waiters = vec![Waiter { args: waiter.args.clone(), ..*waiter }];
                    let single = PollRequest { key: request.key.clone(), waiters };
                    match self.send_claim(session, &single).await {
                        Ok(polled) => {
                            outcome.items.extend(polled.items.into_iter().map(|(_, item)| (index, item)));
                            outcome.next_due = earliest([outcome.next_due, polled.next_due]);
                            outcome.due_again = earliest([outcome.due_again, polled.due_again]);
                        }
                        Err(error) if error.is_transient() => {
                            outcome.failure = Some(Arc::new(error));
                            break;
                        }
                        Err(error) => outcome.refused.push((index, Arc::new(error))),
                    }
                }
            }
        }
        outcome
    }

    async fn send_claim(
        &self,
        session: &mut Option<Session>,
        request: &PollRequest<C::Key, C::Args>,
    ) -> reveille_pg::Result<PollResult<C::Item>> {
        self.metrics.poll(request.waiters.len());
        // Taken out, so that a session that fails or times out is not used again.
        let open = session.take();
        let (polled, open) = self
            .within_timeout(async {
                let mut open = match open {
                    Some(open) => open,
                    None => self.db.session().await?,
                };
                let polled = self.claim.poll(&mut open, request).await?;
                // Through a pooler the session is a transaction, and this is its commit.
                if self.db.has_pooler() {
                    open.finish().await?;
                    return Ok((polled, None));
                }
                Ok((polled, Some(open)))
            })
            .await?;
        *session = open;
        Ok(polled)
    }

    pub(crate) async fn within_timeout<T>(
        &self,
        work: impl Future<Output = reveille_pg::Result<T>>,
    ) -> reveille_pg::Result<T> {
        within(self.options.poll_timeout, work).await
    }

    /// Delivers what a poll found and ends the poll of its group.
    pub(crate) fn apply_outcome(self: &Arc<Self>, id: GroupId, poll: RunningPoll<C>, outcome: PollOutcome<C::Item>) {
        let now = Instant::now();
        let found = outcome.items.len();
        let mut by_waiter: Vec<Vec<C::Item>> = poll.waiters.iter().map(|_| Vec::new()).collect();
        let mut unwanted = Vec::new();
        for (waiter, item) in outcome.items {
            by_waiter.get_mut(waiter).unwrap_or(&mut unwanted).push(item);
        }
        let short = by_waiter.iter().zip(&poll.request.waiters).any(|(got, waiter)| got.len() < waiter.want);
        let skipped = short && outcome.next_due == Some(Duration::ZERO);
        self.count(&poll, found, skipped, outcome.failure.is_some(), now);
        let was_refused = !outcome.refused.is_empty();
        let event = match (&outcome.failure, found) {
            (Some(_), _) => Some(Event::PollFailed),
            // Neither means that nothing is due.
            (None, 0) if was_refused || skipped => None,
            (None, 0) => Some(Event::PollEmpty),
            (None, _) if poll.reason == Reason::Fallback => Some(Event::FallbackFoundWork),
            (None, _) => Some(Event::PollFoundWork),
        };

        let (mut deliveries, mut rejections) = (Vec::new(), Vec::new());
        let mut state = self.state.lock();
        let Some(entry) = state.groups.get_mut(&id) else {
            drop(state);
            unwanted.extend(by_waiter.into_iter().flatten());
            return self.give_back(poll.request.key.clone(), unwanted);
        };
        if outcome.failure.is_some() && !entry.group.is_failing() {
            let error = outcome.failure.as_ref().map(tracing::field::display);
            tracing::warn!(consumer = &*self.name, error, "poll failed; retrying");
        }
        for (waiter, items) in poll.waiters.iter().zip(by_waiter).filter(|(_, items)| !items.is_empty()) {
            match entry.group.remove_waiter(*waiter, now) {
                Some(request) => deliveries.push((request.reply, items)),
                None => unwanted.extend(items),
            }
        }
        for (index, error) in outcome.refused {
            let request = poll.waiters.get(index).and_then(|waiter| entry.group.remove_waiter(*waiter, now));
            rejections.extend(request.map(|request| (request, error)));
        }
        let end = match outcome.failure {
            Some(failure) => PollEnd::Failed(failure),
            None if was_refused => PollEnd::Refused,
            None => {
                let PollOutcome { next_due, due_again, .. } = outcome;
                PollEnd::Completed { found: found > 0, skipped, next_due, due_again }
            }
        };
        let dismissed = entry.group.end_poll(end, now, &self.rules);
        state.waiters -= deliveries.len() + rejections.len() + dismissed.len();
        if let Some(event) = event {
            self.record_event(&mut state, event, now);
        }
        self.group_changed(&mut state, id);
        drop(state);

        self.deliver(&poll.request.key, deliveries);
        self.dismiss(dismissed);
        for (request, source) in rejections {
            drop(request.reply.send(Err(Error::refused(&self.name, source))));
        }
        if !unwanted.is_empty() {
            self.give_back(poll.request.key.clone(), unwanted);
        }
    }

    fn count(&self, poll: &RunningPoll<C>, found: usize, skipped: bool, failed: bool, now: Instant) {
        self.metrics.items.add(found as u64);
        if failed {
            self.metrics.failed_polls.add(1);
        } else if skipped {
            self.metrics.skipped_polls.add(1);
        } else if found == 0 {
            self.metrics.empty_polls.add(1);
        }
        if found > 0 && matches!(poll.reason, Reason::Local | Reason::Notified) {
            self.metrics.wake_to_claim(now.saturating_duration_since(poll.since));
        }
    }
}

impl<C: Claim> Drop for PollGuard<C> {
    fn drop(&mut self) {
        let Some(poll) = self.poll.take() else { return };
        let failure = Some(Arc::new(broken(io::ErrorKind::Other, "the claim panicked")));
        self.inner.apply_outcome(self.group, poll, PollOutcome { failure, ..PollOutcome::nothing() });
        let mut state = self.inner.state.lock();
        if let Some(entry) = state.groups.get_mut(&self.group) {
            entry.running = false;
        }
        self.inner.group_changed(&mut state, self.group);
    }
}
