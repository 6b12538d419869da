//! Who waits for what, and why nothing is being asked: for people, from memory.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::wait::claim::Claim;
use crate::wait::consumer::Inner;

/// A group of waiters with the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingGroup {
    /// The name of the consumer.
    pub consumer: Arc<str>,
    /// What they wait for, in words of the product.
    pub what: String,
    /// The number of waiters.
    pub waiters: usize,
    /// For how long the first of them has waited.
    pub waited: Duration,
    /// Whether it sleeps: no poll runs and none is about to.
    pub asleep: bool,
    /// Whether its last poll failed.
    pub failing: bool,
    /// When the next due time or retry wakes it. `None`: only a wake-up does.
    pub next_poll: Option<Duration>,
}

/// Bounds of the histogram of [`Latency`], in microseconds.
pub const LATENCY_BOUNDS_US: [u64; 14] =
    [250, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000];

/// How many items came how long after the wake-up that announced them: one count per bound of [`LATENCY_BOUNDS_US`],
/// and one for the rest.
pub type Latency = [u64; LATENCY_BOUNDS_US.len() + 1];

/// The index of a duration in [`Latency`].
pub(crate) fn latency_index(took: Duration) -> usize {
    let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    LATENCY_BOUNDS_US.iter().position(|bound| us <= *bound).unwrap_or(LATENCY_BOUNDS_US.len())
}

impl<C: Claim> Inner<C> {
    /// The groups with waiters, at most `limit`.
    pub(crate) fn waiting_groups(&self, limit: usize) -> Vec<WaitingGroup> {
        let now = Instant::now();
        let state = self.state.lock();
        let groups = state.groups.values().filter(|entry| entry.group.waiting_since().is_some()).take(limit);
        let describe = |entry: &crate::wait::consumer::GroupEntry<C>| WaitingGroup {
            consumer: self.name.clone(),
            what: self.claim.describe(&entry.key),
            waiters: entry.group.waiters(),
            waited: entry.group.waiting_since().map_or(Duration::ZERO, |since| now.saturating_duration_since(since)),
            asleep: entry.group.is_asleep(),
            failing: entry.group.is_failing(),
            next_poll: entry.group.wake_at(&self.rules).map(|at| at.saturating_duration_since(now)),
        };
        groups.map(describe).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A duration counts at the first bound that is not below it; the last count has no bound.
    #[test]
    fn durations_are_counted_at_their_bound() {
        for (us, index) in [(0, 0), (250, 0), (251, 1), (1_000, 2), (5_000_000, 13), (5_000_001, 14)] {
            assert_eq!(latency_index(Duration::from_micros(us)), index, "{us}");
        }
    }
}
