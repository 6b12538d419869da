//! Leases: one at a time; an ack is applied before the lease has expired, and rejected afterwards.

use std::collections::HashMap;
use std::time::Duration;

use super::super::log::{AckStatus, Delivery, Log, Report, ReportOutcome, Span, Timestamp};
use super::{Reader, Violation};

const ONE: &str = "one lease at a time";
const LASTS: &str = "an ack under a current lease is applied";
const FENCED: &str = "an ack under an expired lease changes nothing";
const STOPS: &str = "an ack after a failure in a call is not applied";

/// A lease that is older than this survives a crash of the database; younger ones may be lost.
const FORGOTTEN: Duration = Duration::from_secs(1);
/// How far two clocks may drift apart.
const TOLERANCE: Duration = Duration::from_millis(50);

pub(super) fn check(reader: &Reader<'_>, log: &Log) -> Vec<Violation> {
    let mut reports: HashMap<&str, Vec<&Report>> = HashMap::new();
    for report in &reader.reports {
        reports.entry(&report.lease).or_default().push(report);
    }
    let followed = Followed::by(reader);
    let (mut found, mut spans) = (Vec::new(), Vec::new());
    for delivery in &reader.deliveries {
        let reports = reports.get(delivery.lease.as_str()).map(Vec::as_slice).unwrap_or_default();
        let lasting = lasting(reader, delivery, log);
        let released = reports.iter().filter(|report| releases(report, delivery)).map(|report| report.span.asked);
        let released = released.min().unwrap_or(Timestamp::MAX);
        let cut = lasting.iter().map(|(from, to)| (*from, *to.min(&released), delivery.lease.as_str()));
        spans.extend(cut.filter(|(from, to, _)| from < to));
        found.extend(lasts(reader, delivery, reports, &lasting));
        found.extend(fenced(reader, reports, followed.after(delivery)));
    }
    found.extend(overlaps(reader, spans));
    found.extend(stops(reader));
    found
}

/// When the first response with a lease that was requested after a given time was received.
struct Followed(Vec<(Timestamp, Timestamp)>);

impl Followed {
    fn by(reader: &Reader<'_>) -> Followed {
        let span = |delivery: &&Delivery| (delivery.span.asked, delivery.span.end());
        let mut all: Vec<(Timestamp, Timestamp)> = reader.deliveries.iter().map(span).collect();
        all.sort_unstable();
        let mut first = Timestamp::MAX;
        for (_, heard) in all.iter_mut().rev() {
            first = first.min(*heard);
            *heard = first;
        }
        Followed(all)
    }

    /// When another lease had certainly followed it.
    fn after(&self, delivery: &Delivery) -> Timestamp {
        let later = self.0.partition_point(|(asked, _)| *asked <= delivery.span.end());
        self.0.get(later).map_or(Timestamp::MAX, |(_, heard)| *heard)
    }
}

/// When a lease was certainly held, apart from the acks of its holder.
fn lasting(reader: &Reader<'_>, delivery: &Delivery, log: &Log) -> Vec<(Timestamp, Timestamp)> {
    let births = delivery.messages.iter().filter_map(|message| reader.partition.births.get(message.id.as_str()));
    let begun = births.map(|birth| birth.asked).fold(delivery.span.asked, Timestamp::max);
    let first = (delivery.span.end(), (begun + delivery.lease_for).saturating_sub(TOLERANCE));
    let longer = log.extensions.iter().filter(|extension| extension.success && extension.lease == delivery.lease);
    let longer =
        longer.map(|extension| (extension.span.end(), (extension.span.asked + extension.by).saturating_sub(TOLERANCE)));
    let moved = reader.moves.iter().filter(|moved| moved.span.end() > delivery.span.asked);
    let moved = moved.map(|moved| moved.span.asked).min().unwrap_or(Timestamp::MAX);
    let young = |crash: &&Span| crash.end() > delivery.span.asked && crash.asked < delivery.span.end() + FORGOTTEN;
    let forgotten = log.crashes.iter().filter(young).map(|crash| crash.asked).min().unwrap_or(Timestamp::MAX);
    std::iter::once(first)
        .chain(longer)
        .map(|(from, to)| (from, to.min(moved).min(forgotten)))
        .filter(|(from, to)| from < to)
        .collect()
}

/// Whether an ack may end the lease.
fn releases(report: &Report, delivery: &Delivery) -> bool {
    let last = delivery.messages.last().is_some_and(|message| message.id == report.id);
    last || matches!(report.status, AckStatus::Failed | AckStatus::Retry)
}

/// Whether two leases were certainly held at the same time.
fn overlaps(reader: &Reader<'_>, mut spans: Vec<(Timestamp, Timestamp, &str)>) -> Vec<Violation> {
    spans.sort_unstable();
    let mut found = Vec::new();
    let mut last: Option<(Timestamp, Timestamp, &str)> = None;
    for span in spans {
        if let Some((_, to, lease)) = last.filter(|last| span.0 < last.1 && span.2 != last.2) {
            let what = format!("lease {lease} lasted until {to:?}, and {} was there at {:?}", span.2, span.0);
            found.push(reader.violation(ONE, what));
        }
        if last.is_none_or(|last| last.1 < span.1) {
            last = Some(span);
        }
    }
    found
}

/// Whether an ack was rejected while the lease was certainly held.
fn lasts(
    reader: &Reader<'_>,
    delivery: &Delivery,
    reports: &[&Report],
    lasting: &[(Timestamp, Timestamp)],
) -> Vec<Violation> {
    let refused = reports.iter().filter(|report| {
        let earlier = reports.iter().any(|other| other.call < report.call && releases(other, delivery));
        let during = lasting.iter().any(|(from, to)| *from <= report.span.asked && report.span.end() <= *to);
        matches!(report.outcome, ReportOutcome::Over | ReportOutcome::Refused) && during && !earlier
    });
    refused.map(|report| reader.violation(LASTS, format!("{:?} of {} was refused", report.status, report.id))).collect()
}

/// Whether an ack was applied after another lease had followed, without the same ack from the new holder.
fn fenced(reader: &Reader<'_>, reports: &[&Report], over: Timestamp) -> Vec<Violation> {
    let late = reports.iter().filter(|report| report.ended() && report.span.asked > over).filter(|report| {
        let at = reader.index(&report.id);
        let covers = |other: &&Report| {
            let before = other.call != report.call && other.span.asked < report.span.end();
            before && other.may_have_ended() && reader.index(&other.id) >= at
        };
        !reader.reports.iter().copied().any(|other| covers(&other))
    });
    late.map(|report| reader.violation(FENCED, format!("{:?} of {} counted", report.status, report.id))).collect()
}

/// Whether a message was ended in a call in which an earlier one of the partition failed, or was rejected without such
/// a failure.
fn stops(reader: &Reader<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in reader.reports.chunk_by(|a, b| a.call == b.call) {
        let mut stopped = false;
        for report in call {
            if stopped != (report.outcome == ReportOutcome::Behind)
                && (report.ended() || report.outcome == ReportOutcome::Behind)
            {
                let what = format!("{:?} of {}: {:?}", report.status, report.id, report.outcome);
                found.push(reader.violation(STOPS, what));
            }
            let counted = report.outcome == ReportOutcome::Counted { dead: false };
            stopped |= counted && matches!(report.status, AckStatus::Failed | AckStatus::Retry);
        }
    }
    found
}
