//! When the leases of this process have surely ended.
//!
//! An ack that cannot reach the database tries again until it knows its outcome: an error would make the runtime fail the user's workflow. It may
//! give up only when the lease has surely ended, because then whoever comes next finds the token refused. Leases end by the database's clock;
//! one that was granted for `d` has ended when `d` has passed since the answer arrived here.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

/// Ended leases are removed when this many are known.
const TIDY_AT: usize = 10_000;

/// Leases claimed or renewed here.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<HashMap<Uuid, Lease>>);

#[derive(Debug, Clone, Copy)]
struct Lease {
    since: Instant,
    end: Instant,
}

impl Leases {
    /// A lease was granted or renewed just now, by a statement that was sent at `since`.
    pub(crate) fn granted(&self, fence: Uuid, lease: Duration, since: Instant) {
        let now = Instant::now();
        // A lease too long for the clock never ends here.
        let Some(end) = now.checked_add(lease) else { return };
        let mut leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if leases.len() >= TIDY_AT {
            leases.retain(|_, lease| lease.end > now);
        }
        leases.entry(fence).or_insert(Lease { since, end }).end = end;
    }

    /// The lease is over, by an ack or otherwise.
    pub(crate) fn ended(&self, fence: Uuid) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&fence);
    }

    /// How long ago it was granted first; `None` for one of another process.
    pub(crate) fn age(&self, fence: Uuid) -> Option<Duration> {
        let leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        leases.get(&fence).map(|lease| lease.since.elapsed())
    }

    /// Whether it has surely ended. A lease of another process is not known to.
    pub(crate) fn has_surely_ended(&self, fence: Uuid) -> bool {
        let leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        leases.get(&fence).is_some_and(|lease| lease.end <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lease ends when its time has passed since it was last granted, and an unknown one does not.
    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_after_its_last_renewal() {
        let (leases, fence) = (Leases::default(), Uuid::from_u128(1));
        assert!(!leases.has_surely_ended(fence));
        leases.granted(fence, Duration::from_secs(5), Instant::now());
        tokio::time::advance(Duration::from_secs(4)).await;
        leases.granted(fence, Duration::from_secs(5), Instant::now());
        tokio::time::advance(Duration::from_secs(4)).await;
        assert!(!leases.has_surely_ended(fence));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(leases.has_surely_ended(fence));
        assert_eq!(leases.age(fence), Some(Duration::from_secs(9)), "a renewal does not make it younger");
        leases.ended(fence);
        assert!(!leases.has_surely_ended(fence), "it is forgotten");
        assert_eq!(leases.age(fence), None);
    }
}
