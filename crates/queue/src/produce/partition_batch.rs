//! The messages of a write batch for one partition: which are new, and the hashes known of the partition.

use std::ops::Range;

use uuid::Uuid;

use crate::produce::dedup_cache::HashDelta;
use crate::produce::push_write::{PushOutcome, PushWrite, StoredMessage};
use crate::storage::partition_ref::PartitionRef;

/// Bytes of a segment, unless a single message is larger. Reading one message reads its segment.
const SEGMENT_BYTES_MAX: usize = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DedupResult {
    New,
    /// Stored in the partition.
    Stored,
    DuplicateOf(Uuid),
    /// A duplicate of an earlier message of the batch, by its index.
    SameAs(usize),
}

/// Why the batch is not appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchProblem {
    /// Another transaction has locked the partition.
    Locked,
    Gone,
    Full,
    InMaintenance,
}

/// The writes of one partition.
pub(crate) struct PartitionBatch<'a> {
    pub(crate) partition: &'a PartitionRef,
    /// The number of messages of each write. `None`: it was prepared for a queue that has changed since.
    sizes: Vec<Option<usize>>,
    pub(crate) messages: Vec<&'a StoredMessage>,
    pub(crate) results: Vec<DedupResult>,
    /// The indexes of messages to append.
    pub(crate) new_messages: Vec<usize>,
    /// New messages have been appended.
    appended: bool,
    pub(crate) delta: HashDelta,
    pub(crate) drains: bool,
    /// Set if the batch is not appended; then `results` do not count.
    pub(crate) problem: Option<BatchProblem>,
}

