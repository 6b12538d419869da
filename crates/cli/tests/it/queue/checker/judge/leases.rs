//! Leases: one at a time, worth something while it lasts, and nothing afterwards.

use std::collections::HashMap;
use std::time::Duration;

use super::super::log::{Delivery, Log, Moment, Said, Span, Word, WordFate};
use super::{Reader, Violation};

const ONE: &str = "one lease at a time";
const LASTS: &str = "what is said under a lease that lasts counts";
const FENCED: &str = "what is said under a lease that is over changes nothing";
const STOPS: &str = "what follows a failure in a call does not count";

/// A lease that is older than this survives a crash of the database; younger ones may be forgotten.
const FORGOTTEN: Duration = Duration::from_secs(1);
/// How far two clocks may be apart that run at the same speed.
const DOUBT: Duration = Duration::from_millis(50);

pub(super) fn check(reader: &Reader<'_>, log: &Log) -> Vec<Violation> {
    let mut words: HashMap<&str, Vec<&Word>> = HashMap::new();
    for word in &reader.words {
        words.entry(&word.lease).or_default().push(word);
    }
    let followed = Followed::by(reader);
    let (mut found, mut spans) = (Vec::new(), Vec::new());
    for delivery in &reader.deliveries {
        let words = words.get(delivery.lease.as_str()).map(Vec::as_slice).unwrap_or_default();
        let lasting = lasting(reader, delivery, log);
        let released = words.iter().filter(|word| releases(word, delivery)).map(|word| word.span.asked);
        let released = released.min().unwrap_or(Moment::MAX);
        let cut = lasting.iter().map(|(from, to)| (*from, *to.min(&released), delivery.lease.as_str()));
        spans.extend(cut.filter(|(from, to, _)| from < to));
        found.extend(lasts(reader, delivery, words, &lasting));
        found.extend(fenced(reader, words, followed.after(delivery)));
    }
    found.extend(overlaps(reader, spans));
    found.extend(stops(reader));
    found
}

/// When it was first heard of a lease that was asked for after a moment.
struct Followed(Vec<(Moment, Moment)>);

impl Followed {
    fn by(reader: &Reader<'_>) -> Followed {
        let span = |delivery: &&Delivery| (delivery.span.asked, delivery.span.end());
        let mut all: Vec<(Moment, Moment)> = reader.deliveries.iter().map(span).collect();
        all.sort_unstable();
        let mut first = Moment::MAX;
        for (_, heard) in all.iter_mut().rev() {
            first = first.min(*heard);
            *heard = first;
        }
        Followed(all)
    }

    /// When it had surely been followed by another.
    fn after(&self, delivery: &Delivery) -> Moment {
        let later = self.0.partition_point(|(asked, _)| *asked <= delivery.span.end());
        self.0.get(later).map_or(Moment::MAX, |(_, heard)| *heard)
    }
}

/// When a lease surely lasted, but for what its holder said.
fn lasting(reader: &Reader<'_>, delivery: &Delivery, log: &Log) -> Vec<(Moment, Moment)> {
    let births = delivery.messages.iter().filter_map(|message| reader.lane.births.get(message.id.as_str()));
    let begun = births.map(|birth| birth.asked).fold(delivery.span.asked, Moment::max);
    let first = (delivery.span.end(), (begun + delivery.lease_for).saturating_sub(DOUBT));
    let longer = log.extensions.iter().filter(|extension| extension.success && extension.lease == delivery.lease);
    let longer =
        longer.map(|extension| (extension.span.end(), (extension.span.asked + extension.by).saturating_sub(DOUBT)));
    let moved = reader.moves.iter().filter(|moved| moved.span.end() > delivery.span.asked);
    let moved = moved.map(|moved| moved.span.asked).min().unwrap_or(Moment::MAX);
    let young = |crash: &&Span| crash.end() > delivery.span.asked && crash.asked < delivery.span.end() + FORGOTTEN;
    let forgotten = log.crashes.iter().filter(young).map(|crash| crash.asked).min().unwrap_or(Moment::MAX);
    std::iter::once(first)
        .chain(longer)
        .map(|(from, to)| (from, to.min(moved).min(forgotten)))
        .filter(|(from, to)| from < to)
        .collect()
}

/// Whether what is said may end the lease.
fn releases(word: &Word, delivery: &Delivery) -> bool {
    let last = delivery.messages.last().is_some_and(|message| message.id == word.id);
    last || matches!(word.said, Said::Failed | Said::Retry)
}

/// Whether two leases surely lasted at the same moment.
fn overlaps(reader: &Reader<'_>, mut spans: Vec<(Moment, Moment, &str)>) -> Vec<Violation> {
    spans.sort_unstable();
    let mut found = Vec::new();
    let mut last: Option<(Moment, Moment, &str)> = None;
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

/// Whether something was refused while the lease surely lasted.
fn lasts(reader: &Reader<'_>, delivery: &Delivery, words: &[&Word], lasting: &[(Moment, Moment)]) -> Vec<Violation> {
    let refused = words.iter().filter(|word| {
        let earlier = words.iter().any(|other| other.call < word.call && releases(other, delivery));
        let during = lasting.iter().any(|(from, to)| *from <= word.span.asked && word.span.end() <= *to);
        matches!(word.fate, WordFate::Over | WordFate::Refused) && during && !earlier
    });
    refused.map(|word| reader.violation(LASTS, format!("{:?} of {} was refused", word.said, word.id))).collect()
}

/// Whether something counted after the lease had been followed by another, and nobody else had said the same.
fn fenced(reader: &Reader<'_>, words: &[&Word], over: Moment) -> Vec<Violation> {
    let late = words.iter().filter(|word| word.ended() && word.span.asked > over).filter(|word| {
        let at = reader.index(&word.id);
        let covers = |other: &&Word| {
            let before = other.call != word.call && other.span.asked < word.span.end();
            before && other.may_have_ended() && reader.index(&other.id) >= at
        };
        !reader.words.iter().copied().any(|other| covers(&other))
    });
    late.map(|word| reader.violation(FENCED, format!("{:?} of {} counted", word.said, word.id))).collect()
}

/// Whether a message was ended in a call in which an earlier one of the lane was refused; or was put off without that.
fn stops(reader: &Reader<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in reader.words.chunk_by(|a, b| a.call == b.call) {
        let mut stopped = false;
        for word in call {
            if stopped != (word.fate == WordFate::Behind) && (word.ended() || word.fate == WordFate::Behind) {
                let what = format!("{:?} of {}: {:?}", word.said, word.id, word.fate);
                found.push(reader.violation(STOPS, what));
            }
            let counted = word.fate == WordFate::Counted { dead: false };
            stopped |= counted && matches!(word.said, Said::Failed | Said::Retry);
        }
    }
    found
}
