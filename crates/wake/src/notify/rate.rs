//! Whether a channel is notified in the transaction that makes the work visible, or after it.
//!
//! NOTIFY in a transaction is atomic with it, costs no round trip and cannot be lost by a crash, but commits that
//! notify are serialized in the whole cluster. So a quiet channel is notified in the transaction and a busy one after
//! the commit, many writes at a time. What makes *after* safe is that every process that receives a notification
//! rechecks its groups [`TRAILING`] later: a sender killed between commit and notification is covered by the
//! notification it sent before. Hence the invariant: **a channel is notified after the commit only if its last
//! notification was sent less than [`FRESH`] ago.**

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The time over which wake-ups are counted.
const WINDOW: Duration = Duration::from_millis(200);
/// Wake-ups in the window from which a channel is busy: more than 50 a second.
const BUSY_FROM: usize = 11;
/// Wake-ups in the window below which it is quiet again: half of that, so that it does not alternate.
const QUIET_BELOW: usize = 5;
/// How long after a notification of another process its receivers recheck all groups.
pub const TRAILING: Duration = Duration::from_secs(1);
/// A busy channel's last notification is at most this old when a write is sent; with the time the write itself may take
/// ([`OVERDUE`]) it stays within [`TRAILING`].
const FRESH: Duration = Duration::from_millis(400);
/// After this long, a write to a busy channel that is still running notifies once more, so that its commit stays
/// covered.
pub(crate) const OVERDUE: Duration = Duration::from_millis(500);

/// How often one channel is notified.
#[derive(Debug, Default)]
pub(crate) struct NotifyRate {
    recent: VecDeque<Instant>,
    busy: bool,
    sent: Option<Instant>,
}

impl NotifyRate {
    /// Counts a wake-up that is about to be sent.
    pub(crate) fn count(&mut self, now: Instant) {
        while self.recent.front().is_some_and(|at| now.saturating_duration_since(*at) > WINDOW) {
            self.recent.pop_front();
        }
        // More than BUSY_FROM need not be remembered.
        if self.recent.len() == BUSY_FROM {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        if self.recent.len() >= BUSY_FROM {
            self.busy = true;
        } else if self.recent.len() < QUIET_BELOW {
            self.busy = false;
        }
    }

    /// Whether a notification may be sent after the commit of its write; otherwise it belongs into the transaction.
    pub(crate) fn may_follow_commit(&self, now: Instant) -> bool {
        self.busy && self.sent.is_some_and(|sent| now.saturating_duration_since(sent) < FRESH)
    }

    /// A notification of this channel reached the server at `now`, in a transaction or after one.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.sent = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wake_up(rate: &mut NotifyRate, now: Instant) -> bool {
        rate.count(now);
        let after_commit = rate.may_follow_commit(now);
        rate.sent(now);
        after_commit
    }

    /// A few wake-ups a second are sent in the transaction, a hundred a second after it, and after a pause in it again.
    #[test]
    fn busy_channels_are_notified_after_the_commit() {
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
        assert!(busy.count() >= 88, "busy from the eleventh wake-up in 200 ms");
        now += Duration::from_secs(1);
        assert!(!wake_up(&mut rate, now));
    }

    /// Between the two thresholds nothing changes: a channel with 30 wake-ups a second stays as it was.
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

        /// For any pattern of wake-ups and of sends that fail: whenever a notification may follow its commit, an
        /// earlier one reached the server less than FRESH before, so its receivers' recheck covers a write of up to
        /// OVERDUE.
        #[test]
        fn a_notification_after_the_commit_is_always_covered(
            gaps in prop::collection::vec((0u64..600, any::<bool>()), 1..300),
        ) {
            let mut now = Instant::now();
            let mut rate = NotifyRate::default();
            let mut last_sent = None;
            for (gap, reaches) in gaps {
                now += Duration::from_millis(gap);
                rate.count(now);
                if rate.may_follow_commit(now) {
                    let sent: Instant = last_sent.expect("a notification was sent before");
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