impl<'a> PartitionBatch<'a> {
    /// Groups writes, which are sorted by partition.
    pub(crate) fn of(writes: &[&'a PushWrite]) -> Vec<PartitionBatch<'a>> {
        writes.chunk_by(|one, next| one.partition.id == next.partition.id).filter_map(PartitionBatch::one).collect()
    }

    /// The writes that were prepared for the newest revision of the queue. Those for an older one must not be stored:
    /// the queue may have been encrypted since.
    fn one(writes: &[&'a PushWrite]) -> Option<PartitionBatch<'a>> {
        let partition: &PartitionRef =
            writes.iter().map(|write| &write.partition).max_by_key(|partition| partition.revision)?;
        let mut batch = PartitionBatch {
            partition,
            sizes: Vec::with_capacity(writes.len()),
            messages: Vec::new(),
            results: Vec::new(),
            new_messages: Vec::new(),
            appended: false,
            delta: HashDelta::default(),
            drains: true,
            problem: None,
        };
        for write in writes {
            let belongs = write.partition.revision == partition.revision;
            batch.sizes.push(belongs.then_some(write.messages.len()));
            if belongs {
                batch.messages.extend(&write.messages);
                batch.drains &= write.drains;
            }
        }
        batch.results.resize(batch.messages.len(), DedupResult::New);
        Some(batch)
    }

    /// Whether messages of the batch are still to be decided about.
    pub(crate) fn is_open(&self) -> bool {
        self.problem.is_none() && !self.appended
    }

    /// Whether there are messages to append.
    pub(crate) fn is_eager(&self) -> bool {
        self.problem.is_none() && !self.new_messages.is_empty()
    }

    /// Adds the ends of its segments, counted over all batches of the statement.
    pub(crate) fn split_into_segments(&self, messages: &mut i32, segment_ends: &mut Vec<i32>) {
        let mut bytes = 0;
        for (at, index) in self.new_messages.iter().enumerate() {
            let more = self.messages[*index].bytes();
            if at > 0 && bytes + more > SEGMENT_BYTES_MAX {
                segment_ends.push(*messages);
                bytes = 0;
            }
            bytes += more;
            *messages += 1;
        }
        segment_ends.push(*messages);
    }

    /// The new messages are stored. `certain`: the statement has committed, or the caller learns whether the
    /// transaction does.
    pub(crate) fn append(&mut self, first_offset: i64, certain: bool) {
        self.appended = true;
        let new_messages = std::mem::take(&mut self.new_messages);
        if certain {
            self.delta.skip_to(first_offset);
            self.delta.extend(new_messages.iter().map(|index| Some(self.messages[*index].hash)));
        }
        for index in new_messages {
            self.results[index] = DedupResult::Stored;
        }
    }

    pub(crate) fn outcomes(self, outcomes: &mut Vec<Option<PushOutcome>>) {
        let mut from = 0;
        for size in &self.sizes {
            let Some(size) = size else {
                outcomes.push(Some(PushOutcome::Gone));
                continue;
            };
            let range = from..from + size;
            from = range.end;
            outcomes.push(match self.problem {
                Some(BatchProblem::Locked) => None,
                Some(BatchProblem::Gone) => Some(PushOutcome::Gone),
                Some(BatchProblem::InMaintenance) => Some(PushOutcome::InMaintenance),
                Some(BatchProblem::Full) => Some(self.full(range)),
                // Other processes append the same hashes faster than they can be compared.
                None if !self.new_messages.is_empty() => None,
                None => Some(self.stored(range)),
            });
        }
    }

    fn stored(&self, range: Range<usize>) -> PushOutcome {
        PushOutcome::Stored(range.map(|index| self.original(index)).collect())
    }

    /// A full queue accepts messages that are stored already.
    fn full(&self, range: Range<usize>) -> PushOutcome {
        let stored: Vec<Option<Uuid>> = range.clone().map(|index| self.stored_id(index)).collect();
        if stored.iter().all(Option::is_some) { self.stored(range) } else { PushOutcome::Full(stored) }
    }

    /// The stored message that this one is a duplicate of.
    fn original(&self, index: usize) -> Option<Uuid> {
        match self.results[index] {
            DedupResult::New | DedupResult::Stored => None,
            DedupResult::DuplicateOf(id) => Some(id),
            DedupResult::SameAs(first) => self.original(first).or(Some(self.messages[first].id)),
        }
    }

    /// The stored message with the same transaction id.
    fn stored_id(&self, index: usize) -> Option<Uuid> {
        match self.results[index] {
            DedupResult::New => None,
            DedupResult::Stored => Some(self.messages[index].id),
            DedupResult::DuplicateOf(id) => Some(id),
            DedupResult::SameAs(first) => self.stored_id(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn write(revision: i32, transactions: &[&str]) -> PushWrite {
        let stored_message = |transaction: &&str| StoredMessage {
            id: Uuid::now_v7(),
            transaction_id: (*transaction).to_owned(),
            hash: 0,
            payload: Vec::new(),
            trace_id: None,
            producer: None,
        };
        let partition = Arc::new(PartitionRef::example(7, revision));
        PushWrite { partition, messages: transactions.iter().map(stored_message).collect(), drains: false }
    }

    /// A write prepared for a queue that has changed since is not stored, in any order of the writes; the others are.
    #[test]
    fn writes_of_another_revision_are_gone() {
        for revisions in [[1, 2, 2], [2, 1, 2], [2, 2, 1]] {
            let writes = revisions.map(|revision| write(revision, &["a", "b"]));
            let mut batches = PartitionBatch::of(&writes.iter().collect::<Vec<_>>());
            assert_eq!((batches.len(), batches[0].partition.revision, batches[0].messages.len()), (1, 2, 4));
            let mut batch = batches.remove(0);
            batch.new_messages = (0..4).collect();
            batch.append(0, true);
            let mut outcomes = Vec::new();
            batch.outcomes(&mut outcomes);
            for (revision, outcome) in revisions.into_iter().zip(outcomes) {
                let expected = if revision == 1 { PushOutcome::Gone } else { PushOutcome::Stored(vec![None, None]) };
                assert_eq!(outcome, Some(expected));
            }
        }
    }

    /// A full queue rejects only messages that are not stored: each message of a write has its own answer, and a write
    /// whose messages are all stored succeeds.
    #[test]
    fn a_full_queue_accepts_stored_messages() {
        let writes = [write(1, &["old", "mine", "new", "new"]), write(1, &["old", "mine"])];
        let mut batch = PartitionBatch::of(&writes.iter().collect::<Vec<_>>()).remove(0);
        let old = Uuid::now_v7();
        batch.results[..2].copy_from_slice(&[DedupResult::DuplicateOf(old), DedupResult::Stored]);
        batch.results[3..].copy_from_slice(&[DedupResult::SameAs(2), DedupResult::SameAs(0), DedupResult::SameAs(1)]);
        batch.new_messages = vec![2];
        batch.problem = Some(BatchProblem::Full);
        let mut outcomes = Vec::new();
        batch.outcomes(&mut outcomes);
        let mine = Some(writes[0].messages[1].id);
        let stored = PushOutcome::Stored(vec![Some(old), mine]);
        assert_eq!(outcomes, [Some(PushOutcome::Full(vec![Some(old), mine, None, None])), Some(stored)]);
    }
}
