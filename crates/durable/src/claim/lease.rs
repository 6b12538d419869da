//! Leases of this process: until when each certainly lasts, and from when on it has certainly expired.
//!
//! An ack that cannot reach the database retries until it knows its outcome: an error would make the runtime fail the
//! user's workflow. It may stop only when the lease has certainly expired, because the token is then rejected anyway.
//! The other way round, an ack may be pipelined (see [`Pipeline`](crate::write::Pipeline)) only while its lease
//! certainly lasts.
//!
//! Leases expire by the clock of the database. A lease of duration `d` that a statement granted lasts at least until `d`
//! after the statement was sent, and has expired when `d` has passed since its answer arrived.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

/// Expired leases are removed when there are this many.
const CLEAN_UP_AT: usize = 10_000;
/// An ack is pipelined only if its lease lasts at least this long: far longer than a commit usually takes.
const ACK_WITHIN: Duration = Duration::from_secs(1);

/// Leases claimed or renewed here.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<HashMap<Uuid, Lease>>);

#[derive(Debug)]
struct Lease {
    /// When the statement that first granted it was sent.
    since: Instant,
    /// It certainly lasts until then.
    lasts_until: Instant,
    /// It has certainly expired then.
    expired_at: Instant,
    /// `None`: an ack of it is not pipelined.
    item: Option<LeasedItem>,
    /// A pipelined ack of it is under way.
    acking: bool,
}

/// What is known about a leased item whose ack may be pipelined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeasedItem {
    /// The execution of the turn, and its last event.
    Turn { execution: i64, last: i64 },
    /// The key by which a turn cancels the activity; the instance is escaped.
    Activity { instance: String, execution: i64, activity: i64 },
}

impl Leases {
    /// A statement that was sent at `sent` has granted or renewed a lease. `item`: its ack may be pipelined.
    pub(crate) fn granted(&self, fence: Uuid, lease: Duration, sent: Instant, item: Option<LeasedItem>) {
        let now = Instant::now();
        // A lease too long for the clock never expires here.
        let (Some(lasts_until), Some(expired_at)) = (sent.checked_add(lease), now.checked_add(lease)) else { return };
        let mut leases = self.0.lock();
        if leases.len() >= CLEAN_UP_AT {
            leases.retain(|_, lease| lease.expired_at > now);
        }
        leases
            .entry(fence)
            .and_modify(|held| (held.lasts_until, held.expired_at) = (lasts_until, expired_at))
            .or_insert(Lease { since: sent, lasts_until, expired_at, item, acking: false });
    }

    /// A statement that was sent at `sent` has renewed a lease, perhaps one that another process claimed.
    pub(crate) fn renewed(&self, fence: Uuid, lease: Duration, sent: Instant) {
        self.granted(fence, lease, sent, None);
    }

    /// The lease has ended, by an ack or otherwise.
    pub(crate) fn ended(&self, fence: Uuid) {
        self.0.lock().remove(&fence);
    }

    /// Turns have cancelled these activities, or are about to.
    pub(crate) fn cancelled(&self, is_cancelled: impl Fn(&LeasedItem) -> bool) {
        for lease in self.0.lock().values_mut() {
            lease.item.take_if(|item| is_cancelled(item));
        }
    }

    /// Begins a pipelined ack of a lease, if it certainly lasts and `allows` says so of its item. A lease whose ack has
    /// begun, has ended, or was granted to another process allows none.
    pub(crate) fn begin_ack(&self, fence: Uuid, allows: impl FnOnce(&LeasedItem) -> bool) -> bool {
        let mut leases = self.0.lock();
        let Some(lease) = leases.get_mut(&fence) else { return false };
        let lasts = lease.lasts_until.saturating_duration_since(Instant::now()) >= ACK_WITHIN;
        let begins = !lease.acking && lasts && lease.item.as_ref().is_some_and(allows);
        lease.acking |= begins;
        begins
    }

