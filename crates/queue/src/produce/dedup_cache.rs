//! The transaction ids of each partition, without an index entry per message.
//!
//! Exact deduplication usually costs an index row per message, as large as the message itself. Here each process caches
//! the hashes of a partition and the offset up to which it knows them. A push sends that offset. Under the partition's
//! lock the database returns the hashes that other processes have appended since, and appends nothing if one of them is
//! pushed, too. So the answer is exact with any number of processes. After a restart the hashes are read again from the
//! segments.
//!
//! Of a partition that needs more than its share of the memory only the newest messages are cached, and duplicates are
//! recognized among those ([`DedupCache::window`]).
//!
//! A known hash is not yet a duplicate: two ids may share it, and its message may have been deleted. So the push reads
//! the message at its offset.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Bytes of a cached hash, about.
pub(crate) const BYTES_PER_HASH: usize = 24;
/// The share of the memory that one partition may take for its newest messages: a fourth after each pruning, half of it
/// before. So a push never reads a partition again because it is large.
const WINDOW_SHARE: usize = 4;
/// Pruning starts above so many hashes of deleted messages.
const PRUNED_MIN: usize = 1_024;

/// If every push in a transaction reads more hashes than this, they are cached by a statement of their own.
const BEHIND_MAX: usize = 1_000;

/// Hashes are not hashed again.
#[derive(Debug, Default)]
pub(crate) struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        debug_assert!(false, "only for numbers");
    }

    fn write_i64(&mut self, hash: i64) {
        self.0 = hash as u64;
    }
}

/// The last offset of each hash. Of messages with equal hashes only the last can still exist.
pub(crate) type Offsets = HashMap<i64, i64, BuildHasherDefault<Same>>;

/// Hashes of a partition that are not in the cache yet.
#[derive(Debug, Default)]
pub(crate) struct HashDelta {
    pub(crate) from: Option<i64>,
    pub(crate) end: i64,
    /// `from` is the beginning of the partition.
    pub(crate) begins: bool,
    /// Messages before this offset are deleted.
    pub(crate) first: i64,
    pub(crate) offsets: Offsets,
}

impl HashDelta {
    pub(crate) fn from(offset: i64) -> HashDelta {
        HashDelta { from: Some(offset), end: offset, begins: true, ..HashDelta::default() }
    }

    /// Messages before `offset` are deleted.
    pub(crate) fn skip_to(&mut self, offset: i64) {
        self.end = self.end.max(offset);
    }

    pub(crate) fn extend(&mut self, hashes: impl IntoIterator<Item = Option<i64>>) {
        for hash in hashes {
            if let Some(hash) = hash {
                self.offsets.insert(hash, self.end);
            }
            self.end += 1;
        }
    }
}

#[derive(Debug)]
struct PartitionHashes {
    /// The offset up to which its hashes are known, exclusive.
    end: i64,
    /// Messages before this offset are deleted.
    first: i64,
    offsets: Offsets,
    /// Other processes have appended many messages since.
    behind: bool,
    /// The number of its last use.
    used: u64,
}

impl PartitionHashes {
    /// Forgets deleted messages and those before the newest `window`, if they are most of the hashes: so the cost per
    /// hash is constant.
    fn prune(&mut self, window: i64) {
        let first = self.first.max(self.end - window);
        let retained = (self.end - first).max(0) as usize;
        if self.offsets.len() > 2 * retained + PRUNED_MIN {
            self.offsets.retain(|_, offset| *offset >= first);
            self.offsets.shrink_to(2 * self.offsets.len());
        }
    }
}

/// The hashes that this process knows, bounded.
#[derive(Debug)]
pub(crate) struct DedupCache {
    partitions: HashMap<i64, PartitionHashes>,
    hashes: usize,
    max: usize,
    uses: u64,
}

impl DedupCache {
    pub(crate) fn new(max_bytes: usize) -> DedupCache {
        DedupCache { partitions: HashMap::new(), hashes: 0, max: max_bytes / BYTES_PER_HASH, uses: 0 }
    }

    /// The number of newest messages of a partition among which duplicates are recognized, at least.
    pub(crate) fn window(&self) -> i64 {
        (self.max / WINDOW_SHARE) as i64
    }

    /// Marks a partition as used, and returns the offset up to which its hashes are known, exclusive. `None`: none is.
    pub(crate) fn touch(&mut self, partition: i64) -> Option<i64> {
        self.uses += 1;
        let known = self.partitions.get_mut(&partition)?;
        known.used = self.uses;
        Some(known.end)
    }

