//! The messages of the leases that this process has granted.
//!
//! Most acks cover a whole lease and arrive at the process that granted it. The cache has the messages of the lease, so
//! that such an ack neither looks up its messages in the database nor decides about each: the statement ends the lease
//! as a whole, if it still exists. The database decides about all other acks. The cache saves work and is never the
//! authority.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use uuid::Uuid;

/// Messages remembered, eight bytes each; beyond it the oldest leases are forgotten.
const MESSAGES_MAX: usize = 1 << 20;
/// Leases remembered.
const LEASES_MAX: usize = 1 << 16;

/// The messages of one lease in one partition.
#[derive(Debug)]
struct Part {
    group: Arc<str>,
    /// The hashes of their transaction ids, in order.
    hashes: Box<[i64]>,
    /// How many of them are acked, from the first on.
    acked: usize,
    /// An ack of the whole lease was sent. From now on the database decides.
    tried: bool,
}

/// The leases of this process that may still be acked.
#[derive(Debug, Default)]
pub(crate) struct LeaseCache {
    parts: HashMap<(Uuid, i64), Part>,
    /// With their number of messages, oldest first. Some are acked.
    order: VecDeque<((Uuid, i64), usize)>,
    /// The total number of messages in `order`.
    messages: usize,
}

impl LeaseCache {
    /// A consumer of `group` was leased these messages of a partition.
    pub(crate) fn add(&mut self, lease: Uuid, partition: i64, group: &Arc<str>, hashes: Box<[i64]>) {
        let key = (lease, partition);
        self.order.push_back((key, hashes.len()));
        self.messages += hashes.len();
        self.parts.insert(key, Part { group: group.clone(), hashes, acked: 0, tried: false });
        while self.messages > MESSAGES_MAX || self.order.len() > LEASES_MAX {
            let Some((oldest, messages)) = self.order.pop_front() else { break };
            self.parts.remove(&oldest);
            self.messages -= messages;
        }
    }

    /// The consumer group of the lease, if `hashes` are messages of it and contain its last one. That acks the whole
    /// lease, because an ack covers all earlier messages.
    pub(crate) fn group_if_whole(&self, lease: Uuid, partition: i64, hashes: &[i64]) -> Option<Arc<str>> {
        let part = self.parts.get(&(lease, partition)).filter(|part| !part.tried)?;
        if *part.hashes != *hashes {
            let last = part.hashes.last()?;
            if !hashes.contains(last) {
                return None;
            }
            let all: HashSet<i64> = part.hashes.iter().copied().collect();
            if !hashes.iter().all(|hash| all.contains(hash)) {
                return None;
            }
        }
        Some(part.group.clone())
    }

    /// An ack of the whole lease was sent.
    pub(crate) fn set_tried(&mut self, lease: Uuid, partition: i64) {
        if let Some(part) = self.parts.get_mut(&(lease, partition)) {
            part.tried = true;
        }
    }

    /// Counts acked messages, including those before them. `None`: the lease is not in the cache.
    pub(crate) fn count_acked(&mut self, lease: Uuid, partition: i64, hashes: &[i64]) -> Option<usize> {
        let part = self.parts.get_mut(&(lease, partition))?;
        let hashes: HashSet<i64> = hashes.iter().copied().collect();
        let end = part.hashes.iter().rposition(|hash| hashes.contains(hash)).map_or(0, |last| last + 1);
        let more = end.saturating_sub(part.acked);
        part.acked += more;
        Some(more)
    }

    /// The lease has ended in a partition.
    pub(crate) fn remove(&mut self, lease: Uuid, partition: i64) {
        self.parts.remove(&(lease, partition));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> Arc<str> {
        "g".into()
    }

    /// An ack counts as whole only with the last message of the lease and no message of another one. A lease of three
    /// messages is acked with all of them, with some, and with others.
    #[test]
    fn a_lease_is_whole_with_its_last_message_and_none_of_others() {
        let (lease, mut cache) = (Uuid::new_v4(), LeaseCache::default());
        cache.add(lease, 7, &group(), Box::new([1, 2, 3]));
        for (hashes, whole) in [
            (vec![1, 2, 3], true),
            (vec![3], true),
            (vec![3, 1], true),
            (vec![1, 2], false),
            (vec![3, 4], false),
            (vec![], false),
        ] {
            assert_eq!(cache.group_if_whole(lease, 7, &hashes).is_some(), whole, "{hashes:?}");
        }
        assert!(cache.group_if_whole(lease, 8, &[3]).is_none(), "another partition");
        assert!(cache.group_if_whole(Uuid::new_v4(), 7, &[3]).is_none(), "another lease");
        cache.remove(lease, 7);
        assert!(cache.group_if_whole(lease, 7, &[3]).is_none(), "it is acked");
    }

    /// An ack covers the messages before it, and each message is counted once; a lease whose whole ack was sent is not
    /// whole again. Of a lease of four messages the second is acked, then the first again, then the last.
    #[test]
    fn messages_before_an_ack_are_counted_with_it_and_once() {
        let (lease, mut cache) = (Uuid::new_v4(), LeaseCache::default());
        cache.add(lease, 7, &group(), Box::new([1, 2, 3, 4]));
        let counted = [[2].as_slice(), &[1], &[], &[4, 3], &[4]].map(|hashes| cache.count_acked(lease, 7, hashes));
        assert_eq!(counted, [Some(2), Some(0), Some(0), Some(2), Some(0)]);
        cache.set_tried(lease, 7);
        assert!(cache.group_if_whole(lease, 7, &[4]).is_none());
        cache.remove(lease, 7);
        assert_eq!(cache.count_acked(lease, 7, &[4]), None);
    }

    /// The cache is bounded, however many leases are never acked: the oldest are forgotten.
    #[test]
    fn the_oldest_leases_are_forgotten() {
        let mut cache = LeaseCache::default();
        let leases: Vec<Uuid> = (0..LEASES_MAX as u64 + 10).map(|n| Uuid::from_u64_pair(n, n)).collect();
        for lease in &leases {
            cache.add(*lease, 1, &group(), (0..100).collect());
        }
        assert_eq!(cache.messages, MESSAGES_MAX / 100 * 100);
        assert_eq!(cache.parts.len(), cache.order.len());
        assert!(cache.group_if_whole(leases[0], 1, &[99]).is_none());
        assert!(cache.group_if_whole(*leases.last().expect("many"), 1, &[99]).is_some());
    }
}
