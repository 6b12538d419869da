//! What happens by the clock: due times, aggressive polling, the fallback. One task per consumer runs all timers.
//!
//! Idle load does not depend on the number of waiters or how often they come back: while there are no wake-ups, the
//! only statement is one [`sweep`](Claim::sweep) over all groups per `fallback_poll_interval`.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::notify::dispatcher::{GroupId, WakeTarget};
use crate::notify::rate::TRAILING;
use crate::options::Strategy;
use crate::wait::claim::Claim;
use crate::wait::consumer::{ConsumerHealth, Inner, State};
use crate::wait::group::ListenerEpoch;
use crate::wait::mode::{Change, Event};
use crate::wait::reason::Reason;
use crate::wait::waiting::WaitingGroup;

/// The timers of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Timer {
    /// A group must poll, or may be forgotten.
    Group(GroupId),
    /// The interval of aggressive polling.
    Poll,
    Fallback,
    /// The recheck after a notification.
    Trailing,
}

/// Whether a sweep over the sleeping groups is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SweepState {
    Idle,
    Running,
    /// Running, and requested again meanwhile: what it reads may be too old.
    RunAgain(Reason),
}

/// Sleeps until the next timer, again and again, until the consumer is gone.
pub(crate) async fn run_timers<C: Claim>(inner: Weak<Inner<C>>, changed: Arc<Notify>) {
    loop {
        let next = match inner.upgrade() {
            Some(inner) => inner.fire_timers(),
            None => return,
        };
        match next {
            Some(at) => tokio::select! {
                biased;
                () = changed.notified() => {}
                () = sleep_until(at) => {}
            },
            None => changed.notified().await,
        }
    }
}

impl<C: Claim> Inner<C> {
    /// Sets a timer, and wakes the timer task if it is now the first.
    pub(crate) fn set_timer(&self, state: &mut State<C>, timer: Timer, at: Option<Instant>) {
        let before = state.timers.next();
        state.timers.set(timer, at);
        let after = state.timers.next();
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.timers_changed.notify_one();
        }
    }

    /// Acts on every timer that is due and returns when the next one is.
    fn fire_timers(self: &Arc<Self>) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.state.lock();
        while let Some(timer) = state.timers.pop_due(now) {
            match timer {
                Timer::Group(id) => self.fire_group(&mut state, id, now),
                Timer::Poll => self.fire_poll(&mut state, now),
                Timer::Fallback => self.fire_fallback(&mut state, now),
                Timer::Trailing => self.fire_trailing(&mut state, now),
            }
        }
        state.timers.next()
    }

    fn fire_group(&self, state: &mut State<C>, id: GroupId, now: Instant) {
        let Some(entry) = state.groups.get_mut(&id) else { return };
        if entry.group.timer_fired(now) {
            self.forget(state, id);
        } else {
            self.group_changed(state, id);
        }
    }

    /// A group sleeps: sets the poll timer if polling is aggressive.
    pub(crate) fn schedule_poll(&self, state: &mut State<C>) {
        if let Some(interval) = state.mode.poll_interval().filter(|_| !state.timers.has(Timer::Poll) && !state.closed) {
            self.set_timer(state, Timer::Poll, Some(Instant::now() + interval));
        }
    }

    /// Polls for all sleeping groups. Without any, the next group that sleeps sets the timer again; a consumer without
    /// waiters counts as an empty poll, so that it does not stay in aggressive polling.
    fn fire_poll(&self, state: &mut State<C>, now: Instant) {
        if state.groups.values().any(|entry| entry.group.is_asleep()) {
            self.schedule_poll(state);
            self.sweep(state, Reason::Interval);
        } else if state.epoch.is_some() && state.groups.values().all(|entry| entry.group.is_vacant()) {
            self.record_event(state, Event::PollEmpty, now);
            self.schedule_poll(state);
        }
    }

    /// A group sleeps: sets the fallback timer.
    pub(crate) fn schedule_fallback(&self, state: &mut State<C>) {
        if self.options.strategy == Strategy::Competing && !state.closed && !state.timers.has(Timer::Fallback) {
            let at = state.fallback_at.max(Instant::now());
            self.set_timer(state, Timer::Fallback, Some(at));
        }
    }

    /// The fallback interval has passed. Without a sleeping group, the next one that sleeps sets the timer again.
    fn fire_fallback(&self, state: &mut State<C>, now: Instant) {
        if !state.groups.values().any(|entry| entry.group.is_asleep()) {
            return;
        }
        state.fallback_at = now + self.options.fallback_poll_interval;
        self.schedule_fallback(state);
        self.record_event(state, Event::FallbackDue, now);
        if !state.mode.is_aggressive() {
            self.sweep(state, Reason::Fallback);
        }
    }

    /// Another process notified at `at`: it may die before it notifies of its next write, so everything is rechecked
    /// [`TRAILING`] later.
    pub(crate) fn recheck_after(&self, state: &mut State<C>, at: Instant) {
        state.notified_at = Some(at);
        if !state.timers.has(Timer::Trailing) && !state.closed {
            self.set_timer(state, Timer::Trailing, Some(at + TRAILING));
        }
    }

    /// Rechecks all groups, to find the writes of a sender that died before it notified. While notifications keep
    /// coming, this happens once a second.
    fn fire_trailing(&self, state: &mut State<C>, now: Instant) {
        if let Some(last) = state.notified_at.map(|at| at + TRAILING).filter(|at| *at > now) {
            self.set_timer(state, Timer::Trailing, Some(last));
        }
        for entry in state.groups.values_mut() {
            entry.group.recheck(Reason::Trailing, now);
        }
        self.sweep(state, Reason::Trailing);
    }

    /// Asks the database, for all sleeping groups together, which of them have something due, and wakes those.
    fn sweep(&self, state: &mut State<C>, reason: Reason) {
        let asleep = state.groups.iter().filter(|(_, entry)| entry.group.is_asleep());
        let groups: Vec<(GroupId, C::Key)> = asleep.map(|(id, entry)| (*id, entry.key.clone())).collect();
        if groups.is_empty() {
            return;
        }
        if state.sweep != SweepState::Idle {
            // The poll timer comes again by itself.
            if reason != Reason::Interval {
                state.sweep = SweepState::RunAgain(reason);
            }
            return;
        }
        if let Some(me) = self.me.upgrade() {
            state.sweep = SweepState::Running;
            self.runtime.spawn(me.sweep_groups(groups, reason));
        }
    }

    async fn sweep_groups(self: Arc<Self>, groups: Vec<(GroupId, C::Key)>, reason: Reason) {
        let (ids, keys): (Vec<GroupId>, Vec<C::Key>) = groups.into_iter().unzip();
        let guard = SweepGuard(&self);
        let swept = self.within_timeout(async {
            let mut session = self.db.session().await?;
            let due = self.claim.sweep(&mut session, &keys).await?;
            session.finish().await?;
            Ok(due)
        });
        let swept = swept.await;
        drop(guard);
        let now = Instant::now();
        let mut state = self.state.lock();
        let due: Vec<GroupId> = match swept {
            Ok(due) => {
                self.metrics.sweeps.add(1);
                if due.is_empty() {
                    self.record_event(&mut state, Event::PollEmpty, now);
                }
                due.into_iter().filter_map(|index| ids.get(index).copied()).collect()
            }
            Err(error) => {
                tracing::debug!(consumer = &*self.name, %error, "sweep failed");
                self.record_event(&mut state, Event::PollFailed, now);
                return;
            }
        };
        for id in due {
            // A group that was woken meanwhile polls anyway; one that is polling may have begun before the sweep.
            if let Some(entry) = state.groups.get_mut(&id) {
                entry.group.wake_up(reason, now);
                self.group_changed(&mut state, id);
            }
        }
    }

    /// Records an event in the mode, and starts or stops aggressive polling if the mode changed.
    pub(crate) fn record_event(&self, state: &mut State<C>, event: Event, now: Instant) {
        match state.mode.on(now, event) {
            None => {}
            Some(Change::Entered(event)) => {
                tracing::debug!(consumer = &*self.name, ?event, "aggressive polling began");
                self.metrics.mode(true);
                self.schedule_poll(state);
            }
            Some(Change::Left) => {
                tracing::debug!(consumer = &*self.name, "aggressive polling ended");
                self.metrics.mode(false);
                self.set_timer(state, Timer::Poll, None);
            }
        }
    }
}

