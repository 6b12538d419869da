//! One group of equal waiters, as a pure state machine: begin a poll, end it, sleep.
//!
//! All waiters of a group are served by one poll at a time. The danger is the gap: a wake-up that arrives after the
//! poll read the database and before its waiters sleep. So a wake-up during a poll is *remembered* from the time the
//! poll begins ([`Group::begin_poll`]), and [`Group::end_poll`] lets no waiter sleep while one is remembered.
//! Everything here takes the time as an argument and has no other effects, so every interleaving can be tested without
//! a database.
//!
//! A group whose poll found nothing *is known to be empty*: until the next due time that the poll returned, until a
//! wake-up, and only while the listener has the same connection as when the poll began. A waiter that joins meanwhile
//! sleeps without a poll, unless it can see more than the poll could: items that only some waiters can see (those of a
//! session, say) are known to be absent only for the visibility keys that the poll was made with.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::wait::reason::Reason;
use crate::wait::timer::earliest;

/// The first pause before a poll that skipped a locked row is repeated: another claim usually releases its lock soon.
const SKIPPED_FIRST: Duration = Duration::from_millis(10);
/// The longest pause before a poll that skipped or failed is repeated: a poll a second is cheap, and a longer pause
/// would delay work after a lock is released or a server is back.
const RETRY_LONGEST: Duration = Duration::from_secs(1);
/// How long a group is remembered after its last waiter left: consumers usually come back within their own poll
/// interval.
pub(crate) const KEEP: Duration = Duration::from_secs(60);
/// Waiters served by one poll: arrays of this size are still cheap to plan and to send.
const WAITERS_PER_POLL: usize = 1_000;
/// Waiters served by one attached poll: its arguments make the statement of a write longer.
const ATTACHED_WAITERS: usize = 64;
/// Visibility keys remembered per group; beyond it new waiters poll for themselves.
const VISIBILITY_KEYS_MAX: usize = 4_096;
/// A next due time is relative to the time at which the poll read the database: halfway, but not later than this after
/// it began. If that is too early, one more poll finds out.
const ANSWER_TRIP: Duration = Duration::from_millis(2);

/// The id of a waiter. Ids grow, so their order is the order of waiting.
pub(crate) type WaiterId = u64;

/// The number of the listener's connection, `None` while disconnected. What was learnt during one epoch does not hold
/// in another.
pub(crate) type ListenerEpoch = Option<u64>;

/// Names the items that a waiter can see beyond those that every waiter of its group can.
pub(crate) type VisibilityKey = Option<Box<str>>;

/// Settings that all groups of a consumer share.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The longest sleep, if it is limited.
    pub(crate) max_sleep: Option<Duration>,
    /// How long before a due time to wake.
    pub(crate) grace: Duration,
    /// How long after a poll without a connected listener a new waiter relies on its result, and the first pause after
    /// a failed poll.
    pub(crate) poll_interval: Duration,
}

#[derive(Debug)]
pub(crate) struct GroupWaiter<W> {
    pub(crate) request: W,
    pub(crate) want: usize,
    pub(crate) since: Instant,
    visibility_key: VisibilityKey,
    /// Whether it stays after a poll that had nothing for it.
    pub(crate) waits: bool,
    /// It took part in no poll yet, and no other poll's result covers it.
    needs_poll: bool,
}

/// The last poll left nothing due.
#[derive(Debug)]
struct KnownEmpty {
    until: Option<Instant>,
    epoch: ListenerEpoch,
    as_of: Instant,
    /// The visibility keys it is known for, besides the items that every waiter can see.
    visibility_keys: HashSet<Box<str>>,
}

impl KnownEmpty {
    fn covers(&self, visibility_key: &VisibilityKey) -> bool {
        visibility_key.as_ref().is_none_or(|key| self.visibility_keys.contains(key))
    }
}

#[derive(Debug)]
struct CurrentPoll {
    waiters: Vec<WaiterId>,
    began: Instant,
    epoch: ListenerEpoch,
    /// It is made for new waiters only: what was known before still holds for the others.
    adds: bool,
    /// The visibility keys of its waiters.
    visibility_keys: Vec<Box<str>>,
}

/// A waiter that joins a group.
pub(crate) struct NewWaiter<W> {
    pub(crate) request: W,
    pub(crate) want: usize,
    pub(crate) visibility_key: VisibilityKey,
    pub(crate) waits: bool,
}

