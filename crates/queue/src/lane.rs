//! The messages of one flight for one partition: what is new among them, and what is known of the partition.

use std::ops::Range;

use uuid::Uuid;

use crate::fate::Fate;
use crate::place::Place;
use crate::push::{Load, Sealed};
use crate::seen::Extra;

/// Bytes of a segment, unless a single message has more: who wants one message of it reads all.
const SEGMENT_BYTES_MAX: usize = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fresh,
    /// It is in the partition.
    Stored,
    DuplicateOf(Uuid),
    /// As another of the same flight.
    SameAs(usize),
}

/// Why nothing is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Somebody else has the partition.
    Locked,
    Gone,
    Full,
    Shelved,
}

/// The loads of one partition.
pub(crate) struct Lane<'a> {
    pub(crate) place: &'a Place,
    /// How many messages each load has; `None`: it was sealed for a queue that has changed since.
    sizes: Vec<Option<usize>>,
    pub(crate) messages: Vec<&'a Sealed>,
    pub(crate) verdicts: Vec<Verdict>,
    /// Those to append.
    pub(crate) fresh: Vec<usize>,
    /// They were.
    appended: bool,
    pub(crate) extra: Extra,
    pub(crate) drains: bool,
    /// Its end, if that is not what the verdicts say.
    pub(crate) ended: Option<End>,
}

