//! Order: that of the pushes, the same for all groups, without gaps.

use std::collections::HashMap;

use super::super::log::{PushOutcome, Timestamp};
use super::{Partition, Reader, Violation};

const SAME: &str = "all groups see the same order";
const RUNS: &str = "a lease has consecutive messages";
const PUSHED: &str = "order is commit order";

/// Whether a group that was never moved saw the messages in the same order as the others.
pub(super) fn agrees(reader: &Reader<'_>) -> Vec<Violation> {
    let mut next = 0;
    for delivery in &reader.deliveries {
        for message in &delivery.messages {
            match reader.index(&message.id) {
                Some(at) if at < next => {}
                Some(at) if at == next => next += 1,
                at => {
                    let what = format!("{} is number {at:?} for others, and came here as number {next}", message.id);
                    return vec![reader.violation(SAME, what)];
                }
            }
        }
    }
    Vec::new()
}

/// Whether each delivery is a run of that order.
pub(super) fn runs(reader: &Reader<'_>) -> Vec<Violation> {
    let broken = reader.deliveries.iter().filter(|delivery| {
        let positions: Vec<Option<usize>> = delivery.messages.iter().map(|message| reader.index(&message.id)).collect();
        !positions.windows(2).all(|pair| matches!(pair, [Some(a), Some(b)] if a + 1 == *b))
    });
    broken.map(|delivery| reader.violation(RUNS, format!("lease {} has something else", delivery.lease))).collect()
}

/// Whether the order is that of the pushes: within a request, and between requests that did not overlap.
pub(super) fn as_pushed(partition: &Partition<'_>) -> Vec<Violation> {
    let violation = |what| Violation { rule: PUSHED, partition: partition.name.to_owned(), group: None, what };
    let mut found = Vec::new();
    let mut earliest: (Timestamp, &str) = (Timestamp::MAX, "");
    for id in partition.order.iter().rev() {
        let Some(birth) = partition.births.get(id) else { continue };
        if earliest.0 < birth.asked {
            found.push(violation(format!("{id} comes before {}, which was pushed earlier", earliest.1)));
        }
        if birth.heard < earliest.0 {
            earliest = (birth.heard, id);
        }
    }
    let mut last: HashMap<u64, usize> = HashMap::new();
    for push in &partition.pushes {
        let PushOutcome::Queued(id) = &push.outcome else { continue };
        let Some(at) = partition.index.get(id.as_str()).copied() else { continue };
        if last.insert(push.request, at).is_some_and(|before| before > at) {
            found.push(violation(format!("{id} overtook another of its request")));
        }
    }
    found
}