/// How a poll ended.
pub(crate) enum PollEnd {
    /// It succeeded.
    Completed {
        /// Whether it claimed anything.
        found: bool,
        /// Whether a waiter got less than it wanted although a row is due, because that row is locked.
        skipped: bool,
        /// When the claim's filter finds something next; zero if a row is due already.
        next_due: Option<Duration>,
        /// When the first lease of what it claimed ends.
        due_again: Option<Duration>,
    },
    /// The database refused it for some waiters, which have left the group. It says nothing about what is due.
    Refused,
    /// It failed, and may succeed later.
    Failed(Arc<reveille_pg::Error>),
}

/// A waiter whose wait ended without items.
pub(crate) struct Dismissed<W> {
    pub(crate) request: W,
    pub(crate) failure: Option<Arc<reveille_pg::Error>>,
}

pub(crate) struct Group<W> {
    waiters: BTreeMap<WaiterId, GroupWaiter<W>>,
    /// How many of them have a visibility key.
    with_keys: usize,
    current: Option<CurrentPoll>,
    known_empty: Option<KnownEmpty>,
    /// A reason to poll since which no poll has begun, and when it arose.
    pending: Option<(Reason, Instant)>,
    /// The earliest due time announced since the last poll began.
    due_hint: Option<Instant>,
    retry: Option<(Instant, Reason)>,
    skipped_pause: Duration,
    failed_pause: Duration,
    polled_at: Option<Instant>,
    failure: Option<Arc<reveille_pg::Error>>,
    vacant_since: Instant,
}

/// A poll to be made now.
pub(crate) struct BegunPoll {
    pub(crate) waiters: Vec<WaiterId>,
    pub(crate) reason: Reason,
    /// When the reason arose.
    pub(crate) since: Instant,
    /// Since when the group was ready to poll for that reason: not during the poll before.
    pub(crate) ready_since: Instant,
}

impl<W> Group<W> {
    pub(crate) fn new(now: Instant) -> Self {
        Group {
            waiters: BTreeMap::new(),
            with_keys: 0,
            current: None,
            known_empty: None,
            pending: None,
            due_hint: None,
            retry: None,
            skipped_pause: SKIPPED_FIRST,
            failed_pause: Duration::ZERO,
            polled_at: None,
            failure: None,
            vacant_since: now,
        }
    }

    /// Adds a waiter. One that waits sleeps without a poll if the group is known to be empty.
    pub(crate) fn add_waiter(
        &mut self,
        id: WaiterId,
        new: NewWaiter<W>,
        now: Instant,
        epoch: ListenerEpoch,
        rules: &Rules,
    ) {
        if self.waiters.is_empty() && self.current.is_none() {
            // A wake-up of a vacant group has cleared `known_empty`; its age is not this waiter's latency.
            self.pending = None;
        }
        let failing = self.failure.is_some() && self.retry.is_some();
        let idle = self.current.is_none() && self.pending.is_none();
        let asleep = new.waits && idle && (failing || self.is_known_empty(&new.visibility_key, now, epoch, rules));
        if !new.waits || !asleep && self.current.is_none() {
            self.request_poll(Reason::Arrived, now);
        }
        let NewWaiter { request, want, visibility_key, waits } = new;
        self.with_keys += usize::from(visibility_key.is_some());
        let waiter = GroupWaiter { request, want, since: now, visibility_key, waits, needs_poll: !asleep };
        self.waiters.insert(id, waiter);
    }

    fn is_known_empty(
        &self,
        visibility_key: &VisibilityKey,
        now: Instant,
        epoch: ListenerEpoch,
        rules: &Rules,
    ) -> bool {
        let Some(known) = &self.known_empty else { return false };
        let current = match (known.epoch, epoch) {
            (Some(then), Some(here)) => then == here,
            _ => now < known.as_of + rules.poll_interval,
        };
        current && known.covers(visibility_key) && self.nothing_due(known, now)
    }

    fn nothing_due(&self, known: &KnownEmpty, now: Instant) -> bool {
        [known.until, self.due_hint].into_iter().flatten().all(|at| at > now)
    }

    /// Removes a waiter and returns its request, if it was still there.
    pub(crate) fn remove_waiter(&mut self, id: WaiterId, now: Instant) -> Option<W> {
        let waiter = self.waiters.remove(&id)?;
        self.with_keys -= usize::from(waiter.visibility_key.is_some());
        if self.waiters.is_empty() {
            self.vacant_since = now;
        }
        Some(waiter.request)
    }