impl<'a> Lane<'a> {
    /// By partition: those of one follow each other.
    pub(crate) fn of(loads: &[&'a Load]) -> Vec<Lane<'a>> {
        loads.chunk_by(|one, next| one.place.id == next.place.id).filter_map(Lane::one).collect()
    }

    /// All go as the newest of them knows the queue. Those that know it otherwise must not: what they sealed, or did not, would be stored as what it is not.
    fn one(loads: &[&'a Load]) -> Option<Lane<'a>> {
        let place: &Place = loads.iter().map(|load| &load.place).max_by_key(|place| place.revision)?;
        let mut lane = Lane {
            place,
            sizes: Vec::with_capacity(loads.len()),
            messages: Vec::new(),
            verdicts: Vec::new(),
            fresh: Vec::new(),
            appended: false,
            extra: Extra::default(),
            drains: true,
            ended: None,
        };
        for load in loads {
            let belongs = load.place.revision == place.revision;
            lane.sizes.push(belongs.then_some(load.messages.len()));
            if belongs {
                lane.messages.extend(&load.messages);
                lane.drains &= load.drains;
            }
        }
        lane.verdicts.resize(lane.messages.len(), Verdict::Fresh);
        Some(lane)
    }

    /// Whether something has still to be found out about it.
    pub(crate) fn is_open(&self) -> bool {
        self.ended.is_none() && !self.appended
    }

    /// Whether there is something to append.
    pub(crate) fn is_eager(&self) -> bool {
        self.ended.is_none() && !self.fresh.is_empty()
    }

    /// Where its segments end, counted on from `place`.
    pub(crate) fn cut(&self, place: &mut i32, cuts: &mut Vec<i32>) {
        let mut bytes = 0;
        for (at, index) in self.fresh.iter().enumerate() {
            let more = self.messages[*index].bytes();
            if at > 0 && bytes + more > SEGMENT_BYTES_MAX {
                cuts.push(*place);
                bytes = 0;
            }
            bytes += more;
            *place += 1;
        }
        cuts.push(*place);
    }

    /// What was fresh is stored. `lasts`: and will be whatever happens now, or whoever hears of it knows whether it will.
    pub(crate) fn append(&mut self, first_offset: i64, lasts: bool) {
        self.appended = true;
        let fresh = std::mem::take(&mut self.fresh);
        if lasts {
            self.extra.skip_to(first_offset);
            self.extra.extend(fresh.iter().map(|index| Some(self.messages[*index].hash)));
        }
        for index in fresh {
            self.verdicts[index] = Verdict::Stored;
        }
    }

    pub(crate) fn tell(self, fates: &mut Vec<Option<Fate>>) {
        let mut from = 0;
        for size in &self.sizes {
            let Some(size) = size else {
                fates.push(Some(Fate::Gone));
                continue;
            };
            let range = from..from + size;
            from = range.end;
            fates.push(match self.ended {
                Some(End::Locked) => None,
                Some(End::Gone) => Some(Fate::Gone),
                Some(End::Shelved) => Some(Fate::Shelved),
                Some(End::Full) => Some(self.full(range)),
                // Others keep appending the same faster than it can be told apart.
                None if !self.fresh.is_empty() => None,
                None => Some(self.stored(range)),
            });
        }
    }

    fn stored(&self, range: Range<usize>) -> Fate {
        Fate::Stored(range.map(|index| self.original(index)).collect())
    }

    /// What is there needs no room.
    fn full(&self, range: Range<usize>) -> Fate {
        let stored: Vec<Option<Uuid>> = range.clone().map(|index| self.there(index)).collect();
        if stored.iter().all(Option::is_some) { self.stored(range) } else { Fate::Full(stored) }
    }

    /// The message that one is a duplicate of.
    fn original(&self, index: usize) -> Option<Uuid> {
        match self.verdicts[index] {
            Verdict::Fresh | Verdict::Stored => None,
            Verdict::DuplicateOf(id) => Some(id),
            Verdict::SameAs(first) => self.original(first).or(Some(self.messages[first].id)),
        }
    }

    /// The message of that transaction id that is in the partition.
    fn there(&self, index: usize) -> Option<Uuid> {
        match self.verdicts[index] {
            Verdict::Fresh => None,
            Verdict::Stored => Some(self.messages[index].id),
            Verdict::DuplicateOf(id) => Some(id),
            Verdict::SameAs(first) => self.there(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn load(revision: i32, transactions: &[&str]) -> Load {
        let sealed = |transaction: &&str| Sealed {
            id: Uuid::now_v7(),
            transaction_id: (*transaction).to_owned(),
            hash: 0,
            payload: Vec::new(),
            trace_id: None,
            producer: None,
        };
        let place = Arc::new(Place::example(7, revision));
        Load { place, messages: transactions.iter().map(sealed).collect(), drains: false }
    }

    /// What was sealed for a queue as it was must not be stored as what the queue is now, whoever boards first; the others go on.
    #[test]
    fn loads_of_another_revision_are_gone() {
        for revisions in [[1, 2, 2], [2, 1, 2], [2, 2, 1]] {
            let loads = revisions.map(|revision| load(revision, &["a", "b"]));
            let mut lanes = Lane::of(&loads.iter().collect::<Vec<_>>());
            assert_eq!((lanes.len(), lanes[0].place.revision, lanes[0].messages.len()), (1, 2, 4));
            let mut lane = lanes.remove(0);
            lane.fresh = (0..4).collect();
            lane.append(0, true);
            let mut fates = Vec::new();
            lane.tell(&mut fates);
            for (revision, fate) in revisions.into_iter().zip(fates) {
                let expected = if revision == 1 { Fate::Gone } else { Fate::Stored(vec![None, None]) };
                assert_eq!(fate, Some(expected));
            }
        }
    }

    /// In a full queue only what is not there is refused: each message of a load is told for itself, and a load of which all is there is stored.
    #[test]
    fn what_is_there_needs_no_room() {
        let loads = [load(1, &["old", "mine", "new", "new"]), load(1, &["old", "mine"])];
        let mut lane = Lane::of(&loads.iter().collect::<Vec<_>>()).remove(0);
        let old = Uuid::now_v7();
        lane.verdicts[..2].copy_from_slice(&[Verdict::DuplicateOf(old), Verdict::Stored]);
        lane.verdicts[3..].copy_from_slice(&[Verdict::SameAs(2), Verdict::SameAs(0), Verdict::SameAs(1)]);
        lane.fresh = vec![2];
        lane.ended = Some(End::Full);
        let mut fates = Vec::new();
        lane.tell(&mut fates);
        let mine = Some(loads[0].messages[1].id);
        let stored = Fate::Stored(vec![Some(old), mine]);
        assert_eq!(fates, [Some(Fate::Full(vec![Some(old), mine, None, None])), Some(stored)]);
    }
}
