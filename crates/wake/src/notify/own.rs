//! Recognising one's own notifications.
//!
//! Waiters of this process are rung directly when a write returns; the notification of the same write arrives a moment
//! later and would make them look again for nothing. Payloads are not ours to mark, so a notification is recognised by the
//! backend that sent it. The danger is to ignore somebody else's: a pooled connection is also used by the application for
//! transactions of its own, which ring nobody here. So exactly as many notifications of a backend are ignored as a write
//! that *has rung here* announced, and all claims end with the listener's connection, on which they would have come.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

/// An announced notification that has not come by then is no longer expected: the claim is dropped, at the price of a
/// look too many should it come after all.
const EXPECTED_FOR: Duration = Duration::from_secs(5);
/// Pairs of backend and channel remembered; beyond it everything is forgotten, at the price of some looks.
const PAIRS_MAX: usize = 4_096;

/// Unannounced notifications remembered per pair; a write announces far fewer.
const EARLY_MAX: usize = 64;

/// What this process has announced and not yet heard.
#[derive(Debug, Default)]
pub(crate) struct OwnNotifications {
    /// A backend used for nothing but rings of this process.
    notifier: Option<u32>,
    pairs: HashMap<(u32, Box<str>), Pair>,
    /// When everything was last forgotten: of writes sent before, some notifications may have been heard already.
    forgotten_at: Option<Instant>,
}

#[derive(Debug)]
struct Pair {
    /// Announced by writes that have rung here, and not heard yet.
    expected: u32,
    /// Heard although nothing was announced: perhaps a write that is about to return.
    early: Vec<Instant>,
    touched: Instant,
}

impl Pair {
    fn new(now: Instant) -> Pair {
        Pair { expected: 0, early: Vec::new(), touched: now }
    }
}

impl OwnNotifications {
    /// Names the backend whose notifications are all from this process's notifier, which rings here first.
    pub(crate) fn notifier(&mut self, backend: Option<u32>) {
        self.notifier = backend;
    }

    /// Whether the notifier's backend is known.
    pub(crate) fn knows_notifier(&self) -> bool {
        self.notifier.is_some()
    }

    /// The listener's connection is new: what was announced before will not be heard on it; and if the server is new as well,
    /// backends have new numbers.
    pub(crate) fn clear(&mut self, now: Instant) {
        self.pairs.clear();
        self.notifier = None;
        self.forgotten_at = Some(now);
    }

    /// A write that was sent at `since` by `backend` has committed one notification for each of `channels` and has rung here.
    pub(crate) fn announced(&mut self, now: Instant, since: Instant, backend: u32, channels: &[String]) {
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
            // How many have been heard is not known: expect none, at the price of some looks.
            *pair = Pair::new(now);
            return;
        }
        pair.early.retain(|at| *at >= since);
        let early = u32::try_from(pair.early.len()).unwrap_or(u32::MAX).min(count);
        pair.early.clear();
        pair.expected += count - early;
    }

    /// A notification was heard. `true`: it is an echo of a write that has rung here, ignore it.
    pub(crate) fn is_own(&mut self, now: Instant, backend: u32, channel: &str) -> bool {
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

    /// So many notifications on one channel.
    fn c(count: usize) -> Vec<String> {
        vec!["c".to_owned(); count]
    }

    /// The usual order: the write returns and rings, then its notification arrives and is ignored; a second one from the
    /// same backend (the application's own transaction on the same pooled connection) is not.
    #[test]
    fn an_echo_is_ignored_once() {
        let now = Instant::now();
        let mut own = OwnNotifications::default();
        own.announced(now, now, OWN, &c(1));
        assert!(own.is_own(now, OWN, "c"));
        assert!(!own.is_own(now, OWN, "c"));
    }

    /// The other order: the notification overtakes the write's answer. It rings, and is not counted again when the answer
    /// comes, so a later notification of the application still rings.
    #[test]
    fn an_overtaking_echo_leaves_no_claim_behind() {
        let sent = Instant::now();
        let later = sent + Duration::from_millis(1);
        let mut own = OwnNotifications::default();
        assert!(!own.is_own(later, OWN, "c"));
        own.announced(later, sent, OWN, &c(1));
        assert!(!own.is_own(later, OWN, "c"), "this one is somebody else's");
    }

    /// The same with several notifications of one write, some of which overtake its answer: those still to come are echoes, and
    /// no more.
    #[test]
    fn several_echoes_of_one_write_are_counted_together() {
        let sent = Instant::now();
        let later = sent + Duration::from_millis(1);
        let mut own = OwnNotifications::default();
        assert!(!own.is_own(later, OWN, "c"));
        assert!(!own.is_own(later, OWN, "c"));
        own.announced(later, sent, OWN, &c(3));
        assert!(own.is_own(later, OWN, "c"));
        assert!(!own.is_own(later, OWN, "c"), "this one is somebody else's");
    }

    /// Something heard before the write was sent cannot be its echo.
    #[test]
    fn what_came_before_the_write_is_not_its_echo() {
        let before = Instant::now();
        let sent = before + Duration::from_millis(1);
        let mut own = OwnNotifications::default();
        assert!(!own.is_own(before, OWN, "c"));
        own.announced(sent, sent, OWN, &c(1));
        assert!(own.is_own(sent, OWN, "c"));
    }

    /// Claims end with the connection they were to be heard on, and by age; another channel or backend is never theirs.
    #[test]
    fn claims_do_not_outlive_their_listener() {
        let now = Instant::now();
        let mut own = OwnNotifications::default();
        own.announced(now, now, OWN, &c(1));
        assert!(!own.is_own(now, OWN, "d"));
        assert!(!own.is_own(now, OWN + 1, "c"));
        own.clear(now);
        assert!(!own.is_own(now, OWN, "c"));
        own.announced(now, now, OWN, &c(1));
        assert!(!own.is_own(now, OWN, "c"), "sent before the memory was lost");
        let later = now + Duration::from_millis(1);
        own.announced(later, later, OWN, &c(2));
        assert!(!own.is_own(later + EXPECTED_FOR * 2, OWN, "c"));
    }

    /// More notifications than are remembered overtook their write's answer: nothing is expected, rather than too much.
    #[test]
    fn what_was_not_counted_is_not_expected() {
        let now = Instant::now();
        let mut own = OwnNotifications::default();
        for _ in 0..EARLY_MAX + 10 {
            assert!(!own.is_own(now, OWN, "c"));
        }
        own.announced(now, now, OWN, &c(EARLY_MAX + 10));
        assert!(!own.is_own(now, OWN, "c"));
    }

    /// Everything the notifier's own connection sends has been rung here before.
    #[test]
    fn the_ringer_is_always_own() {
        let mut own = OwnNotifications::default();
        own.notifier(Some(9));
        assert!(own.is_own(Instant::now(), 9, "c"));
        own.notifier(None);
        assert!(!own.is_own(Instant::now(), 9, "c"));
    }
}
