//! When the leases of this process have certainly expired.
//!
//! An ack that cannot reach the database retries until it knows its outcome: an error would make the runtime fail the
//! user's workflow. It may stop only when the lease has certainly expired, because the token is then rejected anyway.
//! Leases expire by the clock of the database; a lease of duration `d` has expired when `d` has passed since the answer
//! arrived.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

/// Expired leases are removed when there are this many.
const CLEAN_UP_AT: usize = 10_000;

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
        // A lease too long for the clock never expires here.
        let Some(end) = now.checked_add(lease) else { return };
        let mut leases = self.0.lock();
        if leases.len() >= CLEAN_UP_AT {
            leases.retain(|_, lease| lease.end > now);
        }
        leases.entry(fence).or_insert(Lease { since, end }).end = end;
    }

    /// The lease has ended, by an ack or otherwise.
    pub(crate) fn ended(&self, fence: Uuid) {
        self.0.lock().remove(&fence);
    }

    /// How long ago it was first granted; `None` for a lease of another process.
    pub(crate) fn age(&self, fence: Uuid) -> Option<Duration> {
        let leases = self.0.lock();
        leases.get(&fence).map(|lease| lease.since.elapsed())
    }

    /// Whether it has certainly expired; `false` for a lease of another process.
    pub(crate) fn has_certainly_expired(&self, fence: Uuid) -> bool {
        let leases = self.0.lock();
        leases.get(&fence).is_some_and(|lease| lease.end <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lease expires when its time has passed since the last renewal; an unknown lease does not.
    #[tokio::test(start_paused = true)]
    async fn a_lease_expires_after_its_last_renewal() {
        let (leases, fence) = (Leases::default(), Uuid::from_u128(1));
        assert!(!leases.has_certainly_expired(fence));
        leases.granted(fence, Duration::from_secs(5), Instant::now());
        tokio::time::advance(Duration::from_secs(4)).await;
        leases.granted(fence, Duration::from_secs(5), Instant::now());
        tokio::time::advance(Duration::from_secs(4)).await;
        assert!(!leases.has_certainly_expired(fence));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(leases.has_certainly_expired(fence));
        assert_eq!(leases.age(fence), Some(Duration::from_secs(9)), "a renewal does not make it younger");
        leases.ended(fence);
        assert!(!leases.has_certainly_expired(fence), "it is removed");
        assert_eq!(leases.age(fence), None);
    }
}
