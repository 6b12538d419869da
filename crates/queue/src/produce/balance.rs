//! How pushes and consumers share the database.
//!
//! A push batch may have thousands of messages, and the next one is sent when it returns. Pops and acks of a partition
//! follow one another, and each competes with a push batch for CPU and disk: the more is pushed, the less is consumed.
//! So while consumers have a backlog, a large push batch is followed by a pause twice as long as the batch took.
//! Messages pushed meanwhile are in the next batch. Consumers without a backlog cost pushes nothing: an ack that leaves
//! nothing to read ends the backlog of its partition and group.
//!
//! Times are arguments, so that every case can be tested without waiting.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Messages from which a push batch counts as large. A smaller one mostly waits for its commit.
const LARGE: usize = 200;
/// The length of the pause as a multiple of the batch. With one, consumers would get half of the time; but requests are
/// prepared in the pause, and pops and acks of a partition wait for each other. Decision 28 has the figures.
const PAUSE: u32 = 2;
/// The longest pause: consumers need not make up for a disk that stood still.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Push batches without an ack after which a backlog is forgotten. Under load there are several acks per batch.
const BATCHES_MAX: u64 = 4;
/// Partitions and groups that are remembered. One backlog is enough for a pause.
const BEHIND_MAX: usize = 1_000;

/// The backlog of consumers, and the pauses of pushes.
#[derive(Debug, Default)]
pub(crate) struct Balance(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Push batches so far.
    batches: u64,
    /// By partition and group with a backlog: the last push batch for which it counts.
    behind: HashMap<(i64, String), u64>,
    /// When the next push batch may be sent if there is a backlog; `None`: at once.
    next_push: Option<Instant>,
    held_back: u64,
}

impl Balance {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// An ack has freed a partition for a group. `has_more`: there is more to read.
    pub(crate) fn acked(&self, partition: i64, group: &str, has_more: bool) {
        let mut state = self.state();
        let key = (partition, group.to_owned());
        if !has_more {
            state.behind.remove(&key);
        } else if state.behind.len() < BEHIND_MAX || state.behind.contains_key(&key) {
            let until = state.batches + BATCHES_MAX;
            state.behind.insert(key, until);
        }
    }

    /// A push batch with so many messages has returned.
    pub(crate) fn pushed(&self, messages: usize, began: Instant, now: Instant) {
        let pause = (now.saturating_duration_since(began) * PAUSE).min(PAUSE_MAX);
        self.state().next_push = (messages >= LARGE).then(|| now + pause);
    }

    /// Begins the next push batch: returns how long it has to wait.
    pub(crate) fn begin_batch(&self, now: Instant) -> Duration {
        let mut state = self.state();
        state.batches += 1;
        let batch = state.batches;
        state.behind.retain(|_, until| *until >= batch);
        match state.next_push {
            Some(next) if !state.behind.is_empty() => {
                state.held_back += 1;
                next.saturating_duration_since(now)
            }
            _ => Duration::ZERO,
        }
    }

    /// The number of push batches that had to wait.
    pub(crate) fn held_back(&self) -> u64 {
        self.state().held_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// While consumers have a backlog, large push batches leave them two thirds of the time. Batches of 40 ms are sent
    /// for three seconds, each as soon as it may be, with an ack beside each that leaves messages.
    #[test]
    fn pushes_leave_most_of_the_time_to_consumers_that_are_behind() {
        let (balance, start) = (Balance::default(), Instant::now());
        let (mut now, mut pushing) = (start, Duration::ZERO);
        while now < start + ms(3_000) {
            balance.acked(1, "g", true);
            now += balance.begin_batch(now);
            balance.pushed(1_600, now, now + ms(40));
            now += ms(40);
            pushing += ms(40);
        }
        assert!((ms(960)..=ms(1_080)).contains(&pushing), "{pushing:?}");
        assert_eq!(balance.held_back(), 25, "all but the first");
    }

    /// A push waits only for a backlog: not while consumers keep up, not after they have gone, not behind a small
    /// batch, and never for long.
    #[test]
    fn pushes_wait_for_nothing_else() {
        let start = Instant::now();
        let after = |messages: usize, took: u64, acked: Option<bool>| {
            let balance = Balance::default();
            if let Some(has_more) = acked {
                balance.acked(1, "g", has_more);
            }
            balance.pushed(messages, start, start + ms(took));
            balance
        };
        let pause = |balance: &Balance, at: u64| balance.begin_batch(start + ms(at));
        assert_eq!(pause(&after(LARGE, 40, None), 40), Duration::ZERO, "nothing is consumed");
        assert_eq!(pause(&after(LARGE, 40, Some(false)), 40), Duration::ZERO, "consumers keep up");
        assert_eq!(pause(&after(LARGE - 1, 40, Some(true)), 40), Duration::ZERO, "a small batch");
        let behind = after(LARGE, 40, Some(true));
        assert_eq!([40, 60, 130].map(|at| pause(&behind, at)), [ms(80), ms(60), ms(0)]);
        behind.acked(1, "g", false);
        assert_eq!(pause(&behind, 60), Duration::ZERO, "they have caught up");
        let gone = after(LARGE, 40, Some(true));
        let pauses: Vec<Duration> = (0..=BATCHES_MAX).map(|_| pause(&gone, 40)).collect();
        assert_eq!(pauses[BATCHES_MAX as usize - 1..], [ms(80), ms(0)], "they have gone");
        assert_eq!(pause(&after(LARGE, 10_000, Some(true)), 10_000), PAUSE_MAX);
    }

    /// A consumer that keeps up does not end the backlog of another partition or group; and the memory is bounded.
    #[test]
    fn a_consumer_that_keeps_up_does_not_end_other_backlogs() {
        let (balance, start) = (Balance::default(), Instant::now());
        balance.pushed(LARGE, start, start + ms(40));
        let pause = || balance.begin_batch(start + ms(40));
        balance.acked(1, "g", true);
        balance.acked(2, "g", false);
        balance.acked(1, "h", false);
        assert_eq!(pause(), ms(80), "one is behind");
        balance.acked(1, "g", false);
        assert_eq!(pause(), Duration::ZERO, "all have caught up");
        let many = 2 * BEHIND_MAX as i64;
        (0..many).for_each(|partition| balance.acked(partition, "g", true));
        assert_eq!(balance.state().behind.len(), BEHIND_MAX);
        (0..many).for_each(|partition| balance.acked(partition, "g", false));
        assert_eq!(pause(), Duration::ZERO, "all have caught up");
    }
}
