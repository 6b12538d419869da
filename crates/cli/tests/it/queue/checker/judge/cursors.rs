//! Cursors: nothing is skipped, nothing that was ended comes again, and a group that was moved is where it was moved to.
//!
//! Between two moves of a group, and for a group that was never moved all the time, the same must hold; such a stretch is an era.

use super::super::log::{Delivery, Moment, Move, Place};
use super::{Reader, Violation};

const SKIPPED: &str = "nothing is skipped";
const AGAIN: &str = "what was ended never comes again";
const MOVED: &str = "a group that was moved is there";
const COMPLETE: &str = "everything is delivered to every group";

/// A stretch between two moves.
struct Era<'a> {
    begun: Option<&'a Move>,
    ended: Option<&'a Move>,
    /// Where it began: between these, in the order of the lane.
    low: usize,
    high: usize,
}

impl Era<'_> {
    /// Whether a delivery was surely made in it.
    fn has(&self, delivery: &Delivery) -> bool {
        delivery.span.asked > self.after() && delivery.span.end() < self.before()
    }

    /// From when on it had surely begun.
    fn after(&self) -> Moment {
        self.begun.map_or(Moment::ZERO, |moved| moved.span.end())
    }

    /// Since when it may have begun.
    fn since(&self) -> Moment {
        self.begun.map_or(Moment::ZERO, |moved| moved.span.asked)
    }

    fn before(&self) -> Moment {
        self.ended.map_or(Moment::MAX, |moved| moved.span.asked)
    }
}

pub(super) fn check(reader: &Reader<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for number in 0..=reader.moves.len() {
        let begun = number.checked_sub(1).map(|before| reader.moves[before]);
        let (low, high) = begun.map_or((0, 0), |moved| place(reader, moved));
        let era = Era { begun, ended: reader.moves.get(number).copied(), low, high };
        found.extend(skipped(reader, &era));
        found.extend(again(reader, &era));
        if era.ended.is_none() {
            found.extend(complete(reader, &era));
        }
    }
    found
}

/// Where a move leads: between these.
fn place(reader: &Reader<'_>, moved: &Move) -> (usize, usize) {
    let lane = reader.lane;
    let (surely, perhaps) = (lane.surely_before(moved.span.asked), lane.perhaps_before(moved.span.end()));
    match &moved.to {
        Place::Beginning => (0, 0),
        Place::End => (surely, perhaps),
        Place::Time(time) => {
            let at = lane.created.iter().position(|created| *created >= time.as_str()).unwrap_or(lane.order.len());
            // What was pushed while the group was moved may be older than the time, and behind.
            (at.min(surely), at)
        }
    }
}

/// Whether a delivery began further than anybody had said that the group is.
fn skipped(reader: &Reader<'_>, era: &Era<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut words = reader.words.iter().peekable();
    let mut covered = era.high;
    for delivery in reader.deliveries.iter().filter(|delivery| era.has(delivery)) {
        while let Some(word) = words.next_if(|word| word.span.asked < delivery.span.end()) {
            if word.may_have_ended() && word.span.end() > era.since() {
                covered = covered.max(reader.index(&word.id).map_or(0, |at| at + 1));
            }
        }
        let Some(first) = reader.index(&delivery.messages[0].id) else { continue };
        if first > covered {
            let what = format!("lease {} begins at number {first}, and all was said up to {covered}", delivery.lease);
            found.push(reader.violation(SKIPPED, what));
        }
    }
    found
}

/// Whether something came that had been ended, or that is before where the group was moved to.
fn again(reader: &Reader<'_>, era: &Era<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut deliveries: Vec<&Delivery> =
        reader.deliveries.iter().copied().filter(|delivery| era.has(delivery)).collect();
    deliveries.sort_by_key(|delivery| delivery.span.asked);
    let mut words: Vec<_> =
        reader.words.iter().filter(|word| word.ended() && word.span.asked > era.after()).copied().collect();
    words.sort_by_key(|word| word.span.end());
    let mut words = words.into_iter().peekable();
    let mut ended = 0;
    for delivery in deliveries {
        while let Some(word) = words.next_if(|word| word.span.end() < delivery.span.asked) {
            ended = ended.max(reader.index(&word.id).map_or(0, |at| at + 1));
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

/// Whether everything came since the group was last moved.
fn complete(reader: &Reader<'_>, era: &Era<'_>) -> Vec<Violation> {
    let mut seen = vec![false; reader.lane.order.len()];
    for delivery in reader.deliveries.iter().filter(|delivery| delivery.span.end() > era.since()) {
        for at in delivery.messages.iter().filter_map(|message| reader.index(&message.id)) {
            seen[at] = true;
        }
    }
    let missing = (era.high..seen.len()).filter(|at| !seen[*at]);
    let missing: Vec<&str> = missing.map(|at| reader.lane.order[at]).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    vec![reader.violation(COMPLETE, format!("{} never came: {:?}", missing.len(), &missing[..missing.len().min(5)]))]
}
