//! One group of equal waiters, as a pure state machine: arm, look, sleep.
//!
//! All waiters of a group are served by one look at a time. The danger is the gap: something rings after the look read the
//! database and before its waiters sleep. So a ring is never delivered to a look in the air; it is *remembered* from the
//! moment a look begins ([`Group::begin`]), and [`Group::end`] puts nobody to sleep while one is remembered. Everything here
//! takes the time as an argument and touches nothing outside, so every interleaving can be tested without a database.
//!
//! A group that looked and found nothing *knows* it is empty: until the next due time the look answered, until a ring, and
//! only while the listener hears on the same connection as when the look began. Who joins meanwhile sleeps at once, if it
//! sees nothing that the look could not: what only some waiters may have (the items of a session, say) is known to be
//! absent only for those the look was made for.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::wait::reason::Reason;
use crate::wait::timer::earliest;

/// The first pause before a look that skipped a locked row is repeated: a lock held by a claim under way is gone in a moment.
const SKIPPED_FIRST: Duration = Duration::from_millis(10);
/// The longest pause before a look that skipped or failed is repeated: nothing waits longer for a lock to go or a server to
/// come back, and neither is worth more than a look a second.
const AGAIN_LONGEST: Duration = Duration::from_secs(1);
/// How long a group keeps what it knows after its last waiter left: consumers come back within a poll of their own.
pub(crate) const KEEP: Duration = Duration::from_secs(60);
/// Waiters served by one look: arrays of this size are still cheap to plan and to send.
const WAITERS_PER_POLL: usize = 1_000;
/// Kinds of sight remembered per group; beyond it newcomers look for themselves.
const VISIBILITY_KEYS_MAX: usize = 4_096;
/// A next due time is relative to the moment the look read the database: halfway, but not later than this after it began. If
/// that is too early, a look too many finds out.
const ANSWER_TRIP: Duration = Duration::from_millis(2);

/// A waiter's place in a group. Ids grow, so their order is the order of waiting.
pub(crate) type WaiterId = u64;

/// A connection of the listener: knowledge gathered under one does not hold under another.
pub(crate) type ListenerEpoch = Option<u64>;

/// What a waiter may have beyond what every waiter of its group may.
pub(crate) type VisibilityKey = Option<Box<str>>;

/// How a group behaves; the same for all groups of a consumer.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The longest sleep, if there is a cap.
    pub(crate) cap: Option<Duration>,
    /// How much before a due time to wake.
    pub(crate) grace: Duration,
    /// How long after a look without a listener's cover a newcomer still relies on it, and the pause after a failed look.
    pub(crate) poll_interval: Duration,
}

#[derive(Debug)]
pub(crate) struct Waiter<W> {
    pub(crate) waiter: W,
    pub(crate) want: usize,
    pub(crate) since: Instant,
    visibility_key: VisibilityKey,
    /// Whether it stays after a look that had nothing for it.
    pub(crate) waits: bool,
    /// It has neither taken part in a look nor been put to sleep on what another found.
    fresh: bool,
}

#[derive(Debug)]
enum Known {
    Nothing,
    Empty(Empty),
}

#[derive(Debug)]
struct Empty {
    until: Option<Instant>,
    hearing: ListenerEpoch,
    as_of: Instant,
    /// The sights it is known for, beside what everyone sees.
    visibility_keys: HashSet<Box<str>>,
}

#[derive(Debug)]
struct PollInProgress {
    waiters: Vec<WaiterId>,
    began: Instant,
    hearing: ListenerEpoch,
    /// It was made for newcomers only: what was known before still holds for the others.
    adds: bool,
    /// The sights of those it was made for.
    visibility_keys: Vec<Box<str>>,
}

/// A waiter that takes a seat.
pub(crate) struct NewWaiter<W> {
    pub(crate) waiter: W,
    pub(crate) want: usize,
    pub(crate) visibility_key: VisibilityKey,
    pub(crate) waits: bool,
}

