//! What happens by the clock: due times, polling, the fallback. One task per consumer keeps all of it.
//!
//! Idle load does not depend on how many wait or how often they come back: while nothing rings, the only statement is one
//! [`sweep`](Claim::sweep) over all groups per `fallback_poll_interval`.

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

/// What may come due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Alarm {
    Group(GroupId),
    /// Something was taken ahead, and nobody came for it.
    Prefetch(GroupId),
    Poll,
    Fallback,
    Trailing,
}

/// Whether all sleeping groups are being asked for together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sweep {
    Resting,
    Sweeping,
    /// And again when that has ended, because what it reads may be too old.
    Again(Reason),
}

/// Sleeps until the next alarm, again and again, until the consumer is gone.
pub(crate) async fn keep_time<C: Claim>(inner: Weak<Inner<C>>, changed: Arc<Notify>) {
    let keeper = Timekeeper(inner);
    loop {
        let next = match keeper.0.upgrade() {
            Some(inner) => inner.ring_alarms(),
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

/// Whoever keeps the time of a consumer. What is taken ahead keeps the consumer alive and relies on its alarms; if the runtime ends they never come.
struct Timekeeper<C: Claim>(Weak<Inner<C>>);

impl<C: Claim> Drop for Timekeeper<C> {
    fn drop(&mut self) {
        let Some(inner) = self.0.upgrade() else { return };
        let kept: Vec<_> = {
            let mut state = inner.state();
            state.closed = true;
            state.groups.values_mut().map(|entry| entry.prefetch.drain()).collect()
        };
        drop(kept);
    }
}

impl<C: Claim> Inner<C> {
    /// Sets an alarm, and tells the timekeeper if it is now the first.
    pub(crate) fn set_alarm(&self, state: &mut State<C>, alarm: Alarm, at: Option<Instant>) {
        let before = state.timers.next();
        state.timers.set(alarm, at);
        let after = state.timers.next();
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.alarm_changed.notify_one();
        }
    }

    /// Acts on everything that is due and answers when to come back.
    fn ring_alarms(self: &Arc<Self>) -> Option<Instant> {
        let now = Instant::now();
        let mut overdue = Vec::new();
        // Whoever closes the consumer waits for what is taken out here.
        let _underway = self.underway.begin();
        let mut state = self.state();
        while let Some(alarm) = state.timers.pop_due(now) {
            match alarm {
                Alarm::Group(id) => self.wake_group(&mut state, id, now),
                Alarm::Prefetch(id) => {
                    overdue.extend(
                        state.groups.get_mut(&id).map(|entry| (entry.key.clone(), entry.prefetch.overdue(now))),
                    );
                    self.settled(&mut state, id);
                }
                Alarm::Poll => self.periodic_poll(&mut state, now),
                Alarm::Fallback => self.fall_back(&mut state, now),
                Alarm::Trailing => self.trail(&mut state, now),
            }
        }
        let next = state.timers.next();
        drop(state);
        self.return_kept(overdue);
        next
    }

    fn wake_group(&self, state: &mut State<C>, id: GroupId, now: Instant) {
        let Some(entry) = state.groups.get_mut(&id) else { return };
        if entry.group.wake(now) {
            self.forget(state, id);
        } else {
            self.settled(state, id);
        }
    }

    /// Somebody sleeps: sees to it that polls come, if the mode wants them.
    pub(crate) fn arm_poll(&self, state: &mut State<C>) {
        if let Some(interval) = state.mode.poll_interval().filter(|_| !state.timers.has(Alarm::Poll) && !state.closed) {
            self.set_alarm(state, Alarm::Poll, Some(Instant::now() + interval));
        }
    }

    /// The pace of polling. If nobody sleeps there is nothing to poll for; the next who does arms it anew, and a consumer
    /// that nobody uses is as good as empty.
    fn periodic_poll(&self, state: &mut State<C>, now: Instant) {
        if state.groups.values().any(|entry| entry.group.is_asleep()) {
            self.arm_poll(state);
            self.sweep(state, Reason::Polled);
        } else if state.hearing.is_some() && state.groups.values().all(|entry| entry.is_vacant()) {
            self.feed(state, Event::LookEmpty, now);
            self.arm_poll(state);
        }
    }

    /// Somebody sleeps: sees to it that the fallback comes.
    pub(crate) fn arm_fallback(&self, state: &mut State<C>) {
        if self.options.strategy == Strategy::Competing && !state.closed && !state.timers.has(Alarm::Fallback) {
            let at = state.fallback_at.max(Instant::now());
            self.set_alarm(state, Alarm::Fallback, Some(at));
        }
    }

    /// The fallback interval has passed. If nobody sleeps, the next who does arms it anew.
    fn fall_back(&self, state: &mut State<C>, now: Instant) {
        if !state.groups.values().any(|entry| entry.group.is_asleep()) {
            return;
        }
        state.fallback_at = now + self.options.fallback_poll_interval;
        self.arm_fallback(state);
        self.feed(state, Event::FallbackDue, now);
        if !state.mode.is_aggressive() {
            self.sweep(state, Reason::Fallback);
        }
    }

    /// Another process rang at `at`: what it writes next it may not live to ring for.
    pub(crate) fn doubted(&self, state: &mut State<C>, at: Instant) {
        state.rung_elsewhere_at = Some(at);
        if !state.timers.has(Alarm::Trailing) && !state.closed {
            self.set_alarm(state, Alarm::Trailing, Some(at + TRAILING));
        }
    }

    /// A second after another process rang: finds what a sender that died has left. While rings keep coming, once a second.
    fn trail(&self, state: &mut State<C>, now: Instant) {
        if let Some(last) = state.rung_elsewhere_at.map(|at| at + TRAILING).filter(|at| *at > now) {
            self.set_alarm(state, Alarm::Trailing, Some(last));
        }
        let everyone: Vec<GroupId> = state.groups.keys().copied().collect();
        for id in everyone {
            if let Some(entry) = state.groups.get_mut(&id) {
                entry.group.doubt(Reason::Trailing, now);
            }
        }
        self.sweep(state, Reason::Trailing);
    }

    /// Asks for all sleeping groups together which have something due, and rings those.
    fn sweep(&self, state: &mut State<C>, reason: Reason) {
        let asleep = state.groups.iter().filter(|(_, entry)| entry.group.is_asleep());
        let groups: Vec<(GroupId, C::Key)> = asleep.map(|(id, entry)| (*id, entry.key.clone())).collect();
        if groups.is_empty() {
            return;
        }
        if state.sweeping != Sweep::Resting {
            // A poll comes again by itself.
            if reason != Reason::Polled {
                state.sweeping = Sweep::Again(reason);
            }
            return;
        }
        if let Some(me) = self.me.upgrade() {
            state.sweeping = Sweep::Sweeping;
            self.runtime.spawn(me.sweep_groups(groups, reason));
        }
    }

    async fn sweep_groups(self: Arc<Self>, groups: Vec<(GroupId, C::Key)>, reason: Reason) {
        let (ids, keys): (Vec<GroupId>, Vec<C::Key>) = groups.into_iter().unzip();
        let sweeping = Sweeping(&self);
        let swept = self.within_time(async {
            let mut session = self.db.session().await?;
            let due = self.claim.sweep(&mut session, &keys).await?;
            session.finish().await?;
            Ok(due)
        });
        let swept = swept.await;
        drop(sweeping);
        let now = Instant::now();
        let mut state = self.state();
        let wake_up: Vec<GroupId> = match swept {
            Ok(due) => {
                self.metrics.sweeps.add(1);
                if due.is_empty() {
                    self.feed(&mut state, Event::LookEmpty, now);
                }
                due.into_iter().filter_map(|index| ids.get(index).copied()).collect()
            }
            Err(error) => {
                tracing::debug!(consumer = &*self.name, %error, "a sweep failed");
                self.feed(&mut state, Event::LookFailed, now);
                return;
            }
        };
        for id in wake_up {
            // Who was rung meanwhile looks anyway. Who looks just now may have begun before the sweep.
            if let Some(entry) = state.groups.get_mut(&id) {
                entry.group.wake_up(reason, now);
                self.settled(&mut state, id);
            }
        }
    }

    /// Tells the mode what happened and follows it.
    pub(crate) fn feed(&self, state: &mut State<C>, event: Event, now: Instant) {
        match state.mode.on(now, event) {
            None => {}
            Some(Change::Entered(event)) => {
                tracing::debug!(consumer = &*self.name, ?event, "polling");
                self.metrics.mode(true);
                self.arm_poll(state);
            }
            Some(Change::Left) => {
                tracing::debug!(consumer = &*self.name, "sleeping until rung again");
                self.metrics.mode(false);
                self.set_alarm(state, Alarm::Poll, None);
            }
        }
    }
}

/// A sweep under way; however it ends, the next may begin.
struct Sweeping<'a, C: Claim>(&'a Inner<C>);

impl<C: Claim> Drop for Sweeping<'_, C> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Sweep::Again(reason) = std::mem::replace(&mut state.sweeping, Sweep::Resting) {
            self.0.sweep(&mut state, reason);
        }
    }
}

