//! The text of a violation with its history.

use std::fmt::Write as _;

use super::judge::Violation;
use super::log::{Log, Timestamp, queue_of};

/// How many violations are shown with their history; later ones usually follow from them.
const SHOWN: usize = 3;
/// The most lines of a history; the last ones are kept.
const LINES: usize = 400;

/// The text to print for violations.
pub(crate) fn report(log: &Log, violations: &[Violation], seed: u64) -> String {
    let mut text = format!("{} violations; REVEILLE_CHECKER_SEED={seed} makes the same choices\n", violations.len());
    for Violation { rule, partition, group, what } in violations {
        let _ = writeln!(text, "{rule}: {partition} {}: {what}", group.as_deref().unwrap_or("(all groups)"));
    }
    for violation in violations.iter().take(SHOWN) {
        let lines = lines(log, &violation.partition, violation.group.as_deref());
        let _ = writeln!(text, "\nthe history of {} and {:?}:", violation.partition, violation.group);
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

fn lines(log: &Log, partition: &str, group: Option<&str>) -> Vec<String> {
    let mine = |one: &str| group.is_none_or(|group| group == one);
    let mut lines: Vec<(Timestamp, String)> = Vec::new();
    for push in log.pushes.iter().filter(|push| push.partition == partition) {
        let what = format!("push {} in request {}: {:?}", push.transaction, push.request, push.outcome);
        lines.push((push.span.asked, format!("{:?} {what}", push.span)));
    }
    for delivery in log.deliveries.iter().filter(|delivery| delivery.partition == partition && mine(&delivery.group)) {
        let messages: Vec<String> =
            delivery.messages.iter().map(|message| format!("{}={}", message.transaction, message.id)).collect();
        let what = format!("{} got lease {} of {:?}", delivery.group, delivery.lease, delivery.lease_for);
        lines.push((delivery.span.asked, format!("{:?} {what}: {}", delivery.span, messages.join(" "))));
    }
    for report in log.reports.iter().filter(|report| report.partition == partition && mine(&report.group)) {
        let what = format!("{} says {:?} of {} under {}", report.group, report.status, report.id, report.lease);
        lines
            .push((report.span.asked, format!("{:?} {what}, call {}: {:?}", report.span, report.call, report.outcome)));
    }
    let leases = log.deliveries.iter().filter(|delivery| delivery.partition == partition && mine(&delivery.group));
    let leases: std::collections::HashSet<&str> = leases.map(|delivery| delivery.lease.as_str()).collect();
    for extension in log.extensions.iter().filter(|extension| leases.contains(extension.lease.as_str())) {
        lines.push((extension.span.asked, format!("{extension:?}")));
    }
    for moved in log.moves.iter().filter(|moved| moved.scope == partition || moved.scope == queue_of(partition)) {
        lines.push((moved.span.asked, format!("{moved:?}")));
    }
    lines.extend(log.crashes.iter().map(|crash| (crash.asked, format!("{crash:?} the database died"))));
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}
