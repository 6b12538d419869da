//! Which transaction ids a partition has, without an index entry for each.
//!
//! Exact deduplication usually costs an index row per message, as much as the message itself. Here whoever appends remembers the hashes of what the partition holds and up to
//! which offset it knows them. The push says that offset; under the partition's lock the database answers what others have appended since, and appends nothing if one of those
//! is the same. So memory decides only what memory knows, and the database the rest: the answer is exact with any number of processes, and after a restart the hashes are read
//! again from the segments.
//!
//! Of a partition that takes more than its share of the memory only the newest messages are remembered, and duplicates are recognised among those: see [`Seen::window`].
//!
//! A hash that is found is not yet a duplicate: two ids may share it, and what it stood for may have been removed since. Who finds one asks for the message at its offset.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// About how many bytes a remembered hash costs.
pub(crate) const BYTES_PER_HASH: usize = 24;
/// What one partition may take of the room: its newest messages are remembered, up to a fourth of the room after each tidying and half of it before. So a partition may grow to any size, and
/// a push never reads it again because of that.
const WINDOW_SHARE: usize = 4;
/// So many hashes of removed messages are not worth looking for.
const PRUNED_MIN: usize = 1_024;

/// So many hashes are read again and again before it pays to remember them by a statement of its own.
const BEHIND_MAX: usize = 1_000;

/// What is hashed already needs no second hash.
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

/// The offset at which a hash was last cache: of messages that had the same, one after another, only the last can still be there.
pub(crate) type Offsets = HashMap<i64, i64, BuildHasherDefault<Same>>;

/// What is known of a partition beyond what is remembered.
#[derive(Debug, Default)]
pub(crate) struct HashDelta {
    pub(crate) from: Option<i64>,
    pub(crate) upto: i64,
    /// `from` is where the partition begins.
    pub(crate) begins: bool,
    /// What lies before it was removed, as far as is known.
    pub(crate) first: i64,
    pub(crate) offsets: Offsets,
}

impl HashDelta {
    pub(crate) fn from(offset: i64) -> HashDelta {
        HashDelta { from: Some(offset), upto: offset, begins: true, ..HashDelta::default() }
    }

    /// What lies between was removed.
    pub(crate) fn skip_to(&mut self, offset: i64) {
        self.upto = self.upto.max(offset);
    }

    pub(crate) fn extend(&mut self, hashes: impl IntoIterator<Item = Option<i64>>) {
        for hash in hashes {
            if let Some(hash) = hash {
                self.offsets.insert(hash, self.upto);
            }
            self.upto += 1;
        }
    }
}

#[derive(Debug)]
struct Known {
    /// Up to before which offset.
    upto: i64,
    /// What lies before it was removed.
    first: i64,
    offsets: Offsets,
    /// Others have appended much since.
    behind: bool,
    /// When it was last used, in uses of any.
    used: u64,
}

impl Known {
    /// Forgets what was removed, and what lies before the newest `window`, when that is most of it: so each is looked at once or twice.
    fn prune(&mut self, window: i64) {
        let first = self.first.max(self.upto - window);
        let retained = (self.upto - first).max(0) as usize;
        if self.offsets.len() > 2 * retained + PRUNED_MIN {
            self.offsets.retain(|_, offset| *offset >= first);
            self.offsets.shrink_to(2 * self.offsets.len());
        }
    }
}

/// What this process remembers, bounded.
#[derive(Debug)]
pub(crate) struct DedupCache {
    partitions: HashMap<i64, Known>,
    hashes: usize,
    max: usize,
    uses: u64,
}

impl DedupCache {
    pub(crate) fn new(max_bytes: usize) -> DedupCache {
        DedupCache { partitions: HashMap::new(), hashes: 0, max: max_bytes / BYTES_PER_HASH, uses: 0 }
    }

    /// Messages of one partition among which duplicates are recognised, at least: its newest.
    pub(crate) fn window(&self) -> i64 {
        (self.max / WINDOW_SHARE) as i64
    }

    /// Up to before which offset the partition's hashes are known; `None`: nothing is.
    pub(crate) fn upto(&mut self, partition: i64) -> Option<i64> {
        self.uses += 1;
        let known = self.partitions.get_mut(&partition)?;
        known.used = self.uses;
        Some(known.upto)
    }

    /// So many hashes were read that are not remembered.
    pub(crate) fn missed(&mut self, partition: i64, hashes: usize) {
        if let Some(known) = self.partitions.get_mut(&partition) {
            known.behind |= hashes > BEHIND_MAX;
        }
    }

    /// Whether much of the partition is not known; and up to before which offset it is.
    pub(crate) fn behind(&self, partition: i64) -> Option<(i64, Option<i64>)> {
        match self.partitions.get(&partition) {
            None => Some((partition, None)),
            Some(known) => known.behind.then_some((partition, Some(known.upto))),
        }
    }

    /// Whether all that the partition holds before an offset is known.
    pub(crate) fn covers(&self, partition: i64, offset: i64) -> bool {
        self.partitions.get(&partition).is_some_and(|known| known.upto >= offset)
    }

    /// Where a hash was cache.
    pub(crate) fn offset(&self, partition: i64, hash: i64) -> Option<i64> {
        self.partitions.get(&partition)?.offsets.get(&hash).copied()
    }

