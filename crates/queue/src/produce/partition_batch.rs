//! The messages of one flight for one partition: what is new among them, and what is known of the partition.

use std::ops::Range;

use uuid::Uuid;

use crate::produce::append::{PushWrite, StoredMessage};
use crate::produce::dedup_cache::HashDelta;
use crate::produce::push_outcome::PushOutcome;
use crate::storage::partition_ref::PartitionRef;

/// Bytes of a segment, unless a single message has more: who wants one message of it reads all.
const SEGMENT_BYTES_MAX: usize = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DedupResult {
    New,
    /// It is in the partition.
    Stored,
    DuplicateOf(Uuid),
    /// As another of the same flight.
    SameAs(usize),
}

/// Why nothing is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchProblem {
    /// The partition is locked.
    Locked,
    Gone,
    Full,
    InMaintenance,
}

/// The loads of one partition.
pub(crate) struct PartitionBatch<'a> {
    pub(crate) partition: &'a PartitionRef,
    /// How many messages each batch has; `None`: it was prepared for a queue that has changed since.
    sizes: Vec<Option<usize>>,
    pub(crate) messages: Vec<&'a StoredMessage>,
    pub(crate) results: Vec<DedupResult>,
    /// Those to append.
    pub(crate) new_messages: Vec<usize>,
    /// They were.
    appended: bool,
    pub(crate) delta: HashDelta,
    pub(crate) drains: bool,
    /// Its end, if that is not what the verdicts say.
    pub(crate) problem: Option<BatchProblem>,
}

impl<'a> PartitionBatch<'a> {
    /// By partition: those of one follow each other.
    pub(crate) fn of(writes: &[&'a PushWrite]) -> Vec<PartitionBatch<'a>> {
        writes.chunk_by(|one, next| one.partition.id == next.partition.id).filter_map(PartitionBatch::one).collect()
    }

    /// All go as the newest of them knows the queue. Those that know it otherwise must not: what they stored_message, or did not, would be stored as what it is not.
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

    /// Whether something has still to be found out about it.
    pub(crate) fn is_open(&self) -> bool {
        self.problem.is_none() && !self.appended
    }

    /// Whether there is something to append.
    pub(crate) fn is_eager(&self) -> bool {
        self.problem.is_none() && !self.new_messages.is_empty()
    }

    /// Where its segments end, counted on from `partition`.
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

    /// What was fresh is stored. `lasts`: and will be whatever happens now, or the caller learns whether it will.
    pub(crate) fn append(&mut self, first_offset: i64, lasts: bool) {
        self.appended = true;
        let new_messages = std::mem::take(&mut self.new_messages);
        if lasts {
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
                // Others keep appending the same faster than it can be told apart.
                None if !self.new_messages.is_empty() => None,
                None => Some(self.stored(range)),
            });
        }
    }

    fn stored(&self, range: Range<usize>) -> PushOutcome {
        PushOutcome::Stored(range.map(|index| self.original(index)).collect())
    }

    /// What is there needs no room.
    fn full(&self, range: Range<usize>) -> PushOutcome {
        let stored: Vec<Option<Uuid>> = range.clone().map(|index| self.stored_id(index)).collect();
        if stored.iter().all(Option::is_some) { self.stored(range) } else { PushOutcome::Full(stored) }
    }

    /// The message that one is a duplicate of.
    fn original(&self, index: usize) -> Option<Uuid> {
        match self.results[index] {
            DedupResult::New | DedupResult::Stored => None,
            DedupResult::DuplicateOf(id) => Some(id),
            DedupResult::SameAs(first) => self.original(first).or(Some(self.messages[first].id)),
        }
    }

    /// The message of that transaction id that is in the partition.
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

    /// A batch prepared for a queue that has changed since must not be stored, whichever batch is first; the others go on.
    #[test]
    fn loads_of_another_revision_are_gone() {
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

    /// In a full queue only what is not there is refused: each message of a load is told for itself, and a load of which all is there is stored.
    #[test]
    fn duplicates_are_accepted_by_a_full_queue() {
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
