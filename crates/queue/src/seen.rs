//! Which transaction ids a partition has, without an index entry for each.
//!
//! Exact deduplication usually costs an index row per message, as much as the message itself. Here whoever appends remembers the hashes of what the partition holds and up to
//! which offset it knows them. The push says that offset; under the partition's lock the database answers what others have appended since, and appends nothing if one of those
//! is the same. So memory decides only what memory knows, and the database the rest: the answer is exact with any number of processes, and after a restart the hashes are read
//! again from the segments.
//!
//! A hash that is found is not yet a duplicate: two ids may share it, and what it stood for may have been removed since. Who finds one asks for the message at its offset.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// About how many bytes a remembered hash costs.
pub(crate) const BYTES_PER_HASH: usize = 24;

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

/// The offset at which a hash was first seen.
pub(crate) type Offsets = HashMap<i64, i64, BuildHasherDefault<Same>>;

#[derive(Debug)]
struct Known {
    /// Up to before which offset.
    upto: i64,
    offsets: Offsets,
    /// When it was last used, in uses of any.
    used: u64,
}

/// What this process remembers, bounded.
#[derive(Debug)]
pub(crate) struct Seen {
    partitions: HashMap<i64, Known>,
    hashes: usize,
    max: usize,
    uses: u64,
}

impl Seen {
    pub(crate) fn new(max_bytes: usize) -> Seen {
        Seen { partitions: HashMap::new(), hashes: 0, max: max_bytes / BYTES_PER_HASH, uses: 0 }
    }

    /// Up to before which offset the partition's hashes are known; `None`: nothing is.
    pub(crate) fn upto(&mut self, partition: i64) -> Option<i64> {
        self.uses += 1;
        let known = self.partitions.get_mut(&partition)?;
        known.used = self.uses;
        Some(known.upto)
    }

    /// Where a hash was seen.
    pub(crate) fn offset(&self, partition: i64, hash: i64) -> Option<i64> {
        self.partitions.get(&partition)?.offsets.get(&hash).copied()
    }

    /// The partition has these from `from` on. What is known already is passed over; what would leave a gap is not remembered, as it may come too early: flights may land in
    /// another order than they are heard of.
    pub(crate) fn learn(&mut self, partition: i64, from: i64, hashes: &[Option<i64>], begins: bool) {
        self.uses += 1;
        let used = self.uses;
        if begins && !self.partitions.contains_key(&partition) {
            self.partitions.insert(partition, Known { upto: from, offsets: Offsets::default(), used });
        }
        let Some(known) = self.partitions.get_mut(&partition).filter(|known| known.upto >= from) else { return };
        known.used = used;
        let before = known.offsets.len();
        let news = hashes.iter().zip(from..).skip((known.upto - from) as usize);
        for (hash, offset) in news {
            if let Some(hash) = hash {
                known.offsets.entry(*hash).or_insert(offset);
            }
            known.upto = offset + 1;
        }
        self.hashes += known.offsets.len() - before;
        self.make_room();
    }

    /// A hash at that offset turned out to stand for nothing any more: the next with it is the one.
    pub(crate) fn unlearn(&mut self, partition: i64, hash: i64) {
        if let Some(known) = self.partitions.get_mut(&partition) {
            self.hashes -= usize::from(known.offsets.remove(&hash).is_some());
        }
    }

    pub(crate) fn forget(&mut self, partition: i64) {
        self.hashes -= self.partitions.remove(&partition).map_or(0, |known| known.offsets.len());
    }

    /// Forgets the partitions used longest ago, an eighth of the room at a time, so that not every push has to look for them.
    fn make_room(&mut self) {
        if self.hashes <= self.max {
            return;
        }
        let mut by_use: Vec<(u64, i64)> = self.partitions.iter().map(|(id, known)| (known.used, *id)).collect();
        by_use.sort_unstable();
        for (_, partition) in by_use {
            if self.hashes <= self.max - self.max / 8 {
                break;
            }
            self.forget(partition);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(hashes: impl IntoIterator<Item = i64>) -> Vec<Option<i64>> {
        hashes.into_iter().map(Some).collect()
    }

    /// A partition is known from where its beginning was learnt, without gaps; of equal hashes the first counts.
    #[test]
    fn what_was_learnt_is_known_and_no_more() {
        let mut seen = Seen::new(1 << 20);
        assert_eq!(seen.upto(1), None);
        seen.learn(1, 5, &some([50, 60]), false);
        assert_eq!(seen.upto(1), None, "what lies before is not known");
        seen.learn(1, 5, &some([50, 60]), true);
        assert_eq!((seen.upto(1), seen.offset(1, 60), seen.offset(2, 60)), (Some(7), Some(6), None));
        seen.learn(1, 9, &some([90]), false);
        assert_eq!((seen.upto(1), seen.offset(1, 90)), (Some(7), None), "a gap");
        seen.learn(1, 6, &[Some(60), None, Some(50)], false);
        assert_eq!((seen.upto(1), seen.offset(1, 50)), (Some(9), Some(5)), "the first of equal ones counts");
        seen.unlearn(1, 50);
        assert_eq!(seen.offset(1, 50), None);
    }

    /// Memory is bounded: the partitions used longest ago are forgotten, and then nothing is claimed to be known of them.
    #[test]
    fn what_was_used_longest_ago_is_forgotten() {
        let mut seen = Seen::new(100 * BYTES_PER_HASH);
        for partition in 0..10 {
            seen.learn(partition, 0, &some(0..10), true);
        }
        assert!(seen.upto(0).is_some(), "used");
        seen.learn(10, 0, &some(0..10), true);
        assert_eq!((seen.upto(0), seen.upto(10)), (Some(10), Some(10)));
        assert_eq!((seen.upto(1), seen.upto(2)), (None, None));
        assert!(seen.hashes <= 100);
    }
}
