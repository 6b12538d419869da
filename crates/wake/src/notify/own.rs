//! Recognising this process's own notifications.
//!
//! Waiters of this process are woken directly when a write returns; the notification of the same write arrives shortly
//! afterwards and would make them poll again for nothing. The format of payloads is public, so they cannot be marked;
//! an own notification is recognised by the backend that sent it. The danger is to ignore a foreign one: the
//! application may use the same pooled connection for transactions of its own, which wake no waiter here directly. So
//! exactly as many notifications of a backend are ignored as a write *that woke its waiters here* has sent, and nothing
//! is expected any more when the listener's connection ends.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

/// A notification that has not arrived by then is no longer expected; if it arrives after all, it costs a poll.
const EXPECTED_FOR: Duration = Duration::from_secs(5);
/// Pairs of backend and channel remembered; beyond it all are forgotten, which costs some polls.
const PAIRS_MAX: usize = 4_096;

/// Unexpected notifications remembered per pair; a write sends far fewer.
const EARLY_MAX: usize = 64;

/// The notifications this process has sent and not yet received.
#[derive(Debug, Default)]
pub(crate) struct OwnNotifications {
    /// The backend of this process's notifier, which sends nothing else.
    notifier: Option<u32>,
    pairs: HashMap<(u32, Box<str>), Pair>,
    /// When all pairs were last forgotten: notifications of writes sent before may have been received already.
    forgotten_at: Option<Instant>,
}

#[derive(Debug)]
struct Pair {
    /// Sent by writes that have woken their waiters here, and not received yet.
    expected: u32,
    /// Received although none was expected: perhaps of a write that is about to return, see
    /// [`held`](crate::notify::held).
    early: Vec<Instant>,
    touched: Instant,
}

impl Pair {
    fn new(now: Instant) -> Pair {
        Pair { expected: 0, early: Vec::new(), touched: now }
    }
}

impl OwnNotifications {
    /// Sets the backend of this process's notifier, whose wake-ups have all been dispatched here before.
    pub(crate) fn set_notifier(&mut self, backend: Option<u32>) {
        self.notifier = backend;
    }

    /// Whether the notifier's backend is known.
    pub(crate) fn knows_notifier(&self) -> bool {
        self.notifier.is_some()
    }

    /// The listener has a new connection, on which earlier notifications do not arrive; and if the server was
    /// restarted, backends have new numbers.
    pub(crate) fn clear(&mut self, now: Instant) {
        self.pairs.clear();
        self.notifier = None;
        self.forgotten_at = Some(now);
    }

    /// A write sent at `since` by `backend` has committed one notification for each of `channels`, and its waiters here
    /// have been woken.
    pub(crate) fn sent(&mut self, now: Instant, since: Instant, backend: u32, channels: &[String]) {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for channel in channels {
            *counts.entry(channel).or_default() += 1;
        }
        for (channel, count) in counts {
            self.expect(now, since, backend, channel, count);
        }
    }

    fn expect(&mut self, now: Instant, since: Instant, backend: u32, channel: &str, count: u32) {
        let complete = self.forgotten_at.is_none_or(|at| at < since);
        let pair = self.pair(now, backend, channel);
        if !complete || pair.early.len() >= EARLY_MAX {
            // How many have been received is not known: expect none, which costs some polls.
            *pair = Pair::new(now);
            return;
        }
        pair.early.retain(|at| *at >= since);
        let early = u32::try_from(pair.early.len()).unwrap_or(u32::MAX).min(count);
        pair.early.clear();
        pair.expected += count - early;
    }

    /// Counts a received notification. `true`: it is an own one, whose waiters here have been woken already.
    pub(crate) fn received(&mut self, now: Instant, backend: u32, channel: &str) -> bool {
        if self.notifier == Some(backend) {
            return true;
        }
        let pair = self.pair(now, backend, channel);
        if pair.expected > 0 {
            pair.expected -= 1;
            return true;
        }
        if pair.early.len() < EARLY_MAX {
            pair.early.push(now);
        }
        false
    }