/// What a look had to say.
pub(crate) enum Answer {
    /// It ran. `found`: something. `skipped`: somebody went short although something is due, which is locked. `next_due` is when
    /// the claim's filter finds something next, zero if that is due already; `due_again` when the first of what it took is
    /// due again if nobody ends it.
    Ran { found: bool, skipped: bool, next_due: Option<Duration>, due_again: Option<Duration> },
    /// It was refused, at least in part; whoever it was refused to has left. It says nothing about what there is.
    Refused,
    /// It failed, and may succeed later.
    Failed(Arc<pg::Error>),
}

/// A seat whose wait is over, without items.
pub(crate) struct Dismissed<W> {
    pub(crate) waiter: W,
    pub(crate) failure: Option<Arc<pg::Error>>,
}

pub(crate) struct Group<W> {
    waiters: BTreeMap<WaiterId, Waiter<W>>,
    in_progress: Option<PollInProgress>,
    known: Known,
    /// A reason to look that no look has begun after, and since when.
    pending: Option<(Reason, Instant)>,
    /// A due time heard of since the last look began.
    due_hint: Option<Instant>,
    retry: Option<(Instant, Reason)>,
    skipped_pause: Duration,
    failed_pause: Duration,
    polled_at: Option<Instant>,
    failure: Option<Arc<pg::Error>>,
    vacant_since: Instant,
}

/// A look to be made now.
pub(crate) struct Begun {
    pub(crate) waiters: Vec<WaiterId>,
    pub(crate) reason: Reason,
    /// When the reason arose.
    pub(crate) since: Instant,
    /// Since when the group had nothing else to do than to look.
    pub(crate) asleep_since: Instant,
}