    /// A push has read so many hashes that are not in the cache.
    pub(crate) fn missed(&mut self, partition: i64, hashes: usize) {
        if let Some(known) = self.partitions.get_mut(&partition) {
            known.behind |= hashes > BEHIND_MAX;
        }
    }

    /// If many hashes of the partition are missing: the partition, and the offset up to which they are known.
    pub(crate) fn behind(&self, partition: i64) -> Option<(i64, Option<i64>)> {
        match self.partitions.get(&partition) {
            None => Some((partition, None)),
            Some(known) => known.behind.then_some((partition, Some(known.end))),
        }
    }

    /// Whether all hashes before an offset are known.
    pub(crate) fn covers(&self, partition: i64, offset: i64) -> bool {
        self.partitions.get(&partition).is_some_and(|known| known.end >= offset)
    }

    /// The offset of a hash.
    pub(crate) fn offset(&self, partition: i64, hash: i64) -> Option<i64> {
        self.partitions.get(&partition)?.offsets.get(&hash).copied()
    }

    /// Adds hashes of a partition. Known ones are skipped. Hashes behind a gap are not added: the results of write
    /// batches may arrive in another order than the batches were committed in.
    pub(crate) fn learn(&mut self, partition: i64, delta: HashDelta) {
        let Some(from) = delta.from else { return };
        self.uses += 1;
        let (used, window) = (self.uses, self.window());
        if delta.begins && !self.partitions.contains_key(&partition) {
            let known = PartitionHashes { end: from, first: from, offsets: Offsets::default(), behind: false, used };
            self.partitions.insert(partition, known);
        }
        let Some(known) = self.partitions.get_mut(&partition).filter(|known| known.end >= from) else { return };
        (known.used, known.behind) = (used, false);
        let before = known.offsets.len();
        if before == 0 {
            known.offsets = delta.offsets;
        } else {
            known.offsets.reserve(delta.offsets.len());
            let end = known.end;
            known.offsets.extend(delta.offsets.into_iter().filter(|(_, offset)| *offset >= end));
        }
        known.end = known.end.max(delta.end);
        known.first = known.first.max(delta.first);
        known.prune(window);
        self.hashes = self.hashes - before + known.offsets.len();
        self.make_room();
    }

    /// The hash at that offset has no message any more. A later offset of the same hash stays.
    pub(crate) fn unlearn(&mut self, partition: i64, hash: i64, offset: i64) {
        let Some(known) = self.partitions.get_mut(&partition) else { return };
        if known.offsets.get(&hash) == Some(&offset) {
            known.offsets.remove(&hash);
            self.hashes -= 1;
        }
    }

    pub(crate) fn forget(&mut self, partition: i64) {
        self.hashes -= self.partitions.remove(&partition).map_or(0, |known| known.offsets.len());
    }