    /// A waiter's deadline has passed. A sleeping waiter is dismissed; one that takes part in the current poll, or
    /// still needs one, stays for the result of that poll and no longer.
    pub(crate) fn expire(&mut self, id: WaiterId, now: Instant) -> Option<Dismissed<W>> {
        let in_poll = self.current.as_ref().is_some_and(|poll| poll.waiters.contains(&id));
        let waiter = self.waiters.get_mut(&id)?;
        if in_poll || waiter.needs_poll {
            waiter.waits = false;
            if self.current.is_none() {
                self.request_poll(Reason::Arrived, now);
            }
            return None;
        }
        let failure = self.failure.clone();
        self.remove_waiter(id, now).map(|request| Dismissed { request, failure })
    }

    /// There may be work now.
    pub(crate) fn wake_up(&mut self, reason: Reason, now: Instant) {
        self.known_empty = None;
        if !self.is_vacant() {
            self.request_poll(reason, now);
        }
    }

    /// Work may have become visible without a wake-up. A sleeping group is left to the sweep over all sleeping groups
    /// ([`is_asleep`](Self::is_asleep)); a current poll is repeated, and a group without waiters is no longer known to
    /// be empty.
    pub(crate) fn recheck(&mut self, reason: Reason, now: Instant) {
        if self.waiters.is_empty() || self.current.is_some() {
            self.wake_up(reason, now);
        }
    }

    /// There will be work at `at`.
    pub(crate) fn due_at(&mut self, at: Instant) {
        self.due_hint = Some(self.due_hint.map_or(at, |hint| hint.min(at)));
    }

    fn request_poll(&mut self, reason: Reason, now: Instant) {
        match &mut self.pending {
            // A resync waits for its turn among many groups; a wake-up must not.
            Some(pending) if pending.0 == Reason::Resync => *pending = (reason, now),
            Some(_) => {}
            None => self.pending = Some((reason, now)),
        }
    }

    /// Whether a poll should begin.
    pub(crate) fn wants_poll(&self) -> bool {
        self.pending.is_some() && self.current.is_none() && !self.waiters.is_empty()
    }

    /// Begins a poll: from here on every wake-up is remembered until after it. `None` if there is no reason to poll.
    pub(crate) fn begin_poll(&mut self, now: Instant, epoch: ListenerEpoch) -> Option<BegunPoll> {
        self.begin_poll_for(WAITERS_PER_POLL, now, epoch)
    }

    /// The same for at most so many waiters.
    fn begin_poll_for(&mut self, waiters_max: usize, now: Instant, epoch: ListenerEpoch) -> Option<BegunPoll> {
        if !self.wants_poll() {
            return None;
        }
        let (reason, since) = self.pending.take()?;
        let adds = self
            .known_empty
            .as_ref()
            .is_some_and(|known| reason == Reason::Arrived && known.epoch == epoch && self.nothing_due(known, now));
        let hint = self.due_hint.take();
        if let Some(known) = &mut self.known_empty {
            // The hint may concern waiters that this poll is not made for, and that still rely on what was known.
            known.until = earliest([known.until, hint]);
        }
        self.retry = None;
        let continues = adds || matches!(reason, Reason::More | Reason::Attached);
        let waiters = self.waiters_of_next_poll(continues, waiters_max);
        let mut visibility_keys = Vec::new();
        for id in &waiters {
            if let Some(waiter) = self.waiters.get_mut(id) {
                waiter.needs_poll = false;
                visibility_keys.extend(waiter.visibility_key.clone());
            }
        }
        self.current = Some(CurrentPoll { waiters: waiters.clone(), began: now, epoch, adds, visibility_keys });
        let ready_since = self.polled_at.map_or(since, |polled| polled.max(since));
        Some(BegunPoll { waiters, reason, since, ready_since })
    }

    /// Begins a poll that a write batch makes in its own statement. `None` unless the group is asleep: otherwise its
    /// next poll is made anyway.
    ///
    /// It is made for the first waiters. Its result says what is due for the others as well, unless some of them can see
    /// more.
    pub(crate) fn begin_attached_poll(&mut self, now: Instant, epoch: ListenerEpoch) -> Option<BegunPoll> {
        let says_all = self.with_keys == 0 || self.waiters.len() <= ATTACHED_WAITERS;
        if !self.is_asleep() || self.is_failing() || !says_all {
            return None;
        }
        self.request_poll(Reason::Attached, now);
        self.begin_poll_for(ATTACHED_WAITERS, now, epoch)
    }

