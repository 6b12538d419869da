//! A comparison: every contender runs once per round; the results, round by round.

use crate::Result;
use crate::report::{Figures, Goal, Report};
use crate::stats::{Rounds, turns};

/// The figures of one round, the most important first.
pub(crate) type Line = Vec<(&'static str, f64)>;

/// A contender.
pub(crate) trait Named: Copy + PartialEq {
    /// Its name in results.
    fn name(self) -> &'static str;
}

/// A contender, its workload, and the title of its figures.
#[derive(Debug, Clone)]
pub(crate) struct Entry<C, W> {
    pub(crate) title: String,
    pub(crate) contender: C,
    pub(crate) workload: W,
}

/// The lines of all entries.
pub(crate) struct Comparison<C, W> {
    entries: Vec<Entry<C, W>>,
    /// By entry, by round; `None` for a round that failed.
    lines: Vec<Vec<Option<Line>>>,
}

impl<C: Named, W> Comparison<C, W> {
    fn of(entries: Vec<Entry<C, W>>) -> Comparison<C, W> {
        Comparison { lines: vec![Vec::new(); entries.len()], entries }
    }

    /// Plays every entry once per round, in rotating order. A round that fails is reported and has no figures; the
    /// others continue.
    pub(crate) async fn run(
        entries: Vec<Entry<C, W>>,
        rounds: usize,
        play: impl AsyncFn(&Entry<C, W>) -> Result<Line>,
    ) -> Comparison<C, W> {
        let mut comparison = Comparison::of(entries);
        let slots: Vec<usize> = (0..comparison.entries.len()).collect();
        for round in 0..rounds {
            for index in turns(&slots, round) {
                let entry = &comparison.entries[index];
                let line = play(entry).await;
                if let Err(error) = &line {
                    eprintln!("  {}, {}: {}", entry.title, entry.contender.name(), reveille_pg::causes(&**error));
                }
                comparison.add(index, line.ok());
            }
        }
        comparison
    }

    /// Adds the next round of an entry.
    fn add(&mut self, index: usize, line: Option<Line>) {
        self.lines[index].push(line);
    }

    /// A figure of an entry, round by round. NaN for a round that failed; empty if there is no such entry.
    pub(crate) fn rounds(&self, title: &str, contender: C, figure: &str) -> Rounds {
        let is_it = |entry: &Entry<C, W>| entry.title == title && entry.contender == contender;
        let mut rounds = Rounds::default();
        for line in self.entries.iter().position(is_it).map_or(&[][..], |index| &self.lines[index]) {
            rounds.push(value(line.as_ref(), figure));
        }
        rounds
    }

    /// Reports the medians of every entry, the spread of its first figure, and the ranges of all.
    pub(crate) fn report(&self, report: &mut Report) {
        for (entry, lines) in self.entries.iter().zip(&self.lines) {
            let known = lines.iter().flatten().next();
            let names: Vec<&'static str> =
                known.map_or_else(Vec::new, |line| line.iter().map(|(name, _)| *name).collect());
            let (mut figures, mut ranges) = (Figures::default(), Vec::new());
            for (index, name) in names.into_iter().enumerate() {
                let mut rounds = Rounds::default();
                lines.iter().for_each(|line| rounds.push(value(line.as_ref(), name)));
                figures = figures.number(name, rounds.median());
                if index == 0 && lines.len() > 1 {
                    figures = figures.number("spread", rounds.spread());
                }
                ranges.extend(rounds.range().map(|range| (name, range)));
            }
            let failed = lines.iter().filter(|line| line.is_none()).count();
            figures = figures.count("rounds", lines.len());
            figures = if failed == 0 { figures } else { figures.count("failed_rounds", failed) };
            figures = if lines.len() > 1 { figures.ranges(ranges) } else { figures };
            report.result(&entry.title, entry.contender.name(), figures);
        }
    }
}

/// Reports a ratio with its spread.
pub(crate) fn report_ratio(report: &mut Report, workload: &str, name: &str, ratio: &Rounds) {
    let figures = Figures::default().number("ratio", ratio.median()).number("spread", ratio.spread());
    report.result(&format!("{workload}, compared within rounds"), name, figures);
}

/// Reports a ratio with its spread, and whether it reaches its goal.
pub(crate) fn compare(report: &mut Report, workload: &str, name: &str, goal: Goal, ratio: &Rounds) {
    report_ratio(report, workload, name, ratio);
    report.target(&format!("{workload}: {name}"), goal, ratio.median());
}

fn value(line: Option<&Line>, figure: &str) -> f64 {
    let found = line.and_then(|line| line.iter().find(|(name, _)| *name == figure));
    found.map_or(f64::NAN, |(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Named for char {
        fn name(self) -> &'static str {
            "a letter"
        }
    }

    /// Ratios are taken within a round, so a failed round must leave a gap and not shift the later ones.
    /// One of two entries fails its first of two rounds.
    #[test]
    fn a_failed_round_leaves_a_gap() {
        let entry = |contender| Entry { title: "t".into(), contender, workload: () };
        let mut comparison = Comparison::of(vec![entry('a'), entry('b')]);
        comparison.add(0, None);
        comparison.add(0, Some(vec![("per_s", 10.0)]));
        comparison.add(1, Some(vec![("per_s", 1.0)]));
        comparison.add(1, Some(vec![("per_s", 40.0)]));
        let (ours, theirs) = (comparison.rounds("t", 'a', "per_s"), comparison.rounds("t", 'b', "per_s"));
        assert_eq!(ours.over(&theirs).median(), 0.25);
        assert!(comparison.rounds("other", 'a', "per_s").median().is_nan());
        assert!(comparison.rounds("t", 'a', "other").median().is_nan());
    }
}
