//! A violation with everything that led to it.

use std::fmt::Write as _;

use super::judge::Violation;
use super::log::{Log, Moment, queue_of};

/// Violations that are shown with their history; what follows is usually their consequence.
const SHOWN: usize = 3;
/// Lines of a history at most, the last ones.
const LINES: usize = 400;

/// What to print of violations.
pub(crate) fn report(log: &Log, violations: &[Violation], seed: u64) -> String {
    let mut text = format!("{} violations; REVEILLE_CHECKER_SEED={seed} makes the same choices\n", violations.len());
    for Violation { rule, lane, group, what } in violations {
        let _ = writeln!(text, "{rule}: {lane} {}: {what}", group.as_deref().unwrap_or("(all groups)"));
    }
    for violation in violations.iter().take(SHOWN) {
        let lines = lines(log, &violation.lane, violation.group.as_deref());
        let _ = writeln!(text, "\nthe history of {} and {:?}:", violation.lane, violation.group);
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

fn lines(log: &Log, lane: &str, group: Option<&str>) -> Vec<String> {
    let mine = |one: &str| group.is_none_or(|group| group == one);
    let mut lines: Vec<(Moment, String)> = Vec::new();
    for push in log.pushes.iter().filter(|push| push.lane == lane) {
        let what = format!("push {} in request {}: {:?}", push.transaction, push.request, push.fate);
        lines.push((push.span.asked, format!("{:?} {what}", push.span)));
    }
    for delivery in log.deliveries.iter().filter(|delivery| delivery.lane == lane && mine(&delivery.group)) {
        let messages: Vec<String> =
            delivery.messages.iter().map(|message| format!("{}={}", message.transaction, message.id)).collect();
        let what = format!("{} got lease {} of {:?}", delivery.group, delivery.lease, delivery.lease_for);
        lines.push((delivery.span.asked, format!("{:?} {what}: {}", delivery.span, messages.join(" "))));
    }
    for word in log.words.iter().filter(|word| word.lane == lane && mine(&word.group)) {
        let what = format!("{} says {:?} of {} under {}", word.group, word.said, word.id, word.lease);
        lines.push((word.span.asked, format!("{:?} {what}, call {}: {:?}", word.span, word.call, word.fate)));
    }
    let leases = log.deliveries.iter().filter(|delivery| delivery.lane == lane && mine(&delivery.group));
    let leases: std::collections::HashSet<&str> = leases.map(|delivery| delivery.lease.as_str()).collect();
    for extension in log.extensions.iter().filter(|extension| leases.contains(extension.lease.as_str())) {
        lines.push((extension.span.asked, format!("{extension:?}")));
    }
    for moved in log.moves.iter().filter(|moved| moved.scope == lane || moved.scope == queue_of(lane)) {
        lines.push((moved.span.asked, format!("{moved:?}")));
    }
    lines.extend(log.crashes.iter().map(|crash| (crash.asked, format!("{crash:?} the database died"))));
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}
