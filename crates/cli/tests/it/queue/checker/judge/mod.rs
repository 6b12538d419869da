//! The judgement: a log in, violations of what the queue promises out.
//!
//! Clients know only when they asked and when they heard; what happened, happened in between. So a rule accuses only if no moment in between makes what was seen
//! right, and everything it accuses of is wrong for sure.

mod cursors;
mod leases;
mod letters;
mod order;
mod pushes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::log::{Delivery, Log, Moment, Move, Push, PushFate, Word, WordFate};

/// What must not have happened.
#[derive(Debug)]
pub(crate) struct Violation {
    /// Which promise is broken.
    pub(crate) rule: &'static str,
    pub(crate) lane: String,
    /// `None`: of all groups.
    pub(crate) group: Option<String>,
    pub(crate) what: String,
}

/// A partition: what was pushed to it, and in which order groups read it.
struct Lane<'a> {
    name: &'a str,
    pushes: Vec<&'a Push>,
    births: HashMap<&'a str, Birth>,
    /// The ids of its messages, in the order in which the groups that were never moved read them.
    order: Vec<&'a str>,
    index: HashMap<&'a str, usize>,
    /// Of each message of `order`.
    created: Vec<&'a str>,
}

/// Between which moments a message came to be.
#[derive(Clone, Copy)]
struct Birth {
    asked: Moment,
    heard: Moment,
}

impl Lane<'_> {
    /// How many messages had surely been pushed at that moment: up to the last of which that is known.
    fn surely_before(&self, moment: Moment) -> usize {
        let known = |id: &&str| self.births.get(*id).is_some_and(|birth| birth.heard <= moment);
        self.order.iter().rposition(known).map_or(0, |at| at + 1)
    }

    /// How many messages may have been pushed at that moment.
    fn perhaps_before(&self, moment: Moment) -> usize {
        let known = |id: &&str| self.births.get(*id).is_some_and(|birth| birth.asked < moment);
        self.order.iter().rposition(known).map_or(0, |at| at + 1)
    }
}

/// A consumer group in a partition.
struct Reader<'a> {
    lane: &'a Lane<'a>,
    group: &'a str,
    /// In the order in which they were heard.
    deliveries: Vec<&'a Delivery>,
    /// In the order in which they were said.
    words: Vec<&'a Word>,
    /// One after the other.
    moves: Vec<&'a Move>,
}

impl Reader<'_> {
    fn violation(&self, rule: &'static str, what: String) -> Violation {
        Violation { rule, lane: self.lane.name.to_owned(), group: Some(self.group.to_owned()), what }
    }

    fn index(&self, id: &str) -> Option<usize> {
        self.lane.index.get(id).copied()
    }
}

/// Judges a log of a run that was drained at its end. `limits`: the `retryLimit` of each queue.
pub(crate) fn judge(log: &Log, limits: &HashMap<String, u32>) -> Vec<Violation> {
    let log = &doubted(log);
    let mut found = Vec::new();
    let names: BTreeSet<&str> = log.pushes.iter().map(|push| push.lane.as_str()).collect();
    let strangers = log.deliveries.iter().filter(|delivery| !names.contains(delivery.lane.as_str()));
    found.extend(strangers.map(|delivery| {
        let what = format!("{} came from where nothing was pushed", delivery.messages[0].id);
        Violation { rule: "nothing is invented", lane: delivery.lane.clone(), group: None, what }
    }));
    for name in names {
        let readers = readers(log, name);
        let lane = lane(log, name, &readers, &mut found);
        for (group, part) in &readers {
            let reader = Reader {
                lane: &lane,
                group,
                deliveries: part.deliveries.clone(),
                words: part.words.clone(),
                moves: part.moves.clone(),
            };
            found.extend(order::runs(&reader));
            found.extend(cursors::check(&reader));
            found.extend(leases::check(&reader, log));
            if reader.moves.is_empty() {
                found.extend(order::agrees(&reader));
                found.extend(letters::check(&reader, &log.dead, limits));
            }
        }
        found.extend(order::as_pushed(&lane));
        found.extend(pushes::check(&lane));
    }
    found
}

