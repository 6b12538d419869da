//! Cursors: no message is skipped, no ended message is delivered again, and a moved group continues at its new
//! position.
//!
//! The rules hold between two moves of a group, called an era; a group that was never moved has one era.

use super::super::log::{Delivery, Move, Position, Timestamp};
use super::{Reader, Violation};

const SKIPPED: &str = "no message is skipped";
const AGAIN: &str = "an ended message is never delivered again";
const MOVED: &str = "a moved group continues at its new position";
const COMPLETE: &str = "every message is delivered to every group";

/// The time between two moves.
struct Era<'a> {
    begun: Option<&'a Move>,
    ended: Option<&'a Move>,
    /// Its first position lies between these, in the order of the partition.
    low: usize,
    high: usize,
}

impl Era<'_> {
    /// Whether a delivery certainly belongs to it.
    fn has(&self, delivery: &Delivery) -> bool {
        delivery.span.asked > self.after() && delivery.span.end() < self.before()
    }

    /// The time at which it had certainly begun.
    fn after(&self) -> Timestamp {
        self.begun.map_or(Timestamp::ZERO, |moved| moved.span.end())
    }

    /// The earliest time at which it may have begun.
    fn since(&self) -> Timestamp {
        self.begun.map_or(Timestamp::ZERO, |moved| moved.span.asked)
    }

    fn before(&self) -> Timestamp {
        self.ended.map_or(Timestamp::MAX, |moved| moved.span.asked)
    }
}

pub(super) fn check(reader: &Reader<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for number in 0..=reader.moves.len() {
        let begun = number.checked_sub(1).map(|before| reader.moves[before]);
        let (low, high) = begun.map_or((0, 0), |moved| position(reader, moved));
        let era = Era { begun, ended: reader.moves.get(number).copied(), low, high };
        found.extend(skipped(reader, &era));
        found.extend(again(reader, &era));
        if era.ended.is_none() {
            found.extend(complete(reader, &era));
        }
    }
    found
}

/// The target of a move lies between these positions.
fn position(reader: &Reader<'_>, moved: &Move) -> (usize, usize) {
    let partition = reader.partition;
    let (surely, perhaps) = (partition.surely_before(moved.span.asked), partition.perhaps_before(moved.span.end()));
    match &moved.to {
        Position::Beginning => (0, 0),
        Position::End => (surely, perhaps),
        Position::Time(time) => {
            let at =
                partition.created.iter().position(|created| *created >= time.as_str()).unwrap_or(partition.order.len());
            // A message that was pushed during the move may be older than the target time and come later.
            (at.min(surely), at)
        }
    }
}

/// Whether a delivery began after the position that was acked.
fn skipped(reader: &Reader<'_>, era: &Era<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut reports = reader.reports.iter().peekable();
    let mut covered = era.high;
    for delivery in reader.deliveries.iter().filter(|delivery| era.has(delivery)) {
        while let Some(report) = reports.next_if(|report| report.span.asked < delivery.span.end()) {
            if report.may_have_ended() && report.span.end() > era.since() {
                covered = covered.max(reader.index(&report.id).map_or(0, |at| at + 1));
            }
        }
        let Some(first) = reader.index(&delivery.messages[0].id) else { continue };
        if first > covered {
            let what =
                format!("lease {} begins at number {first}, and messages were acked up to {covered}", delivery.lease);
            found.push(reader.violation(SKIPPED, what));
        }
    }
    found
}

/// Whether a message was delivered that had been ended, or that lies before the target of a move.
fn again(reader: &Reader<'_>, era: &Era<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut deliveries: Vec<&Delivery> =
        reader.deliveries.iter().copied().filter(|delivery| era.has(delivery)).collect();
    deliveries.sort_by_key(|delivery| delivery.span.asked);
    let mut reports: Vec<_> =
        reader.reports.iter().filter(|report| report.ended() && report.span.asked > era.after()).copied().collect();
    reports.sort_by_key(|report| report.span.end());
    let mut reports = reports.into_iter().peekable();
    let mut ended = 0;
    for delivery in deliveries {
        while let Some(report) = reports.next_if(|report| report.span.end() < delivery.span.asked) {
            ended = ended.max(reader.index(&report.id).map_or(0, |at| at + 1));
        }
        let Some(first) = reader.index(&delivery.messages[0].id) else { continue };
        let lease = &delivery.lease;
        if first < ended {
            let what = format!("lease {lease} begins at number {first}, and all was ended up to {ended}");
            found.push(reader.violation(AGAIN, what));
        }
        if first < era.low {
            let what = format!("lease {lease} begins at number {first}, and the group was moved to {}", era.low);
            found.push(reader.violation(MOVED, what));
        }
    }
    found
}

/// Whether every message was delivered since the last move.
fn complete(reader: &Reader<'_>, era: &Era<'_>) -> Vec<Violation> {
    let mut seen = vec![false; reader.partition.order.len()];
    for delivery in reader.deliveries.iter().filter(|delivery| delivery.span.end() > era.since()) {
        for at in delivery.messages.iter().filter_map(|message| reader.index(&message.id)) {
            seen[at] = true;
        }
    }
    let missing = (era.high..seen.len()).filter(|at| !seen[*at]);
    let missing: Vec<&str> = missing.map(|at| reader.partition.order[at]).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    vec![reader.violation(COMPLETE, format!("{} never came: {:?}", missing.len(), &missing[..missing.len().min(5)]))]
}