    /// The waiters of the next poll: all, or, if they are too many, first those that need a poll, in order of waiting.
    /// `continues`: the others took part in an earlier poll whose result still holds.
    fn waiters_of_next_poll(&mut self, continues: bool, waiters_max: usize) -> Vec<WaiterId> {
        if self.waiters.len() <= waiters_max {
            return self.waiters.keys().copied().collect();
        }
        if !continues {
            self.waiters.values_mut().for_each(|waiter| waiter.needs_poll = true);
        }
        let (needing, others): (Vec<_>, Vec<_>) = self.waiters.iter().partition(|(_, waiter)| waiter.needs_poll);
        let mut waiters: Vec<WaiterId> =
            needing.into_iter().chain(others).map(|(id, _)| *id).take(waiters_max).collect();
        waiters.sort_unstable();
        waiters
    }

    /// Ends the current poll; the waiters it served have been removed with [`remove_waiter`](Self::remove_waiter)
    /// before. Returns the waiters that are dismissed without items. Afterwards [`wants_poll`](Self::wants_poll) says
    /// whether to poll again at once, and [`wake_at`](Self::wake_at) when to wake otherwise.
    pub(crate) fn end_poll(&mut self, end: PollEnd, now: Instant, rules: &Rules) -> Vec<Dismissed<W>> {
        let Some(poll) = self.current.take() else { return Vec::new() };
        self.polled_at = Some(now);
        match end {
            PollEnd::Completed { found, skipped, next_due, due_again } => {
                self.failure = None;
                self.failed_pause = Duration::ZERO;
                if found || !skipped {
                    self.skipped_pause = SKIPPED_FIRST;
                }
                if skipped {
                    self.retry = Some((now + self.skipped_pause, Reason::Skipped));
                    self.skipped_pause = (self.skipped_pause * 2).min(RETRY_LONGEST);
                }
                let more_is_due = next_due == Some(Duration::ZERO);
                let before = self.known_empty.take();
                if !more_is_due && self.pending.is_none() {
                    let read_at = poll.began + (now.saturating_duration_since(poll.began) / 2).min(ANSWER_TRIP);
                    let until = earliest([next_due, due_again]).map(|due| read_at + due);
                    self.known_empty = Some(known_after(before, &poll, until, now));
                }
            }
            PollEnd::Refused => {
                self.failure = None;
                self.known_empty = None;
            }
            PollEnd::Failed(error) => {
                self.failure = Some(error);
                self.known_empty = None;
                self.failed_pause =
                    (self.failed_pause * 2).clamp(rules.poll_interval, RETRY_LONGEST.max(rules.poll_interval));
                self.retry = Some((now + self.failed_pause, Reason::Retry));
            }
        }
        let dismissed = self.dismiss(&poll.waiters, now);
        self.review_waiters(now);
        dismissed
    }

    /// Ends the current poll without a result: it was attached to a write batch of which none is known. Its waiters stay,
    /// and another poll is made for them.
    pub(crate) fn abandon_poll(&mut self, now: Instant) {
        if self.current.take().is_some() {
            self.polled_at = Some(now);
            self.known_empty = None;
            self.request_poll(Reason::Local, now);
        }
    }

    /// Waiters that came during the poll rely on its result if that covers them; otherwise another poll is requested.
    fn review_waiters(&mut self, now: Instant) {
        let mut request = None;
        match &self.known_empty {
            Some(known) => {
                for waiter in self.waiters.values_mut().filter(|waiter| waiter.needs_poll) {
                    if waiter.waits && known.covers(&waiter.visibility_key) {
                        waiter.needs_poll = false;
                    } else {
                        request = Some(Reason::Arrived);
                    }
                }
            }
            None if self.retry.is_none() => request = Some(Reason::More),
            None if self.waiters.values().any(|waiter| waiter.needs_poll && !waiter.waits) => {
                request = Some(Reason::Arrived)
            }
            None => {}
        }
        if let Some(reason) = request.filter(|_| !self.waiters.is_empty()) {
            self.request_poll(reason, now);
        }
    }

    fn dismiss(&mut self, polled: &[WaiterId], now: Instant) -> Vec<Dismissed<W>> {
        let done: Vec<WaiterId> =
            polled.iter().copied().filter(|id| self.waiters.get(id).is_some_and(|waiter| !waiter.waits)).collect();
        let failure = self.failure.clone();
        done.into_iter()
            .filter_map(|id| self.remove_waiter(id, now))
            .map(|request| Dismissed { request, failure: failure.clone() })
            .collect()
    }