    fn pair(&mut self, now: Instant, backend: u32, channel: &str) -> &mut Pair {
        if self.pairs.len() >= PAIRS_MAX {
            self.pairs.clear();
            self.forgotten_at = Some(now);
        }
        let pair = self.pairs.entry((backend, channel.into())).or_insert_with(|| Pair::new(now));
        if now.saturating_duration_since(pair.touched) > EXPECTED_FOR {
            *pair = Pair::new(now);
        }
        pair.touched = now;
        pair
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 7;

    /// This many notifications on one channel.
    fn c(count: usize) -> Vec<String> {
        vec!["c".to_owned(); count]
    }

    /// The usual order: the write returns and wakes its waiters, then its notification arrives and is ignored; a second
    /// one of the same backend (the application's transaction on the same pooled connection) is not.
    #[test]
    fn an_own_notification_is_ignored_once() {
        let now = Instant::now();
        let mut own = OwnNotifications::default();
        own.sent(now, now, OWN, &c(1));
        assert!(own.received(now, OWN, "c"));
        assert!(!own.received(now, OWN, "c"));
    }

    /// The other order: the notification arrives before the write returns. It is not expected again when the write
    /// returns, so a later notification of the application still wakes waiters.
    #[test]
    fn an_early_notification_is_not_expected_again() {
        let sent = Instant::now();
        let later = sent + Duration::from_millis(1);
        let mut own = OwnNotifications::default();
        assert!(!own.received(later, OWN, "c"));
        own.sent(later, sent, OWN, &c(1));
        assert!(!own.received(later, OWN, "c"), "this one is foreign");
    }

    /// The same with several notifications of one write, some of which arrive before it returns: only the remaining
    /// ones are expected.
    #[test]
    fn several_notifications_of_one_write_are_counted_together() {
        let sent = Instant::now();
        let later = sent + Duration::from_millis(1);
        let mut own = OwnNotifications::default();
        assert!(!own.received(later, OWN, "c"));
        assert!(!own.received(later, OWN, "c"));
        own.sent(later, sent, OWN, &c(3));
        assert!(own.received(later, OWN, "c"));
        assert!(!own.received(later, OWN, "c"), "this one is foreign");
    }

    /// A notification received before the write was sent cannot be its own.
    #[test]
    fn a_notification_before_the_write_is_foreign() {
        let before = Instant::now();
        let sent = before + Duration::from_millis(1);
        let mut own = OwnNotifications::default();
        assert!(!own.received(before, OWN, "c"));
        own.sent(sent, sent, OWN, &c(1));
        assert!(own.received(sent, OWN, "c"));
    }

    /// Expectations end with the listener's connection and by age, and never concern another channel or backend.
    #[test]
    fn expectations_end_with_the_listener() {
        let now = Instant::now();
        let mut own = OwnNotifications::default();
        own.sent(now, now, OWN, &c(1));
        assert!(!own.received(now, OWN, "d"));
        assert!(!own.received(now, OWN + 1, "c"));
        own.clear(now);
        assert!(!own.received(now, OWN, "c"));
        own.sent(now, now, OWN, &c(1));
        assert!(!own.received(now, OWN, "c"), "sent before all pairs were forgotten");
        let later = now + Duration::from_millis(1);
        own.sent(later, later, OWN, &c(2));
        assert!(!own.received(later + EXPECTED_FOR * 2, OWN, "c"));
    }

    /// If more early notifications arrived than are remembered, none is expected.
    #[test]
    fn uncounted_notifications_are_not_expected() {
        let now = Instant::now();
        let mut own = OwnNotifications::default();
        for _ in 0..EARLY_MAX + 10 {
            assert!(!own.received(now, OWN, "c"));
        }
        own.sent(now, now, OWN, &c(EARLY_MAX + 10));
        assert!(!own.received(now, OWN, "c"));
    }

    /// The waiters of everything that the notifier sends have been woken before.
    #[test]
    fn notifications_of_the_notifier_are_always_own() {
        let mut own = OwnNotifications::default();
        own.set_notifier(Some(9));
        assert!(own.received(Instant::now(), 9, "c"));
        own.set_notifier(None);
        assert!(!own.received(Instant::now(), 9, "c"));
    }
}
