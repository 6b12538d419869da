//! What came out of a contest, round by round.

use workloads::Workload;

use super::contender::Contender;
use crate::report::{Figures, Goal, Report};
use crate::stats::Rounds;

/// The figures of one round, the most important first.
pub(super) type Line = Vec<(&'static str, f64)>;

/// Who takes part with what, and under which title its figures are shown.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) title: String,
    pub(super) contender: Contender,
    pub(super) workload: Workload,
}

/// The lines of all entries.
pub(super) struct Standings {
    entries: Vec<Entry>,
    /// By entry, by round; `None` for a round that failed.
    lines: Vec<Vec<Option<Line>>>,
}

impl Standings {
    pub(super) fn of(entries: Vec<Entry>) -> Standings {
        Standings { lines: vec![Vec::new(); entries.len()], entries }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds the next round of an entry.
    pub(super) fn add(&mut self, place: usize, line: Option<Line>) {
        self.lines[place].push(line);
    }

    /// A figure of an entry, round by round: not a number where the round failed, empty if there is no such entry.
    pub(super) fn rounds(&self, title: &str, contender: Contender, figure: &str) -> Rounds {
        let is_it = |entry: &Entry| entry.title == title && entry.contender == contender;
        let mut rounds = Rounds::default();
        for line in self.entries.iter().position(is_it).map_or(&[][..], |place| &self.lines[place]) {
            rounds.push(value(line.as_ref(), figure));
        }
        rounds
    }

    /// Tells the medians of every entry, and the spread of its first figure.
    pub(super) fn report(&self, report: &mut Report) {
        for (entry, lines) in self.entries.iter().zip(&self.lines) {
            let known = lines.iter().flatten().next();
            let names: Vec<&'static str> =
                known.map_or_else(Vec::new, |line| line.iter().map(|(name, _)| *name).collect());
            let mut figures = Figures::default();
            for (place, name) in names.into_iter().enumerate() {
                let mut rounds = Rounds::default();
                lines.iter().for_each(|line| rounds.push(value(line.as_ref(), name)));
                figures = figures.number(name, rounds.median());
                if place == 0 && lines.len() > 1 {
                    figures = figures.number("spread", rounds.spread());
                }
            }
            let failed = lines.iter().filter(|line| line.is_none()).count();
            figures = figures.count("rounds", lines.len());
            figures = if failed == 0 { figures } else { figures.count("failed_rounds", failed) };
            report.result(&entry.title, entry.contender.name(), figures);
        }
    }
}

/// Tells a ratio with its spread, and whether it reaches its goal.
pub(super) fn compare(report: &mut Report, workload: &str, name: &str, goal: Goal, ratio: &Rounds) {
    let figures = Figures::default().number("ratio", ratio.median()).number("spread", ratio.spread());
    report.result(&format!("{workload}, compared within rounds"), name, figures);
    report.target(&format!("{workload}: {name}"), goal, ratio.median());
}

fn value(line: Option<&Line>, figure: &str) -> f64 {
    let found = line.and_then(|line| line.iter().find(|(name, _)| *name == figure));
    found.map_or(f64::NAN, |(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use workloads::{Dispatchers, Idle};

    use super::*;
    use crate::durable::contender::{CEILING, REVEILLE};

    /// Ratios are taken within a round, so a failed one must leave its place empty instead of moving the later ones up.
    /// One of two entries fails its first of two rounds.
    #[test]
    fn a_failed_round_keeps_its_place() {
        let entry = |contender| Entry {
            title: "t".into(),
            contender,
            workload: Workload::Idle(Idle { period: Duration::ZERO, dispatchers: Dispatchers::same(1) }),
        };
        let mut standings = Standings::of(vec![entry(REVEILLE), entry(CEILING)]);
        standings.add(0, None);
        standings.add(0, Some(vec![("per_s", 10.0)]));
        standings.add(1, Some(vec![("per_s", 1.0)]));
        standings.add(1, Some(vec![("per_s", 40.0)]));
        let (ours, ceiling) = (standings.rounds("t", REVEILLE, "per_s"), standings.rounds("t", CEILING, "per_s"));
        assert_eq!(ours.over(&ceiling).median(), 0.25);
        assert!(standings.rounds("other", REVEILLE, "per_s").median().is_nan());
        assert!(standings.rounds("t", REVEILLE, "other").median().is_nan());
    }
}
