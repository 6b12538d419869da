//! Dead letters: exactly the messages beyond the retry limit; and the number of failures before a delivery.

use std::collections::{HashMap, HashSet};

use super::super::log::{AckStatus, Dead, Report, ReportOutcome, queue_of};
use super::{Reader, Violation};

const EARNED: &str = "a dead letter has failed once more than the limit";
const LISTED: &str = "the listed dead letters are exactly the reported ones";
const COUNTED: &str = "a delivery has the number of failures of its first message";

/// Checks a group that was never moved.
pub(super) fn check(reader: &Reader<'_>, listed: &[Dead], limits: &HashMap<String, u32>) -> Vec<Violation> {
    let limit = limits.get(queue_of(reader.partition.name)).copied().unwrap_or(u32::MAX);
    let mut found = earned(reader, limit);
    found.extend(list(reader, listed));
    found.extend(counts(reader));
    found
}

fn earned(reader: &Reader<'_>, limit: u32) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut failures: HashMap<&str, u32> = HashMap::new();
    for report in &reader.reports {
        let ReportOutcome::Counted { dead } = report.outcome else { continue };
        let before = failures.get(report.id.as_str()).copied().unwrap_or(0);
        let should = match report.status {
            AckStatus::DeadLetter => true,
            AckStatus::Failed => before >= limit,
            AckStatus::Completed | AckStatus::Retry => false,
        };
        if dead != should {
            let what = format!("{} {:?} after {before} failures: dead {dead}", report.id, report.status);
            found.push(reader.violation(EARNED, what));
        }
        if report.status == AckStatus::Failed {
            failures.insert(&report.id, before + 1);
        }
    }
    found
}

fn list(reader: &Reader<'_>, listed: &[Dead]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut there: HashSet<&str> = HashSet::new();
    for dead in listed.iter().filter(|dead| dead.group == reader.group && dead.partition == reader.partition.name) {
        if !there.insert(&dead.id) {
            found.push(reader.violation(LISTED, format!("{} is listed twice", dead.id)));
        }
    }
    let given_up = |report: &&&Report| report.outcome == ReportOutcome::Counted { dead: true };
    let perhaps = |report: &&&Report| {
        report.outcome == ReportOutcome::Lost && matches!(report.status, AckStatus::DeadLetter | AckStatus::Failed)
            || given_up(report)
    };
    for report in reader.reports.iter().filter(given_up).filter(|report| !there.contains(report.id.as_str())) {
        found.push(reader.violation(LISTED, format!("{} was given up and is not listed", report.id)));
    }
    let possible: HashSet<&str> = reader.reports.iter().filter(perhaps).map(|report| report.id.as_str()).collect();
    for id in there.difference(&possible) {
        found.push(reader.violation(LISTED, format!("{id} is listed, but no ack made it a dead letter")));
    }
    found
}

fn counts(reader: &Reader<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut failed: HashMap<&str, Vec<&Report>> = HashMap::new();
    for report in reader.reports.iter().filter(|report| report.status == AckStatus::Failed) {
        failed.entry(&report.id).or_default().push(report);
    }
    for delivery in &reader.deliveries {
        let first = &delivery.messages[0].id;
        let reports = failed.get(first.as_str()).map(Vec::as_slice).unwrap_or_default();
        let counted = |report: &&&Report| matches!(report.outcome, ReportOutcome::Counted { .. });
        let surely = reports.iter().filter(counted).filter(|report| report.span.end() < delivery.span.asked).count();
        let perhaps = |report: &&&Report| counted(report) || report.outcome == ReportOutcome::Lost;
        let perhaps = reports.iter().filter(perhaps).filter(|report| report.span.asked < delivery.span.end()).count();
        if !(surely..=perhaps).contains(&(delivery.retries as usize)) {
            let what = format!("{first} came as refused {} times, not {surely} to {perhaps}", delivery.retries);
            found.push(reader.violation(COUNTED, what));
        }
    }
    found
}
