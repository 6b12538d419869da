//! A contest: everybody takes a turn in every round, and what came out, round by round.

use crate::Result;
use crate::report::{Figures, Goal, Report};
use crate::stats::{Rounds, turns};

/// The figures of one round, the most important first.
pub(crate) type Line = Vec<(&'static str, f64)>;

/// Who can take part.
pub(crate) trait Named: Copy + PartialEq {
    /// Its name in results.
    fn name(self) -> &'static str;
}

/// Who takes part with what, and under which title its figures are shown.
#[derive(Debug, Clone)]
pub(crate) struct Entry<C, W> {
    pub(crate) title: String,
    pub(crate) contender: C,
    pub(crate) workload: W,
}

/// The lines of all entries.
pub(crate) struct Standings<C, W> {
    entries: Vec<Entry<C, W>>,
    /// By entry, by round; `None` for a round that failed.
    lines: Vec<Vec<Option<Line>>>,
}

impl<C: Named, W> Standings<C, W> {
    fn of(entries: Vec<Entry<C, W>>) -> Standings<C, W> {
        Standings { lines: vec![Vec::new(); entries.len()], entries }
    }

    /// Plays every entry once per round, in turns. A round that fails is told and has no figures: the others go on.
    pub(crate) async fn contest(
        entries: Vec<Entry<C, W>>,
        rounds: usize,
        play: impl AsyncFn(&Entry<C, W>) -> Result<Line>,
    ) -> Standings<C, W> {
        let mut standings = Standings::of(entries);
        let places: Vec<usize> = (0..standings.entries.len()).collect();
        for round in 0..rounds {
            for place in turns(&places, round) {
                let entry = &standings.entries[place];
                let line = play(entry).await;
                if let Err(error) = &line {
                    eprintln!("  {}, {}: {}", entry.title, entry.contender.name(), reveille_pg::causes(&**error));
                }
                standings.add(place, line.ok());
            }
        }
        standings
    }

    /// Adds the next round of an entry.
    fn add(&mut self, place: usize, line: Option<Line>) {
        self.lines[place].push(line);
    }

    /// A figure of an entry, round by round: not a number where the round failed, empty if there is no such entry.
    pub(crate) fn rounds(&self, title: &str, contender: C, figure: &str) -> Rounds {
        let is_it = |entry: &Entry<C, W>| entry.title == title && entry.contender == contender;
        let mut rounds = Rounds::default();
        for line in self.entries.iter().position(is_it).map_or(&[][..], |place| &self.lines[place]) {
            rounds.push(value(line.as_ref(), figure));
        }
        rounds
    }

    /// Tells the medians of every entry, and the spread of its first figure.
    pub(crate) fn report(&self, report: &mut Report) {
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

/// Tells a ratio with its spread.
pub(crate) fn told(report: &mut Report, workload: &str, name: &str, ratio: &Rounds) {
    let figures = Figures::default().number("ratio", ratio.median()).number("spread", ratio.spread());
    report.result(&format!("{workload}, compared within rounds"), name, figures);
}

/// Tells a ratio with its spread, and whether it reaches its goal.
pub(crate) fn compare(report: &mut Report, workload: &str, name: &str, goal: Goal, ratio: &Rounds) {
    told(report, workload, name, ratio);
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

    /// Ratios are taken within a round, so a failed one must leave its place empty instead of moving the later ones up.
    /// One of two entries fails its first of two rounds.
    #[test]
    fn a_failed_round_keeps_its_place() {
        let entry = |contender| Entry { title: "t".into(), contender, workload: () };
        let mut standings = Standings::of(vec![entry('a'), entry('b')]);
        standings.add(0, None);
        standings.add(0, Some(vec![("per_s", 10.0)]));
        standings.add(1, Some(vec![("per_s", 1.0)]));
        standings.add(1, Some(vec![("per_s", 40.0)]));
        let (ours, theirs) = (standings.rounds("t", 'a', "per_s"), standings.rounds("t", 'b', "per_s"));
        assert_eq!(ours.over(&theirs).median(), 0.25);
        assert!(standings.rounds("other", 'a', "per_s").median().is_nan());
        assert!(standings.rounds("t", 'a', "other").median().is_nan());
    }
}