impl<W> Group<W> {
    pub(crate) fn new(now: Instant) -> Self {
        Group {
            waiters: BTreeMap::new(),
            in_progress: None,
            known: Known::Nothing,
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

    /// Takes a seat. A waiting one sleeps at once where the group knows it is empty.
    pub(crate) fn enroll(
        &mut self,
        id: WaiterId,
        new: NewWaiter<W>,
        now: Instant,
        hearing: ListenerEpoch,
        rules: &Rules,
    ) {
        if self.waiters.is_empty() && self.in_progress.is_none() {
            // What rang while nobody was here is in `known`; its time is not this waiter's latency.
            self.pending = None;
        }
        let failing = self.failure.is_some() && self.retry.is_some();
        let idle = self.in_progress.is_none() && self.pending.is_none();
        let asleep = new.waits && idle && (failing || self.knows_empty(&new.visibility_key, now, hearing, rules));
        if !new.waits || !asleep && self.in_progress.is_none() {
            self.remember(Reason::Arrived, now);
        }
        let NewWaiter { waiter, want, visibility_key, waits } = new;
        self.waiters.insert(id, Waiter { waiter, want, since: now, visibility_key, waits, fresh: !asleep });
    }

    fn knows_empty(&self, visibility_key: &VisibilityKey, now: Instant, hearing: ListenerEpoch, rules: &Rules) -> bool {
        let Known::Empty(empty) = &self.known else { return false };
        let covered = match (empty.hearing, hearing) {
            (Some(then), Some(here)) => then == here,
            _ => now < empty.as_of + rules.poll_interval,
        };
        let seen = visibility_key.as_ref().is_none_or(|visibility_key| empty.visibility_keys.contains(visibility_key));
        covered && seen && self.no_alarm(empty, now)
    }

    fn no_alarm(&self, empty: &Empty, now: Instant) -> bool {
        [empty.until, self.due_hint].into_iter().flatten().all(|at| at > now)
    }

    /// Gives a seat up. The waiter, if the seat was still taken.
    pub(crate) fn leave(&mut self, id: WaiterId, now: Instant) -> Option<W> {
        let waiter = self.waiters.remove(&id)?;
        if self.waiters.is_empty() {
            self.vacant_since = now;
        }
        Some(waiter.waiter)
    }

    /// The seat's deadline has come. A sleeping seat is dismissed; one with a look in the air or still owed one stays for
    /// its answer and no longer.
    pub(crate) fn expire(&mut self, id: WaiterId, now: Instant) -> Option<Dismissed<W>> {
        let busy = self.in_progress.as_ref().is_some_and(|poll| poll.waiters.contains(&id));
        let waiter = self.waiters.get_mut(&id)?;
        if busy || waiter.fresh {
            waiter.waits = false;
            if self.in_progress.is_none() {
                self.remember(Reason::Arrived, now);
            }
            return None;
        }
        let failure = self.failure.clone();
        self.leave(id, now).map(|waiter| Dismissed { waiter, failure })
    }

    /// Somebody says there may be work.
    pub(crate) fn wake_up(&mut self, reason: Reason, now: Instant) {
        self.known = Known::Nothing;
        if !self.is_vacant() {
            self.remember(reason, now);
        }
    }

    /// Something may have been made visible without a ring. Who sleeps is asked for together with others
    /// ([`is_asleep`](Self::is_asleep)); a look in the air is repeated, and what is known without waiters is forgotten.
    pub(crate) fn doubt(&mut self, reason: Reason, now: Instant) {
        if self.waiters.is_empty() || self.in_progress.is_some() {
            self.wake_up(reason, now);
        }
    }

    /// Somebody says there will be work at `at`.
    pub(crate) fn due(&mut self, at: Instant) {
        self.due_hint = Some(self.due_hint.map_or(at, |hint| hint.min(at)));
    }

    fn remember(&mut self, reason: Reason, now: Instant) {
        match &mut self.pending {
            // A resync takes its turn among many; a ring does not wait for that.
            Some(pending) if pending.0 == Reason::Resync => *pending = (reason, now),
            Some(_) => {}
            None => self.pending = Some((reason, now)),
        }
    }

    /// Whether a look should begin.
    pub(crate) fn is_eager(&self) -> bool {
        self.pending.is_some() && self.in_progress.is_none() && !self.waiters.is_empty()
    }

    /// Arms: from here on every ring is remembered for after this look. `None` if there is no reason to look.
    pub(crate) fn begin(&mut self, now: Instant, hearing: ListenerEpoch) -> Option<Begun> {
        if !self.is_eager() {
            return None;
        }
        let (reason, since) = self.pending.take()?;
        let adds = match &self.known {
            Known::Empty(empty) => reason == Reason::Arrived && empty.hearing == hearing && self.no_alarm(empty, now),
            Known::Nothing => false,
        };
        let hint = self.due_hint.take();
        if let Known::Empty(empty) = &mut self.known {
            // It may be for somebody this look is not made for, who still relies on what was known.
            empty.until = earliest([empty.until, hint]);
        }
        self.retry = None;
        let waiters = self.aboard(adds || reason == Reason::More);
        let mut visibility_keys = Vec::new();
        for id in &waiters {
            if let Some(waiter) = self.waiters.get_mut(id) {
                waiter.fresh = false;
                visibility_keys.extend(waiter.visibility_key.clone());
            }
        }
        self.in_progress =
            Some(PollInProgress { waiters: waiters.clone(), began: now, hearing, adds, visibility_keys });
        let asleep_since = self.polled_at.map_or(since, |polled| polled.max(since));
        Some(Begun { waiters, reason, since, asleep_since })
    }

    /// Whom the next look is for: everyone, or, where that is too many, those who are owed a look, in order of waiting.
    /// `continues`: the others had theirs, and what it found still holds.
    fn aboard(&mut self, continues: bool) -> Vec<WaiterId> {
        if self.waiters.len() <= WAITERS_PER_POLL {
            return self.waiters.keys().copied().collect();
        }
        if !continues {
            self.waiters.values_mut().for_each(|waiter| waiter.fresh = true);
        }
        let (owed, others): (Vec<_>, Vec<_>) = self.waiters.iter().partition(|(_, waiter)| waiter.fresh);
        let mut waiters: Vec<WaiterId> =
            owed.into_iter().chain(others).map(|(id, _)| *id).take(WAITERS_PER_POLL).collect();
        waiters.sort_unstable();
        waiters
    }

    /// A look has landed; those it served have been taken out by [`leave`](Self::leave) before. Answers who is dismissed
    /// without items. Whether to look again at once is [`is_eager`](Self::is_eager), when to wake otherwise
    /// [`wake_at`](Self::wake_at).
    pub(crate) fn end(&mut self, answer: Answer, now: Instant, rules: &Rules) -> Vec<Dismissed<W>> {
        let Some(poll) = self.in_progress.take() else { return Vec::new() };
        self.polled_at = Some(now);
        match answer {
            Answer::Ran { found, skipped, next_due, due_again } => {
                self.failure = None;
                self.failed_pause = Duration::ZERO;
                if found || !skipped {
                    self.skipped_pause = SKIPPED_FIRST;
                }
                if skipped {
                    self.retry = Some((now + self.skipped_pause, Reason::Skipped));
                    self.skipped_pause = (self.skipped_pause * 2).min(AGAIN_LONGEST);
                }
                let more = next_due == Some(Duration::ZERO);
                let rung = self.pending.is_some();
                self.known = match std::mem::replace(&mut self.known, Known::Nothing) {
                    _ if more || rung => Known::Nothing,
                    before => {
                        let read_at = poll.began + (now.saturating_duration_since(poll.began) / 2).min(ANSWER_TRIP);
                        let until = earliest([next_due, due_again]).map(|due| read_at + due);
                        Known::Empty(self.learnt(before, &poll, until, now))
                    }
                };
            }
            Answer::Refused => {
                self.failure = None;
                self.known = Known::Nothing;
            }
            Answer::Failed(error) => {
                self.failure = Some(error);
                self.known = Known::Nothing;
                self.failed_pause =
                    (self.failed_pause * 2).clamp(rules.poll_interval, AGAIN_LONGEST.max(rules.poll_interval));
                self.retry = Some((now + self.failed_pause, Reason::Retry));
            }
        }
        let dismissed = self.dismiss(&poll.waiters, now);
        self.settle_newcomers(now);
        dismissed
    }

    /// Who came while the look was in the air relies on what it learnt, if it learnt enough, and is owed a look otherwise.
    fn settle_newcomers(&mut self, now: Instant) {
        let mut owed = None;
        match &self.known {
            Known::Empty(empty) => {
                for waiter in self.waiters.values_mut().filter(|waiter| waiter.fresh) {
                    let covered = waiter
                        .visibility_key
                        .as_ref()
                        .is_none_or(|visibility_key| empty.visibility_keys.contains(visibility_key));
                    if waiter.waits && covered {
                        waiter.fresh = false;
                    } else {
                        owed = Some(Reason::Arrived);
                    }
                }
            }
            Known::Nothing if self.retry.is_none() => owed = Some(Reason::More),
            Known::Nothing if self.waiters.values().any(|waiter| waiter.fresh && !waiter.waits) => {
                owed = Some(Reason::Arrived)
            }
            Known::Nothing => {}
        }
        if let Some(reason) = owed.filter(|_| !self.waiters.is_empty()) {
            self.remember(reason, now);
        }
    }

    /// What a look that found nothing more adds to what was known before it; if it was for everybody that was known for, it takes its place.
    fn learnt(&self, before: Known, poll: &PollInProgress, until: Option<Instant>, now: Instant) -> Empty {
        let mut empty = match before {
            Known::Empty(mut before)
                if poll.adds
                    && !before
                        .visibility_keys
                        .iter()
                        .all(|visibility_key| poll.visibility_keys.contains(visibility_key)) =>
            {
                if before.visibility_keys.len() >= VISIBILITY_KEYS_MAX {
                    before.visibility_keys.clear();
                }
                Empty { until: earliest([before.until, until]), ..before }
            }
            _ => Empty { until, hearing: poll.hearing, as_of: now, visibility_keys: HashSet::new() },
        };
        empty.visibility_keys.extend(poll.visibility_keys.iter().cloned());
        empty
    }

    fn dismiss(&mut self, polled: &[WaiterId], now: Instant) -> Vec<Dismissed<W>> {
        let done: Vec<WaiterId> =
            polled.iter().copied().filter(|id| self.waiters.get(id).is_some_and(|waiter| !waiter.waits)).collect();
        let failure = self.failure.clone();
        done.into_iter()
            .filter_map(|id| self.leave(id, now))
            .map(|waiter| Dismissed { waiter, failure: failure.clone() })
            .collect()
    }

    /// When the group must be woken although nothing rings; `None` if never, as while a look is in the air. For a group
    /// without waiters that is when it may be forgotten.
    pub(crate) fn wake_at(&self, rules: &Rules) -> Option<Instant> {
        if self.in_progress.is_some() || self.pending.is_some() && !self.waiters.is_empty() {
            return None;
        }
        if self.waiters.is_empty() {
            return Some(self.vacant_since + KEEP);
        }
        let known_due = match &self.known {
            Known::Empty(empty) => empty.until,
            Known::Nothing => None,
        };
        let due = earliest([known_due, self.due_hint]).map(|due| self.before(due, rules.grace));
        let capped = rules.cap.zip(self.polled_at).map(|(cap, polled)| polled + cap);
        earliest([due, self.retry.map(|(at, _)| at), capped])
    }

    /// A due time less the grace, unless the group has looked within the grace already.
    fn before(&self, due: Instant, grace: Duration) -> Instant {
        let early = due.checked_sub(grace).unwrap_or(due);
        if self.polled_at.is_some_and(|polled| polled >= early) { due } else { early }
    }

    /// The time [`wake_at`](Self::wake_at) named has come. `true` if the group is vacant and may be forgotten.
    pub(crate) fn wake(&mut self, now: Instant) -> bool {
        if self.waiters.is_empty() {
            return self.in_progress.is_none() && now >= self.vacant_since + KEEP;
        }
        let reason = match self.retry {
            Some((at, reason)) if at <= now => reason,
            _ => Reason::Timer,
        };
        self.remember(reason, now);
        false
    }

    pub(crate) fn is_vacant(&self) -> bool {
        self.waiters.is_empty() && self.in_progress.is_none()
    }

    pub(crate) fn vacant_since(&self) -> Instant {
        self.vacant_since
    }

    pub(crate) fn is_pending(&self, reason: Reason) -> bool {
        self.pending.is_some_and(|(pending, _)| pending == reason)
    }

    /// Whether its last look failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether anybody sleeps here, with no look in the air and none remembered.
    pub(crate) fn is_asleep(&self) -> bool {
        !self.waiters.is_empty() && self.in_progress.is_none() && self.pending.is_none()
    }

    pub(crate) fn waiter(&self, id: WaiterId) -> Option<&Waiter<W>> {
        self.waiters.get(&id)
    }

    /// Takes the first waiter, in order of waiting, that `fits`, has no look in the air for it, and so would sleep on.
    pub(crate) fn take_idle(&mut self, now: Instant, fits: impl Fn(&W) -> bool) -> Option<W> {
        let flying = self.in_progress.as_ref().map(|poll| poll.waiters.as_slice()).unwrap_or_default();
        let idle = |id: &WaiterId| flying.binary_search(id).is_err();
        let id = self.waiters.iter().find(|(id, waiter)| fits(&waiter.waiter) && idle(id)).map(|(id, _)| *id)?;
        self.leave(id, now)
    }

    /// Everybody leaves.
    pub(crate) fn drain(&mut self, now: Instant) -> Vec<W> {
        self.vacant_since = now;
        std::mem::take(&mut self.waiters).into_values().map(|waiter| waiter.waiter).collect()
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
