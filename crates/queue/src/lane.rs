//! The messages of one flight for one partition: what is new among them, and what is known of the partition.

use uuid::Uuid;

use crate::place::Place;
use crate::push::{Fate, Load, Sealed};
use crate::seen::{Offsets, Seen};

/// What is known of a partition beyond what is remembered.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) from: Option<i64>,
    pub(crate) upto: i64,
    /// `from` is where the partition begins.
    pub(crate) begins: bool,
    pub(crate) hashes: Vec<Option<i64>>,
    pub(crate) offsets: Offsets,
}

impl Extra {
    pub(crate) fn from(offset: i64) -> Extra {
        Extra { from: Some(offset), upto: offset, begins: true, ..Extra::default() }
    }

    /// What lies between was removed.
    pub(crate) fn skip_to(&mut self, offset: i64) {
        while self.upto < offset {
            self.hashes.push(None);
            self.upto += 1;
        }
    }

    pub(crate) fn extend(&mut self, hashes: Vec<Option<i64>>) {
        for (hash, offset) in hashes.iter().zip(self.upto..) {
            if let Some(hash) = hash {
                self.offsets.entry(*hash).or_insert(offset);
            }
        }
        self.upto += hashes.len() as i64;
        self.hashes.extend(hashes);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fresh,
    /// It is in the partition.
    Stored,
    DuplicateOf(Uuid),
    /// As another of the same flight.
    SameAs(usize),
}

/// The loads of one partition.
pub(crate) struct Lane<'a> {
    pub(crate) place: &'a Place,
    /// How many messages each load has.
    pub(crate) sizes: Vec<usize>,
    pub(crate) messages: Vec<&'a Sealed>,
    pub(crate) verdicts: Vec<Verdict>,
    /// Those to append.
    pub(crate) fresh: Vec<usize>,
    /// They were.
    appended: bool,
    pub(crate) extra: Extra,
    pub(crate) drains: bool,
    /// Its fate, if that is not what the verdicts say.
    pub(crate) ended: Option<Option<Fate>>,
}

impl<'a> Lane<'a> {
    pub(crate) fn of(loads: &[&'a Load]) -> Vec<Lane<'a>> {
        let mut lanes: Vec<Lane<'a>> = Vec::new();
        for load in loads {
            let known = lanes.last_mut().filter(|lane| lane.place.id == load.place.id);
            let lane = match known {
                Some(lane) => lane,
                None => {
                    lanes.push(Lane {
                        place: &load.place,
                        sizes: Vec::new(),
                        messages: Vec::new(),
                        verdicts: Vec::new(),
                        fresh: Vec::new(),
                        appended: false,
                        extra: Extra::default(),
                        drains: true,
                        ended: None,
                    });
                    lanes.last_mut().expect("just pushed")
                }
            };
            lane.sizes.push(load.messages.len());
            lane.messages.extend(&load.messages);
            lane.verdicts.resize(lane.messages.len(), Verdict::Fresh);
            lane.drains &= load.drains;
        }
        lanes
    }

    /// Whether something has still to be found out about it.
    pub(crate) fn is_open(&self) -> bool {
        self.ended.is_none() && !self.appended
    }

    /// Whether there is something to append.
    pub(crate) fn is_eager(&self) -> bool {
        self.ended.is_none() && !self.fresh.is_empty()
    }

    pub(crate) fn append(&mut self, first_offset: i64) {
        self.appended = true;
        self.extra.skip_to(first_offset);
        let fresh = std::mem::take(&mut self.fresh);
        self.extra.extend(fresh.iter().map(|index| Some(self.messages[*index].hash)).collect());
        for index in fresh {
            self.verdicts[index] = Verdict::Stored;
        }
    }

    pub(crate) fn teach(&self, seen: &mut Seen) {
        if let Some(from) = self.extra.from {
            seen.learn(self.place.id, from, &self.extra.hashes, self.extra.begins);
        }
    }

    pub(crate) fn tell(self, fates: &mut Vec<Option<Fate>>) {
        let mut from = 0;
        for size in self.sizes {
            let told = match &self.ended {
                Some(fate) => fate.clone(),
                // Others keep appending the same faster than it can be told apart.
                None if !self.fresh.is_empty() => None,
                None => Some(Fate::Stored(
                    (from..from + size).map(|index| original(&self.verdicts, &self.messages, index)).collect(),
                )),
            };
            fates.push(told);
            from += size;
        }
    }
}

fn original(verdicts: &[Verdict], messages: &[&Sealed], index: usize) -> Option<Uuid> {
    match verdicts[index] {
        Verdict::Fresh | Verdict::Stored => None,
        Verdict::DuplicateOf(id) => Some(id),
        Verdict::SameAs(first) => original(verdicts, messages, first).or(Some(messages[first].id)),
    }
}
