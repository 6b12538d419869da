//! How pushes and consumers share the machine.
//!
//! A push batch may carry thousands of messages, and the next one leaves as soon as it returns. Pops and acks of a partition follow one another, and each competes with a
//! push batch for the processors and the disk: the more is pushed, the less is consumed. So while consumers are behind, a large push batch is followed by a pause
//! twice as long as the batch took. Messages pushed meanwhile wait, and leave together. Consumers that are not behind cost pushes nothing: an ack that leaves
//! nothing to read ends it for its partition and group. Others that are behind keep their share.
//!
//! Times are arguments, so that every case can be tested without waiting.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Messages from which a push batch counts as large. A smaller one mostly waits for its commit.
const LARGE: usize = 200;
/// How many times as long as the batch the pause is. Once would leave consumers half of the time; but requests are prepared in the pause, and pops and acks of a partition
/// wait for each other. Figures are in decision 28.
const PAUSE: u32 = 2;
/// The longest pause, however long a batch took: a disk that stood still is nothing that consumers have to make up for.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Push batches after which consumers count as gone, if none has acked meanwhile. At saturation there are several acks per batch.
const BATCHES_MAX: u64 = 4;
/// Partitions and groups that are remembered as behind. One is enough for a pause; more of them only make it last until the last has caught up.
const BEHIND_MAX: usize = 1_000;

/// Whether consumers are behind, and how long pushes have kept them back.
#[derive(Debug, Default)]
pub(crate) struct Balance(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Push batches so far.
    batches: u64,
    /// By partition and group that is behind: the last push batch for which it counts as that.
    behind: HashMap<(i64, String), u64>,
    /// When the next push batch may leave if they are; `None`: at once.
    next_push: Option<Instant>,
    held_back: u64,
}

impl Balance {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// An ack has freed a partition for a group. `left`: there is more to read in it.
    pub(crate) fn acked(&self, partition: i64, group: &str, left: bool) {
        let mut state = self.state();
        let key = (partition, group.to_owned());
        if !left {
            state.behind.remove(&key);
        } else if state.behind.len() < BEHIND_MAX || state.behind.contains_key(&key) {
            let until = state.batches + BATCHES_MAX;
            state.behind.insert(key, until);
        }
    }

    /// A push batch of so many messages has returned.
    pub(crate) fn pushed(&self, messages: usize, began: Instant, now: Instant) {
        let pause = (now.saturating_duration_since(began) * PAUSE).min(PAUSE_MAX);
        self.state().next_push = (messages >= LARGE).then(|| now + pause);
    }

    /// How long the next push batch has to wait; asked once for each.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
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

    /// Push batches that had to leave consumers their share of the time.
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

    /// While consumers are behind, large push batches must leave them two thirds of the time, however many wait.
    /// Batches of 40 ms for three seconds, each as soon as it may leave, with an ack that leaves something beside each.
    #[test]
    fn pushes_leave_most_of_the_time_to_consumers_that_are_behind() {
        let (balance, start) = (Balance::default(), Instant::now());
        let (mut now, mut pushing) = (start, Duration::ZERO);
        while now < start + ms(3_000) {
            balance.acked(1, "g", true);
            now += balance.pause(now);
            balance.pushed(1_600, now, now + ms(40));
            now += ms(40);
            pushing += ms(40);
        }
        assert!((ms(960)..=ms(1_080)).contains(&pushing), "{pushing:?}");
        assert_eq!(balance.held_back(), 25, "all but the first");
    }

    /// A push must not wait without a reason: not while consumers keep up, not when they have gone, not behind a small batch, and never for long.
    #[test]
    fn pushes_wait_for_nothing_else() {
        let start = Instant::now();
        let after = |messages: usize, took: u64, acked: Option<bool>| {
            let balance = Balance::default();
            if let Some(left) = acked {
                balance.acked(1, "g", left);
            }
            balance.pushed(messages, start, start + ms(took));
            balance
        };
        let pause = |balance: &Balance, at: u64| balance.pause(start + ms(at));
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

    /// A consumer that keeps up must not take the share of one that is behind, in another partition or of another group; and what is remembered is bounded.
    #[test]
    fn who_keeps_up_does_not_speak_for_others() {
        let (balance, start) = (Balance::default(), Instant::now());
        balance.pushed(LARGE, start, start + ms(40));
        let pause = || balance.pause(start + ms(40));
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