    /// When the group must be woken even without a wake-up; `None` if never, as during a poll. For a group without
    /// waiters it is when the group may be forgotten.
    pub(crate) fn wake_at(&self, rules: &Rules) -> Option<Instant> {
        if self.current.is_some() || self.pending.is_some() && !self.waiters.is_empty() {
            return None;
        }
        if self.waiters.is_empty() {
            return Some(self.vacant_since + KEEP);
        }
        let known_due = self.known_empty.as_ref().and_then(|known| known.until);
        let due = earliest([known_due, self.due_hint]).map(|due| self.with_grace(due, rules.grace));
        let limit = rules.max_sleep.zip(self.polled_at).map(|(max_sleep, polled)| polled + max_sleep);
        earliest([due, self.retry.map(|(at, _)| at), limit])
    }

    /// A due time less the grace, unless the group has polled within the grace already.
    fn with_grace(&self, due: Instant, grace: Duration) -> Instant {
        let early = due.checked_sub(grace).unwrap_or(due);
        if self.polled_at.is_some_and(|polled| polled >= early) { due } else { early }
    }

    /// The time returned by [`wake_at`](Self::wake_at) has come. `true` if the group is vacant and may be forgotten.
    pub(crate) fn timer_fired(&mut self, now: Instant) -> bool {
        if self.waiters.is_empty() {
            return self.current.is_none() && now >= self.vacant_since + KEEP;
        }
        let reason = match self.retry {
            Some((at, reason)) if at <= now => reason,
            _ => Reason::Timer,
        };
        self.request_poll(reason, now);
        false
    }

    /// Whether it has neither waiters nor a poll.
    pub(crate) fn is_vacant(&self) -> bool {
        self.waiters.is_empty() && self.current.is_none()
    }

    pub(crate) fn vacant_since(&self) -> Instant {
        self.vacant_since
    }

    pub(crate) fn is_pending(&self, reason: Reason) -> bool {
        self.pending.is_some_and(|(pending, _)| pending == reason)
    }

    /// Whether its last poll failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failure.is_some()
    }

    /// The number of waiters.
    pub(crate) fn waiters(&self) -> usize {
        self.waiters.len()
    }

    /// Since when its first waiter has waited.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.waiters.first_key_value().map(|(_, waiter)| waiter.since)
    }

    /// Whether it has waiters, no poll and no reason to poll.
    pub(crate) fn is_asleep(&self) -> bool {
        !self.waiters.is_empty() && self.current.is_none() && self.pending.is_none()
    }

    pub(crate) fn waiter(&self, id: WaiterId) -> Option<&GroupWaiter<W>> {
        self.waiters.get(&id)
    }

    /// Removes the first waiter, in order of waiting, that `fits` and takes no part in the current poll.
    pub(crate) fn take_idle_waiter(&mut self, now: Instant, fits: impl Fn(&W) -> bool) -> Option<W> {
        let in_poll = self.current.as_ref().map(|poll| poll.waiters.as_slice()).unwrap_or_default();
        let is_idle = |id: &WaiterId| in_poll.binary_search(id).is_err();
        let id = self.waiters.iter().find(|(id, waiter)| fits(&waiter.request) && is_idle(id)).map(|(id, _)| *id)?;
        self.remove_waiter(id, now)
    }

    /// Removes all waiters.
    pub(crate) fn drain(&mut self, now: Instant) -> Vec<W> {
        self.vacant_since = now;
        self.with_keys = 0;
        std::mem::take(&mut self.waiters).into_values().map(|waiter| waiter.request).collect()
    }
}

/// What is known after a poll that left nothing due. A poll for new waiters only adds to what was known before it,
/// unless it covers all of that; then it replaces it.
fn known_after(before: Option<KnownEmpty>, poll: &CurrentPoll, until: Option<Instant>, now: Instant) -> KnownEmpty {
    let keeps =
        |before: &KnownEmpty| poll.adds && !before.visibility_keys.iter().all(|key| poll.visibility_keys.contains(key));
    let mut known = match before {
        Some(mut before) if keeps(&before) => {
            if before.visibility_keys.len() >= VISIBILITY_KEYS_MAX {
                before.visibility_keys.clear();
            }
            KnownEmpty { until: earliest([before.until, until]), ..before }
        }
        _ => KnownEmpty { until, epoch: poll.epoch, as_of: now, visibility_keys: HashSet::new() },
    };
    known.visibility_keys.extend(poll.visibility_keys.iter().cloned());
    known
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "group_interleavings.rs"]
mod interleavings;