    /// Whether a pipelined ack of the lease is under way.
    pub(crate) fn is_acking(&self, fence: Uuid) -> bool {
        self.0.lock().get(&fence).is_some_and(|lease| lease.acking)
    }

    /// How long ago it was first granted; `None` for a lease of another process.
    pub(crate) fn age(&self, fence: Uuid) -> Option<Duration> {
        let leases = self.0.lock();
        leases.get(&fence).map(|lease| lease.since.elapsed())
    }

    /// Whether it has certainly expired; `false` for a lease of another process.
    pub(crate) fn has_certainly_expired(&self, fence: Uuid) -> bool {
        let leases = self.0.lock();
        leases.get(&fence).is_some_and(|lease| lease.expired_at <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: LeasedItem = LeasedItem::Turn { execution: 1, last: 7 };

    /// A lease expires when its time has passed since the last renewal; an unknown lease does not.
    #[tokio::test(start_paused = true)]
    async fn a_lease_expires_after_its_last_renewal() {
        let (leases, fence) = (Leases::default(), Uuid::from_u128(1));
        assert!(!leases.has_certainly_expired(fence));
        leases.granted(fence, Duration::from_secs(5), Instant::now(), None);
        tokio::time::advance(Duration::from_secs(4)).await;
        leases.renewed(fence, Duration::from_secs(5), Instant::now());
        tokio::time::advance(Duration::from_secs(4)).await;
        assert!(!leases.has_certainly_expired(fence));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(leases.has_certainly_expired(fence));
        assert_eq!(leases.age(fence), Some(Duration::from_secs(9)), "a renewal does not make it younger");
        leases.ended(fence);
        assert!(!leases.has_certainly_expired(fence), "it is removed");
        assert_eq!(leases.age(fence), None);
    }

    /// A pipelined ack begins once per lease, and only while the lease certainly lasts: counted from when the claim was
    /// sent, not from when its answer arrived.
    #[tokio::test(start_paused = true)]
    async fn an_ack_begins_once_and_while_the_lease_lasts() {
        let (leases, lease) = (Leases::default(), Duration::from_secs(5));
        let [first, late, foreign, other] = [1, 2, 3, 4].map(Uuid::from_u128);
        let sent = Instant::now();
        tokio::time::advance(Duration::from_secs(3)).await;
        for fence in [first, late] {
            leases.granted(fence, lease, sent, Some(TURN));
        }
        leases.renewed(foreign, lease, sent);
        assert!(leases.begin_ack(first, |item| *item == TURN) && leases.is_acking(first));
        assert!(!leases.begin_ack(first, |_| true), "it has begun");
        assert!(!leases.begin_ack(foreign, |_| true), "another process claimed it");
        assert!(!leases.begin_ack(other, |_| true), "it is unknown");
        assert!(!leases.begin_ack(late, |_| false) && !leases.is_acking(late));
        tokio::time::advance(Duration::from_millis(1_001)).await;
        assert!(!leases.begin_ack(late, |_| true), "it may expire before the commit");
        leases.renewed(late, lease, Instant::now());
        assert!(leases.begin_ack(late, |_| true));
    }

    /// The ack of an activity that a turn has cancelled is not pipelined, so that it is rejected.
    #[tokio::test(start_paused = true)]
    async fn the_ack_of_a_cancelled_activity_is_not_pipelined() {
        let (leases, lease) = (Leases::default(), Duration::from_secs(5));
        let activity = |activity| LeasedItem::Activity { instance: "i".into(), execution: 1, activity };
        let [cancelled, kept] = [1, 2].map(Uuid::from_u128);
        leases.granted(cancelled, lease, Instant::now(), Some(activity(1)));
        leases.granted(kept, lease, Instant::now(), Some(activity(2)));
        leases.cancelled(|item| *item == activity(1));
        assert!(!leases.begin_ack(cancelled, |_| true));
        assert!(leases.begin_ack(kept, |_| true));
    }
}
