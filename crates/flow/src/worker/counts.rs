//! What a worker has done.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a worker has done since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkerCounts {
    /// Steps it was given.
    pub claimed: u64,
    /// Handlers that are at work.
    pub running: u64,
    /// Steps it has completed,
    pub completed: u64,
    /// attempts that failed,
    pub failed: u64,
    /// and those that yielded after a checkpoint.
    pub yielded: u64,
    /// Steps it gave back: because it stopped, or has no handler for them.
    pub given_back: u64,
    /// Steps that were not its any more before they ended, and those of which nothing could be said while they were.
    pub lost: u64,
}

/// The same while it grows.
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

/// One more.
pub(super) fn count(tally: &AtomicU64) {
    tally.fetch_add(1, Ordering::Relaxed);
}
