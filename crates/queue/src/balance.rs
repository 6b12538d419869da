//! How pushes and consumers share the database.
//!
//! A push batch may carry thousands of messages, and the next one leaves as soon as it returns. Pops and acks of a partition follow
//! one another, so each of them competes with a push batch for the processors and the disk: the more is pushed, the less is consumed, and
//! the backlog grows for as long as somebody pushes. So while consumers are behind, a large push batch is followed by a pause as long
//! as the batch took. What is pushed meanwhile waits, and its senders with it. Consumers that are not behind lose nothing: as soon as a claim
//! leaves nothing, pushes go at their full rate again.
//!
//! Times are arguments, so that every case can be tested without waiting.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Messages from which a push batch counts as large. A smaller one takes a few milliseconds whatever is consumed meanwhile.
const LARGE: usize = 200;
/// How long after a claim that left something consumers count as behind. Longer than a pop and its ack take under load; short enough that pushes are not
/// slowed when the consumers have gone.
const RECENT: Duration = Duration::from_millis(250);
/// The longest pause, however long a batch took: a lock that somebody else held is no work that consumers have to make up for.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Who had the database last, and for how long.
#[derive(Debug, Default)]
pub(crate) struct Balance(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When consumers were last seen to be behind.
    behind: Option<Instant>,
    /// When the next push batch may leave if they are.
    next_push: Option<Instant>,
}

impl Balance {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim has delivered something. `left`: it left something that could have been delivered.
    pub(crate) fn delivered(&self, left: bool, now: Instant) {
        self.state().behind = left.then_some(now);
    }

    /// A push batch of so many messages has returned.
    pub(crate) fn pushed(&self, messages: usize, began: Instant, now: Instant) {
        let pause = now.saturating_duration_since(began).min(PAUSE_MAX);
        self.state().next_push = (messages >= LARGE).then(|| now + pause);
    }

    /// How long the next push batch has to wait.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
        let state = self.state();
        let behind = state.behind.is_some_and(|behind| now.saturating_duration_since(behind) < RECENT);
        match state.next_push {
            Some(next) if behind => next.saturating_duration_since(now),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// While consumers are behind, large push batches must leave them as much time as they take; in a second of pushing that is half of it.
    /// Batches of 40 ms, one after another, with a claim that leaves something every 10 ms.
    #[test]
    fn pushes_leave_half_of_the_time_to_consumers_that_are_behind() {
        let (balance, start) = (Balance::default(), Instant::now());
        let (mut now, mut pushing) = (start, Duration::ZERO);
        while now < start + ms(1_000) {
            balance.delivered(true, now);
            let pause = balance.pause(now);
            if pause > Duration::ZERO {
                now += pause.min(ms(10));
                continue;
            }
            balance.pushed(1_600, now, now + ms(40));
            now += ms(40);
            pushing += ms(40);
        }
        assert!(pushing <= ms(520), "{pushing:?}");
        assert!(pushing >= ms(440), "{pushing:?}");
    }

    /// Nobody waits without a reason: not while consumers keep up, not when they have gone, not behind small batches, and never for long.
    #[test]
    fn pushes_wait_for_nothing_else() {
        let start = Instant::now();
        let after = |messages: usize, took: u64, delivered: Option<bool>| {
            let balance = Balance::default();
            if let Some(left) = delivered {
                balance.delivered(left, start);
            }
            balance.pushed(messages, start, start + ms(took));
            balance
        };
        let pause = |balance: &Balance, at: u64| balance.pause(start + ms(at));
        assert_eq!(pause(&after(LARGE, 40, None), 40), Duration::ZERO, "nobody consumes");
        assert_eq!(pause(&after(LARGE, 40, Some(false)), 40), Duration::ZERO, "consumers keep up");
        assert_eq!(pause(&after(LARGE - 1, 40, Some(true)), 40), Duration::ZERO, "a small batch");
        let behind = after(LARGE, 40, Some(true));
        assert_eq!([40, 60, 80, 90].map(|at| pause(&behind, at)), [ms(40), ms(20), ms(0), ms(0)]);
        behind.delivered(false, start + ms(50));
        assert_eq!(pause(&behind, 50), Duration::ZERO, "they have caught up");
        let slow = after(LARGE, 200, Some(true));
        assert_eq!(pause(&slow, 200), ms(200));
        assert_eq!(pause(&slow, 260), Duration::ZERO, "they have gone");
        let locked = after(LARGE, 10_000, Some(true));
        locked.delivered(true, start + ms(10_000));
        assert_eq!(pause(&locked, 10_000), PAUSE_MAX);
    }
}