impl<C: Claim> WakeTarget for Inner<C> {
    fn wake_up(&self, id: GroupId, reason: Reason) {
        let now = Instant::now();
        let mut state = self.state();
        if let Some(entry) = state.groups.get_mut(&id) {
            entry.group.wake_up(reason, now);
            self.settled(&mut state, id);
        }
    }

    fn due(&self, id: GroupId, at: Instant) {
        let mut state = self.state();
        if let Some(entry) = state.groups.get_mut(&id) {
            entry.group.due(at);
            self.settled(&mut state, id);
        }
    }

    fn doubt(&self) {
        self.doubted(&mut self.state(), Instant::now());
    }

    fn health(&self) -> ConsumerHealth {
        let state = self.state();
        ConsumerHealth {
            name: self.name.clone(),
            polling: state.mode.is_aggressive(),
            waiters: state.waiters,
            groups: state.groups.len(),
        }
    }

    fn hearing(&self, hearing: ListenerEpoch, event: Event) {
        let now = Instant::now();
        let mut state = self.state();
        state.hearing = hearing;
        self.feed(&mut state, event, now);
        if hearing.is_none() {
            return;
        }
        self.arm_poll(&mut state);
        // Rings that were not heard, and perhaps would have been the last of their sender.
        self.doubted(&mut state, now);
        let everyone: Vec<GroupId> = state.groups.keys().copied().collect();
        for id in everyone {
            if let Some(entry) = state.groups.get_mut(&id) {
                entry.group.wake_up(Reason::Resync, now);
                self.settled(&mut state, id);
            }
        }
    }
}