/// A running sweep; however it ends, the next may begin.
struct SweepGuard<'a, C: Claim>(&'a Inner<C>);

impl<C: Claim> Drop for SweepGuard<'_, C> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if let SweepState::RunAgain(reason) = std::mem::replace(&mut state.sweep, SweepState::Idle) {
            self.0.sweep(&mut state, reason);
        }
    }
}

impl<C: Claim> WakeTarget for Inner<C> {
    fn wake_up(&self, id: GroupId, reason: Reason) {
        let now = Instant::now();
        let mut state = self.state.lock();
        if let Some(entry) = state.groups.get_mut(&id) {
            entry.group.wake_up(reason, now);
            self.group_changed(&mut state, id);
        }
    }

    fn due_at(&self, id: GroupId, at: Instant) {
        let mut state = self.state.lock();
        if let Some(entry) = state.groups.get_mut(&id) {
            entry.group.due_at(at);
            self.group_changed(&mut state, id);
        }
    }

    fn needs_recheck(&self) {
        self.recheck_after(&mut self.state.lock(), Instant::now());
    }

    fn health(&self) -> ConsumerHealth {
        let state = self.state.lock();
        ConsumerHealth {
            name: self.name.clone(),
            polling: state.mode.is_aggressive(),
            waiters: state.waiters,
            groups: state.groups.len(),
            asleep: state.groups.values().filter(|entry| entry.group.is_asleep()).count(),
            counts: self.metrics.counts(),
            latency: self.metrics.latency(),
        }
    }

    fn waiting(&self, limit: usize) -> Vec<WaitingGroup> {
        self.waiting_groups(limit)
    }

    fn listener_changed(&self, epoch: ListenerEpoch, event: Event) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.epoch = epoch;
        self.record_event(&mut state, event, now);
        if epoch.is_none() {
            return;
        }
        self.schedule_poll(&mut state);
        // Notifications were lost meanwhile, perhaps the last ones of a sender that died.
        self.recheck_after(&mut state, now);
        let ids: Vec<GroupId> = state.groups.keys().copied().collect();
        for id in ids {
            if let Some(entry) = state.groups.get_mut(&id) {
                entry.group.wake_up(Reason::Resync, now);
                self.group_changed(&mut state, id);
            }
        }
    }
}