    /// The partition has these. What is known already is passed over; what would leave a gap is not remembered, as it may come too early: flights may land in
    /// another order than they are heard of.
    pub(crate) fn learn(&mut self, partition: i64, delta: HashDelta) {
        let Some(from) = delta.from else { return };
        self.uses += 1;
        let (used, window) = (self.uses, self.window());
        if delta.begins && !self.partitions.contains_key(&partition) {
            let known = Known { upto: from, first: from, offsets: Offsets::default(), behind: false, used };
            self.partitions.insert(partition, known);
        }
        let Some(known) = self.partitions.get_mut(&partition).filter(|known| known.upto >= from) else { return };
        (known.used, known.behind) = (used, false);
        let before = known.offsets.len();
        if before == 0 {
            known.offsets = delta.offsets;
        } else {
            known.offsets.reserve(delta.offsets.len());
            let upto = known.upto;
            known.offsets.extend(delta.offsets.into_iter().filter(|(_, offset)| *offset >= upto));
        }
        known.upto = known.upto.max(delta.upto);
        known.first = known.first.max(delta.first);
        known.prune(window);
        self.hashes = self.hashes - before + known.offsets.len();
        self.make_room();
    }

    /// A hash at that offset turned out to stand for nothing any more. Where it was cache since, it stands for something.
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

    /// Forgets the partitions used longest ago, an eighth of the room at a time, so that not every push has to look for them. The one in use only if there is no room for it alone: to
    /// read it again at the next push is the most expensive way to save memory.
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

    /// These from an offset on.
    fn some(from: i64, hashes: impl IntoIterator<Item = i64>) -> HashDelta {
        let mut delta = HashDelta { begins: false, ..HashDelta::from(from) };
        delta.extend(hashes.into_iter().map(Some));
        delta
    }

    /// These from the beginning of the partition on.
    fn all(from: i64, hashes: impl IntoIterator<Item = i64>) -> HashDelta {
        HashDelta { begins: true, ..some(from, hashes) }
    }

    /// A partition is known from where its beginning was learnt, without gaps.
    #[test]
    fn what_was_learnt_is_known_and_no_more() {
        let mut cache = DedupCache::new(1 << 20);
        assert_eq!(cache.upto(1), None);
        cache.learn(1, some(5, [50, 60]));
        assert_eq!(cache.upto(1), None, "what lies before is not known");
        cache.learn(1, all(5, [50, 60]));
        assert_eq!((cache.upto(1), cache.offset(1, 60), cache.offset(2, 60)), (Some(7), Some(6), None));
        assert_eq!((cache.covers(1, 7), cache.covers(1, 8), cache.covers(2, 0)), (true, false, false));
        cache.learn(1, some(9, [90]));
        assert_eq!((cache.upto(1), cache.offset(1, 90)), (Some(7), None), "a gap");
        cache.learn(1, some(4, [40, 51, 61]));
        assert_eq!((cache.upto(1), cache.offset(1, 51)), (Some(7), None), "known already");
    }

    /// Of equal hashes the last counts, because what had it before was removed or the last would not be there; and only who means that one takes it away.
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

    /// Memory is bounded: the partitions used longest ago are forgotten, and then nothing is claimed to be known of them.
    #[test]
    fn what_was_used_longest_ago_is_forgotten() {
        let mut cache = DedupCache::new(100 * BYTES_PER_HASH);
        for partition in 0..10 {
            cache.learn(partition, all(0, 0..10));
        }
        assert!(cache.upto(0).is_some(), "used");
        cache.learn(10, all(0, 0..10));
        assert_eq!((cache.upto(0), cache.upto(10)), (Some(10), Some(10)));
        assert_eq!((cache.upto(1), cache.upto(2)), (None, None));
        assert!(cache.hashes <= 100);
    }

    /// A partition that fits must stay while it is used, even if it takes all the room there is.
    #[test]
    fn a_partition_that_fits_stays() {
        let mut cache = DedupCache::new(100 * BYTES_PER_HASH);
        cache.learn(1, all(0, 0..50));
        cache.learn(2, all(0, 0..95));
        assert_eq!((cache.upto(1), cache.upto(2), cache.hashes), (None, Some(95), 95));
        cache.learn(2, some(95, 95..101));
        assert_eq!((cache.upto(2), cache.hashes), (None, 0), "more than there is room for");
    }

    /// Memory must be in proportion to what a partition holds, not to what has ever been pushed to it. A thousand messages are kept while a hundred thousand go through; then all are removed.
    #[test]
    fn what_was_removed_is_forgotten() {
        let mut cache = DedupCache::new(1 << 30);
        cache.learn(1, all(0, []));
        for from in (0..100_000).step_by(100) {
            cache.learn(1, HashDelta { first: from - 1_000, ..some(from, from..from + 100) });
            assert!(cache.hashes <= 2 * 1_100 + PRUNED_MIN, "{}", cache.hashes);
        }
        assert_eq!((cache.upto(1), cache.offset(1, 99_000)), (Some(100_000), Some(99_000)));
        // However far the next one is, only what is there costs anything.
        let mut far = some(100_000, []);
        far.skip_to(i64::MAX / 2);
        far.extend([Some(7)]);
        cache.learn(1, HashDelta { first: i64::MAX / 2, ..far });
        assert_eq!((cache.offset(1, 7), cache.hashes), (Some(i64::MAX / 2), 1));
    }

    /// A partition with more messages than there is room for must stay known, by its newest messages: to read it again at every push would make it slower the larger it is.
    #[test]
    fn a_large_partition_is_known_by_its_newest_messages() {
        const ROOM: i64 = 8_192;
        let mut cache = DedupCache::new(ROOM as usize * BYTES_PER_HASH);
        cache.learn(1, all(0, []));
        for from in (0..100_000).step_by(100) {
            cache.learn(1, some(from, from..from + 100));
            assert_eq!(cache.upto(1), Some(from + 100));
            assert!(cache.hashes <= ROOM as usize, "{}", cache.hashes);
        }
        for newest in 100_000 - cache.window()..100_000 {
            assert_eq!(cache.offset(1, newest), Some(newest));
        }
        assert_eq!(cache.offset(1, 90_000), None);
    }
}
