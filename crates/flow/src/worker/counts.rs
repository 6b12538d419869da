//! Counters of a worker.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a worker has done since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerCounts {
    /// Claimed steps.
    pub claimed: u64,
    /// Running handlers.
    pub running: u64,
    /// Completed steps.
    pub completed: u64,
    /// Failed attempts.
    pub failed: u64,
    /// Attempts that yielded with a checkpoint.
    pub yielded: u64,
    /// Steps released because the worker stopped or has no handler for them.
    pub given_back: u64,
    /// Steps whose lease was lost before they ended, or whose report could not be sent before the lease ended.
    pub lost: u64,
}

/// The live counters.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) claimed: AtomicU64,
    pub(super) running: AtomicU64,
    pub(super) completed: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) yielded: AtomicU64,
    pub(super) given_back: AtomicU64,
    pub(super) lost: AtomicU64,
}

impl Tally {
    pub(super) fn snapshot(&self) -> WorkerCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        WorkerCounts {
            claimed: read(&self.claimed),
            running: read(&self.running),
            completed: read(&self.completed),
            failed: read(&self.failed),
            yielded: read(&self.yielded),
            given_back: read(&self.given_back),
            lost: read(&self.lost),
        }
    }
}

/// Increments a counter.
pub(super) fn count(tally: &AtomicU64) {
    tally.fetch_add(1, Ordering::Relaxed);
}
