//! Pushes: each transaction id is one message, whichever client pushes it and however often.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::super::log::PushOutcome;
use super::{Partition, Violation};

const ONE: &str = "a transaction id is one message";
const ROLLED_BACK: &str = "a rolled-back message is never delivered";
const DELIVERED: &str = "every pushed message is delivered";

#[derive(Default)]
struct Seen<'a> {
    ids: BTreeSet<&'a str>,
    queued: usize,
    lost: usize,
    rolled_back: usize,
}

/// Whether exactly the duplicates were recognised, and every message arrived.
pub(super) fn check(partition: &Partition<'_>) -> Vec<Violation> {
    let violation = |rule, what| Violation { rule, partition: partition.name.to_owned(), group: None, what };
    let mut found = Vec::new();
    let mut seen: HashMap<&str, Seen<'_>> = HashMap::new();
    for push in &partition.pushes {
        let seen = seen.entry(&push.transaction).or_default();
        match &push.outcome {
            PushOutcome::Queued(id) => {
                seen.queued += 1;
                seen.ids.insert(id);
            }
            PushOutcome::Duplicate(id) => drop(seen.ids.insert(id)),
            PushOutcome::Lost => seen.lost += 1,
            PushOutcome::RolledBack => seen.rolled_back += 1,
        }
    }
    let mut owners: HashSet<&str> = HashSet::new();
    for (transaction, seen) in &seen {
        let known = seen.queued + seen.lost > 0;
        if seen.rolled_back > 0 && !known && !seen.ids.is_empty() {
            found.push(violation(ROLLED_BACK, format!("{transaction} is there")));
        } else if seen.ids.len() > 1 || seen.queued > 1 || seen.queued == 0 && seen.lost == 0 && !seen.ids.is_empty() {
            let Seen { ids, queued, lost, .. } = seen;
            let what = format!("{transaction} is {ids:?}: queued {queued} times, {lost} answers lost");
            found.push(violation(ONE, what));
        }
        for id in &seen.ids {
            if !owners.insert(id) {
                found.push(violation(ONE, format!("{id} is several transaction ids, {transaction} among them")));
            }
            if !partition.index.contains_key(id) {
                found.push(violation(DELIVERED, format!("{transaction}, {id} was pushed but never delivered")));
            }
        }
    }
    found
}
