//! Whether a ring belongs into the transaction that makes the work visible, or after it.
//!
//! NOTIFY in a transaction is atomic with it, costs no round trip and cannot be lost by a crash, but notifying commits run
//! one after another in the whole cluster. So a quiet channel notifies in the transaction and a busy one after it,
//! coalesced. What makes *after* safe is that everybody who hears a ring looks again [`TRAILING`] later: a sender killed
//! between commit and ring is covered by the ring it sent before. Hence the promise kept here: **a channel is busy only
//! while its last ring went out less than [`FRESH`] ago.**

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The span over which rings are counted.
const WINDOW: Duration = Duration::from_millis(200);
/// Rings in the window from which a channel is busy: more than 50 a second.
const BUSY_FROM: usize = 11;
/// Rings in the window below which it is quiet again: half of that, so that it does not flutter.
const QUIET_BELOW: usize = 5;
/// How long after a ring from another process its hearers look once more.
pub const TRAILING: Duration = Duration::from_secs(1);
/// A busy channel's last ring is at most this old when a write is sent; with the time the write itself may take
/// ([`OVERDUE`]) it stays within [`TRAILING`].
const FRESH: Duration = Duration::from_millis(400);
/// A busy write in the air for this long rings once more, so that its own end stays covered.
pub(crate) const OVERDUE: Duration = Duration::from_millis(500);

/// The pace of one channel.
#[derive(Debug, Default)]
pub(crate) struct NotifyRate {
    recent: VecDeque<Instant>,
    busy: bool,
    sent: Option<Instant>,
}

impl NotifyRate {
    /// Counts a ring about to be made and answers whether it may go after the commit (`true`) or belongs into the
    /// transaction (`false`).
    pub(crate) fn after_commit(&mut self, now: Instant) -> bool {
        while self.recent.front().is_some_and(|at| now.saturating_duration_since(*at) > WINDOW) {
            self.recent.pop_front();
        }
        // The count only has to reach BUSY_FROM: what lies beyond need not be remembered.
        if self.recent.len() == BUSY_FROM {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        if self.recent.len() >= BUSY_FROM {
            self.busy = true;
        } else if self.recent.len() < QUIET_BELOW {
            self.busy = false;
        }
        self.busy && self.sent.is_some_and(|sent| now.saturating_duration_since(sent) < FRESH)
    }

    /// A ring of this channel reached the server at `now`, in a transaction or after one.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.sent = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wake_up(rate: &mut NotifyRate, now: Instant) -> bool {
        let after = rate.after_commit(now);
        rate.sent(now);
        after
    }

    /// A few rings a second stay in the transaction; a hundred a second leave it; a pause brings them back.
    #[test]
    fn busy_channels_ring_after_the_commit_and_quiet_ones_within() {
        let mut now = Instant::now();
        let mut rate = NotifyRate::default();
        for _ in 0..20 {
            assert!(!wake_up(&mut rate, now));
            now += Duration::from_millis(100);
        }
        let busy = (0..100).filter(|_| {
            now += Duration::from_millis(10);
            wake_up(&mut rate, now)
        });
        assert!(busy.count() >= 88, "busy from the eleventh ring in 200 ms");
        now += Duration::from_secs(1);
        assert!(!wake_up(&mut rate, now));
    }

    /// Between the two thresholds nothing changes: a channel at 30 rings a second stays what it was.
    #[test]
    fn the_threshold_has_hysteresis() {
        let mut now = Instant::now();
        let mut rate = NotifyRate::default();
        let mut run = |rate: &mut NotifyRate, every: u64, count: usize| {
            let mut last = false;
            for _ in 0..count {
                now += Duration::from_millis(every);
                last = wake_up(rate, now);
            }
            last
        };
        assert!(!run(&mut rate, 33, 50), "not busy on the way up");
        assert!(run(&mut rate, 5, 50));
        assert!(run(&mut rate, 33, 50), "still busy on the way down");
        assert!(!run(&mut rate, 100, 10));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// For any pattern of rings and of sends that fail: whenever a ring may follow its commit, another ring had
        /// reached the server less than FRESH before, so its hearers' trailing look covers a write of up to OVERDUE.
        #[test]
        fn a_ring_after_the_commit_is_always_covered(gaps in prop::collection::vec((0u64..600, any::<bool>()), 1..300)) {
            let mut now = Instant::now();
            let mut rate = NotifyRate::default();
            let mut last_sent = None;
            for (gap, reaches) in gaps {
                now += Duration::from_millis(gap);
                if rate.after_commit(now) {
                    let sent: Instant = last_sent.expect("something was sent before");
                    prop_assert!(now - sent + OVERDUE < TRAILING);
                }
                if reaches {
                    rate.sent(now);
                    last_sent = Some(now);
                }
            }
        }
    }
}
