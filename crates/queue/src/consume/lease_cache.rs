//! What this process has given out, and waits to hear of.
//!
//! Most acks say that everything of a lease is done, and most come to the server that gave the lease out. It remembers what was in it, so that such an ack needs neither to look for its
//! messages in the database nor to decide about each: the lease is acked as a whole, if it is still there. Whatever is not remembered, or says anything else, is decided by the
//! database alone: memory saves work here, and is never believed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use uuid::Uuid;

/// Messages remembered at most, eight bytes each; the leases given out longest ago are forgotten first.
const MESSAGES_MAX: usize = 1 << 20;
/// And leases.
const LEASES_MAX: usize = 1 << 16;

/// The messages of one lease in one partition.
#[derive(Debug)]
struct Part {
    group: Arc<str>,
    /// The hashes of their transaction ids, in order.
    hashes: Box<[i64]>,
    /// How many of them have acked, from the first on.
    acked: usize,
    /// It was to be acked as a whole, and is decided by the database from now on.
    tried: bool,
}

/// The leases of this process that may still be acked.
#[derive(Debug, Default)]
pub(crate) struct LeaseCache {
    parts: HashMap<(Uuid, i64), Part>,
    /// In the order in which they were given out. Some have acked.
    order: VecDeque<((Uuid, i64), usize)>,
    /// How many messages those have.
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

    /// Whose lease it is, if these messages are of it and its last is among them: then all are done, because who ends a message ends those before it.
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

    /// A lease was sent to be acked as a whole.
    pub(crate) fn set_tried(&mut self, lease: Uuid, partition: i64) {
        if let Some(part) = self.parts.get_mut(&(lease, partition)) {
            part.tried = true;
        }
    }

    /// Messages have acked, and those before them with them: how many that are. `None`: the lease is not remembered.
    pub(crate) fn count_acked(&mut self, lease: Uuid, partition: i64, hashes: &[i64]) -> Option<usize> {
        let part = self.parts.get_mut(&(lease, partition))?;
        let hashes: HashSet<i64> = hashes.iter().copied().collect();
        let upto = part.hashes.iter().rposition(|hash| hashes.contains(hash)).map_or(0, |last| last + 1);
        let more = upto.saturating_sub(part.acked);
        part.acked += more;
        Some(more)
    }

    /// A lease has acked in a partition.
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

    /// Only what ends a lease altogether may take the short way: the last of its messages, and none that is not its own.
    /// A lease of three messages, with all, some, and foreign ones hashes.
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
        assert!(cache.group_if_whole(lease, 7, &[3]).is_none(), "it has acked");
    }

    /// An ack ends everything before it, and nothing twice; a lease that was sent to be acked as a whole is not sent so again.
    /// Of a lease of four messages the second is hashes, then the first again, then the last.
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

    /// What is remembered must be bounded however much is never acked.
    /// Many leases of many messages: the first are forgotten, the last are not.
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