    /// Forgets the least recently used partitions, an eighth of the memory at a time, so that not every push searches
    /// for them. The partition in use is forgotten only if it does not fit alone: reading it again at every push costs
    /// most.
    fn make_room(&mut self) {
        if self.hashes <= self.max {
            return;
        }
        let mut by_use: Vec<(u64, i64)> = self.partitions.iter().map(|(id, known)| (known.used, *id)).collect();
        by_use.sort_unstable();
        for (used, partition) in by_use {
            let enough = if used == self.uses { self.max } else { self.max - self.max / 8 };
            if self.hashes <= enough {
                break;
            }
            self.forget(partition);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes from an offset on.
    fn some(from: i64, hashes: impl IntoIterator<Item = i64>) -> HashDelta {
        let mut delta = HashDelta { begins: false, ..HashDelta::from(from) };
        delta.extend(hashes.into_iter().map(Some));
        delta
    }

    /// Hashes from the beginning of the partition on.
    fn all(from: i64, hashes: impl IntoIterator<Item = i64>) -> HashDelta {
        HashDelta { begins: true, ..some(from, hashes) }
    }

    /// A partition is known from the beginning that was added, without gaps.
    #[test]
    fn what_was_learnt_is_known_and_no_more() {
        let mut cache = DedupCache::new(1 << 20);
        assert_eq!(cache.touch(1), None);
        cache.learn(1, some(5, [50, 60]));
        assert_eq!(cache.touch(1), None, "what lies before is not known");
        cache.learn(1, all(5, [50, 60]));
        assert_eq!((cache.touch(1), cache.offset(1, 60), cache.offset(2, 60)), (Some(7), Some(6), None));
        assert_eq!((cache.covers(1, 7), cache.covers(1, 8), cache.covers(2, 0)), (true, false, false));
        cache.learn(1, some(9, [90]));
        assert_eq!((cache.touch(1), cache.offset(1, 90)), (Some(7), None), "a gap");
        cache.learn(1, some(4, [40, 51, 61]));
        assert_eq!((cache.touch(1), cache.offset(1, 51)), (Some(7), None), "known already");
    }

    /// Of equal hashes the last offset counts, because the message of an earlier one was deleted; only that offset can
    /// be unlearned.
    #[test]
    fn the_last_of_equal_ones_counts() {
        let mut cache = DedupCache::new(1 << 20);
        cache.learn(1, all(5, [50, 60, 50]));
        assert_eq!(cache.offset(1, 50), Some(7), "in what is learnt at once");
        cache.learn(1, some(8, [60]));
        assert_eq!(cache.offset(1, 60), Some(8), "and later");
        cache.unlearn(1, 60, 6);
        assert_eq!(cache.offset(1, 60), Some(8), "another was meant");
        cache.unlearn(1, 60, 8);
        assert_eq!((cache.offset(1, 60), cache.hashes), (None, 1));
    }

    /// The cache is bounded: the least recently used partitions are forgotten, and nothing is known of them.
    #[test]
    fn what_was_used_longest_ago_is_forgotten() {
        let mut cache = DedupCache::new(100 * BYTES_PER_HASH);
        for partition in 0..10 {
            cache.learn(partition, all(0, 0..10));
        }
        assert!(cache.touch(0).is_some(), "used");
        cache.learn(10, all(0, 0..10));
        assert_eq!((cache.touch(0), cache.touch(10)), (Some(10), Some(10)));
        assert_eq!((cache.touch(1), cache.touch(2)), (None, None));
        assert!(cache.hashes <= 100);
    }

    /// A partition that fits stays while it is used, even if it takes the whole cache.
    #[test]
    fn a_partition_that_fits_stays() {
        let mut cache = DedupCache::new(100 * BYTES_PER_HASH);
        cache.learn(1, all(0, 0..50));
        cache.learn(2, all(0, 0..95));
        assert_eq!((cache.touch(1), cache.touch(2), cache.hashes), (None, Some(95), 95));
        cache.learn(2, some(95, 95..101));
        assert_eq!((cache.touch(2), cache.hashes), (None, 0), "more than there is room for");
    }

    /// Memory is in proportion to the stored messages, not to those ever pushed. A hundred thousand messages are pushed
    /// of which a thousand are stored at a time; then all are deleted.
    #[test]
    fn what_was_removed_is_forgotten() {
        let mut cache = DedupCache::new(1 << 30);
        cache.learn(1, all(0, []));
        for from in (0..100_000).step_by(100) {
            cache.learn(1, HashDelta { first: from - 1_000, ..some(from, from..from + 100) });
            assert!(cache.hashes <= 2 * 1_100 + PRUNED_MIN, "{}", cache.hashes);
        }
        assert_eq!((cache.touch(1), cache.offset(1, 99_000)), (Some(100_000), Some(99_000)));
        // A large gap between offsets costs no memory.
        let mut far = some(100_000, []);
        far.skip_to(i64::MAX / 2);
        far.extend([Some(7)]);
        cache.learn(1, HashDelta { first: i64::MAX / 2, ..far });
        assert_eq!((cache.offset(1, 7), cache.hashes), (Some(i64::MAX / 2), 1));
    }

    /// A partition with more messages than fit stays known by its newest ones: reading it again at every push would
    /// slow pushes down with its size.
    #[test]
    fn a_large_partition_is_known_by_its_newest_messages() {
        const ROOM: i64 = 8_192;
        let mut cache = DedupCache::new(ROOM as usize * BYTES_PER_HASH);
        cache.learn(1, all(0, []));
        for from in (0..100_000).step_by(100) {
            cache.learn(1, some(from, from..from + 100));
            assert_eq!(cache.touch(1), Some(from + 100));
            assert!(cache.hashes <= ROOM as usize, "{}", cache.hashes);
        }
        for newest in 100_000 - cache.window()..100_000 {
            assert_eq!(cache.offset(1, newest), Some(newest));
        }
        assert_eq!(cache.offset(1, 90_000), None);
    }
}