/// A server that loses its connection says an ack again; if the lease has ended by then, and the one after it too, it hears that the lease is over though the first counted.
fn doubted(log: &Log) -> Log {
    let mut log = log.clone();
    for word in log.words.iter_mut().filter(|word| word.fate == WordFate::Over) {
        if log.crashes.iter().any(|crash| crash.meets(&word.span)) {
            word.fate = WordFate::Lost;
        }
    }
    log
}

#[derive(Default)]
struct Part<'a> {
    deliveries: Vec<&'a Delivery>,
    words: Vec<&'a Word>,
    moves: Vec<&'a Move>,
}

/// What concerns each group in a lane.
fn readers<'a>(log: &'a Log, lane: &str) -> BTreeMap<&'a str, Part<'a>> {
    let mut readers: BTreeMap<&str, Part<'_>> = BTreeMap::new();
    // Every group that reads a lane anywhere should have read this one of the same queue.
    let queue = super::log::queue_of(lane);
    for delivery in log.deliveries.iter().filter(|delivery| super::log::queue_of(&delivery.lane) == queue) {
        let part = readers.entry(&delivery.group).or_default();
        if delivery.lane == lane {
            part.deliveries.push(delivery);
        }
    }
    for word in log.words.iter().filter(|word| word.lane == lane) {
        readers.entry(&word.group).or_default().words.push(word);
    }
    for (group, part) in &mut readers {
        part.deliveries.sort_by_key(|delivery| delivery.span.end());
        part.words.sort_by_key(|word| (word.span.asked, word.call));
        part.moves = log.moves.iter().filter(|moved| moved.concerns(group, lane)).collect();
        part.moves.sort_by_key(|moved| moved.span.asked);
    }
    readers
}

fn lane<'a>(
    log: &'a Log,
    name: &'a str,
    readers: &BTreeMap<&'a str, Part<'a>>,
    found: &mut Vec<Violation>,
) -> Lane<'a> {
    let pushes: Vec<&Push> = log.pushes.iter().filter(|push| push.lane == name).collect();
    let births = births(&pushes);
    let steady = readers.values().filter(|part| part.moves.is_empty());
    let order = steady.map(|part| first_seen(part)).max_by_key(Vec::len).unwrap_or_default();
    for id in order.iter().map(|(id, _)| *id).filter(|id| !births.contains_key(id)) {
        let what = format!("{id} was delivered and never pushed");
        found.push(Violation { rule: "nothing is invented", lane: name.to_owned(), group: None, what });
    }
    let index = order.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect();
    let (order, created) = order.into_iter().unzip();
    Lane { name, pushes, births, order, index, created }
}

/// When each message came to be. Of one whose answer was lost, what is known is the question, and any later answer about it.
fn births<'a>(pushes: &[&'a Push]) -> HashMap<&'a str, Birth> {
    let mut asked: HashMap<&str, Moment> = HashMap::new();
    for push in pushes.iter().filter(|push| matches!(push.fate, PushFate::Queued(_) | PushFate::Lost)) {
        let first = asked.entry(&push.transaction).or_insert(push.span.asked);
        *first = push.span.asked.min(*first);
    }
    let mut births: HashMap<&str, Birth> = HashMap::new();
    for push in pushes {
        let (PushFate::Queued(id) | PushFate::Duplicate(id)) = &push.fate else { continue };
        let Some(asked) = asked.get(push.transaction.as_str()).copied() else { continue };
        let birth = births.entry(id).or_insert(Birth { asked, heard: push.span.end() });
        birth.heard = birth.heard.min(push.span.end());
    }
    births
}

/// The messages of a group in the order in which it first saw them, with the time of each.
fn first_seen<'a>(part: &Part<'a>) -> Vec<(&'a str, &'a str)> {
    let mut seen = BTreeSet::new();
    let messages = part.deliveries.iter().flat_map(|delivery| &delivery.messages);
    let first = messages.filter(|message| seen.insert(message.id.as_str()));
    first.map(|message| (message.id.as_str(), message.created.as_str())).collect()
}
