//! Finds the violations of the queue's promises in a log.
//!
//! Clients know only when they sent a request and when they received the response; the effect happened in between. A
//! rule therefore reports a violation only if no time in between explains what was seen: every violation is certain.

mod cursors;
mod leases;
mod letters;
mod order;
mod pushes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::log::{Delivery, Log, Move, Push, PushOutcome, Report, ReportOutcome, Timestamp};

/// A violation of a promise.
#[derive(Debug)]
pub(crate) struct Violation {
    /// Which promise is broken.
    pub(crate) rule: &'static str,
    pub(crate) partition: String,
    /// `None` if it concerns all groups.
    pub(crate) group: Option<String>,
    pub(crate) what: String,
}

/// A partition: its pushes, and the order in which groups read it.
struct Partition<'a> {
    name: &'a str,
    pushes: Vec<&'a Push>,
    births: HashMap<&'a str, Birth>,
    /// The ids of its messages, in the order in which the groups that were never moved read them.
    order: Vec<&'a str>,
    index: HashMap<&'a str, usize>,
    /// The creation time of each message of `order`.
    created: Vec<&'a str>,
}

/// The time between which a message was created.
#[derive(Clone, Copy)]
struct Birth {
    asked: Timestamp,
    heard: Timestamp,
}

impl Partition<'_> {
    /// How many messages had certainly been pushed at that time: up to the last one of which this is known.
    fn surely_before(&self, time: Timestamp) -> usize {
        let known = |id: &&str| self.births.get(*id).is_some_and(|birth| birth.heard <= time);
        self.order.iter().rposition(known).map_or(0, |at| at + 1)
    }

    /// How many messages may have been pushed at that time.
    fn perhaps_before(&self, time: Timestamp) -> usize {
        let known = |id: &&str| self.births.get(*id).is_some_and(|birth| birth.asked < time);
        self.order.iter().rposition(known).map_or(0, |at| at + 1)
    }
}

/// A consumer group in a partition.
struct Reader<'a> {
    partition: &'a Partition<'a>,
    group: &'a str,
    /// In the order of their responses.
    deliveries: Vec<&'a Delivery>,
    /// In the order of their requests.
    reports: Vec<&'a Report>,
    /// In order.
    moves: Vec<&'a Move>,
}

impl Reader<'_> {
    fn violation(&self, rule: &'static str, what: String) -> Violation {
        Violation { rule, partition: self.partition.name.to_owned(), group: Some(self.group.to_owned()), what }
    }

    fn index(&self, id: &str) -> Option<usize> {
        self.partition.index.get(id).copied()
    }
}

/// Checks the log of a run that was drained at its end. `limits` has the `retryLimit` of each queue.
pub(crate) fn judge(log: &Log, limits: &HashMap<String, u32>) -> Vec<Violation> {
    let log = &with_uncertain_acks(log);
    let mut found = Vec::new();
    let names: BTreeSet<&str> = log.pushes.iter().map(|push| push.partition.as_str()).collect();
    let unknown = log.deliveries.iter().filter(|delivery| !names.contains(delivery.partition.as_str()));
    found.extend(unknown.map(|delivery| {
        let what = format!("{} came from where nothing was pushed", delivery.messages[0].id);
        Violation { rule: "nothing is invented", partition: delivery.partition.clone(), group: None, what }
    }));
    for name in names {
        let readers = readers(log, name);
        let partition = partition(log, name, &readers, &mut found);
        for (group, part) in &readers {
            let reader = Reader {
                partition: &partition,
                group,
                deliveries: part.deliveries.clone(),
                reports: part.reports.clone(),
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
        found.extend(order::as_pushed(&partition));
        found.extend(pushes::check(&partition));
    }
    found
}

/// A server that loses its connection repeats an ack; if the lease has ended by then, and the next one too, the ack is
/// rejected as expired although the first was applied.
fn with_uncertain_acks(log: &Log) -> Log {
    let mut log = log.clone();
    for report in log.reports.iter_mut().filter(|report| report.outcome == ReportOutcome::Over) {
        if log.crashes.iter().any(|crash| crash.meets(&report.span)) {
            report.outcome = ReportOutcome::Lost;
        }
    }
    log
}

#[derive(Default)]
struct Part<'a> {
    deliveries: Vec<&'a Delivery>,
    reports: Vec<&'a Report>,
    moves: Vec<&'a Move>,
}

/// The log of each group in a partition.
fn readers<'a>(log: &'a Log, partition: &str) -> BTreeMap<&'a str, Part<'a>> {
    let mut readers: BTreeMap<&str, Part<'_>> = BTreeMap::new();
    // Every group that reads one partition of a queue must have read all of them.
    let queue = super::log::queue_of(partition);
    for delivery in log.deliveries.iter().filter(|delivery| super::log::queue_of(&delivery.partition) == queue) {
        let part = readers.entry(&delivery.group).or_default();
        if delivery.partition == partition {
            part.deliveries.push(delivery);
        }
    }
    for report in log.reports.iter().filter(|report| report.partition == partition) {
        readers.entry(&report.group).or_default().reports.push(report);
    }
    for (group, part) in &mut readers {
        part.deliveries.sort_by_key(|delivery| delivery.span.end());
        part.reports.sort_by_key(|report| (report.span.asked, report.call));
        part.moves = log.moves.iter().filter(|moved| moved.concerns(group, partition)).collect();
        part.moves.sort_by_key(|moved| moved.span.asked);
    }
    readers
}

fn partition<'a>(
    log: &'a Log,
    name: &'a str,
    readers: &BTreeMap<&'a str, Part<'a>>,
    found: &mut Vec<Violation>,
) -> Partition<'a> {
    let pushes: Vec<&Push> = log.pushes.iter().filter(|push| push.partition == name).collect();
    let births = births(&pushes);
    let steady = readers.values().filter(|part| part.moves.is_empty());
    let order = steady.map(|part| first_seen(part)).max_by_key(Vec::len).unwrap_or_default();
    for id in order.iter().map(|(id, _)| *id).filter(|id| !births.contains_key(id)) {
        let what = format!("{id} was delivered and never pushed");
        found.push(Violation { rule: "nothing is invented", partition: name.to_owned(), group: None, what });
    }
    let index = order.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect();
    let (order, created) = order.into_iter().unzip();
    Partition { name, pushes, births, order, index, created }
}

/// When each message was created. If the response was lost, the request is known, and any later response about the
/// message.
fn births<'a>(pushes: &[&'a Push]) -> HashMap<&'a str, Birth> {
    let mut asked: HashMap<&str, Timestamp> = HashMap::new();
    for push in pushes.iter().filter(|push| matches!(push.outcome, PushOutcome::Queued(_) | PushOutcome::Lost)) {
        let first = asked.entry(&push.transaction).or_insert(push.span.asked);
        *first = push.span.asked.min(*first);
    }
    let mut births: HashMap<&str, Birth> = HashMap::new();
    for push in pushes {
        let (PushOutcome::Queued(id) | PushOutcome::Duplicate(id)) = &push.outcome else { continue };
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
