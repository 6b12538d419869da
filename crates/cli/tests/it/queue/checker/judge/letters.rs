//! Dead letters: those that earned it, and no others; and how often a message was refused before.

use std::collections::{HashMap, HashSet};

use super::super::log::{Dead, Said, Word, WordFate, queue_of};
use super::{Reader, Violation};

const EARNED: &str = "a dead letter was refused once more than the limit";
const LISTED: &str = "dead letters are exactly those given up";
const COUNTED: &str = "a delivery says how often its first message was refused";

/// Checks a group that was never moved.
pub(super) fn check(reader: &Reader<'_>, listed: &[Dead], limits: &HashMap<String, u32>) -> Vec<Violation> {
    let limit = limits.get(queue_of(reader.lane.name)).copied().unwrap_or(u32::MAX);
    let mut found = earned(reader, limit);
    found.extend(list(reader, listed));
    found.extend(counts(reader));
    found
}

fn earned(reader: &Reader<'_>, limit: u32) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut failures: HashMap<&str, u32> = HashMap::new();
    for word in &reader.words {
        let WordFate::Counted { dead } = word.fate else { continue };
        let before = failures.get(word.id.as_str()).copied().unwrap_or(0);
        let should = match word.said {
            Said::DeadLetter => true,
            Said::Failed => before >= limit,
            Said::Completed | Said::Retry => false,
        };
        if dead != should {
            let what = format!("{} {:?} after {before} failures: dead {dead}", word.id, word.said);
            found.push(reader.violation(EARNED, what));
        }
        if word.said == Said::Failed {
            failures.insert(&word.id, before + 1);
        }
    }
    found
}

fn list(reader: &Reader<'_>, listed: &[Dead]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut there: HashSet<&str> = HashSet::new();
    for dead in listed.iter().filter(|dead| dead.group == reader.group && dead.lane == reader.lane.name) {
        if !there.insert(&dead.id) {
            found.push(reader.violation(LISTED, format!("{} is listed twice", dead.id)));
        }
    }
    let given_up = |word: &&&Word| word.fate == WordFate::Counted { dead: true };
    let perhaps = |word: &&&Word| {
        word.fate == WordFate::Lost && matches!(word.said, Said::DeadLetter | Said::Failed) || given_up(word)
    };
    for word in reader.words.iter().filter(given_up).filter(|word| !there.contains(word.id.as_str())) {
        found.push(reader.violation(LISTED, format!("{} was given up and is not listed", word.id)));
    }
    let possible: HashSet<&str> = reader.words.iter().filter(perhaps).map(|word| word.id.as_str()).collect();
    for id in there.difference(&possible) {
        found.push(reader.violation(LISTED, format!("{id} is listed and nobody gave it up")));
    }
    found
}

fn counts(reader: &Reader<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut failed: HashMap<&str, Vec<&Word>> = HashMap::new();
    for word in reader.words.iter().filter(|word| word.said == Said::Failed) {
        failed.entry(&word.id).or_default().push(word);
    }
    for delivery in &reader.deliveries {
        let first = &delivery.messages[0].id;
        let words = failed.get(first.as_str()).map(Vec::as_slice).unwrap_or_default();
        let counted = |word: &&&Word| matches!(word.fate, WordFate::Counted { .. });
        let surely = words.iter().filter(counted).filter(|word| word.span.end() < delivery.span.asked).count();
        let perhaps = |word: &&&Word| counted(word) || word.fate == WordFate::Lost;
        let perhaps = words.iter().filter(perhaps).filter(|word| word.span.asked < delivery.span.end()).count();
        if !(surely..=perhaps).contains(&(delivery.retries as usize)) {
            let what = format!("{first} came as refused {} times, not {surely} to {perhaps}", delivery.retries);
            found.push(reader.violation(COUNTED, what));
        }
    }
    found
}
