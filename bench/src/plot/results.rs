//! Reads the JSON lines of earlier runs.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::Result;

/// A figure: the median of the rounds, and their range. The range of a single round is empty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Point {
    /// A figure of one round.
    pub(super) fn single(value: f64) -> Point {
        Point { median: value, low: value, high: value }
    }

    /// The same figure in another unit.
    pub(super) fn times(self, factor: f64) -> Point {
        Point { median: self.median * factor, low: self.low * factor, high: self.high * factor }
    }
}

/// The figures of one system under one workload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    pub(super) workload: String,
    pub(super) system: String,
    figures: Map<String, Value>,
}

impl Measured {
    /// A figure; `None` if it was not measured.
    pub(super) fn point(&self, name: &str) -> Option<Point> {
        let median = self.number(name)?;
        let ends = self.figures.get("ranges").and_then(|ranges| ranges.get(name)?.as_array());
        let end = |index: usize| ends.and_then(|ends| ends.get(index)?.as_f64());
        Some(Point { median, low: end(0).unwrap_or(median), high: end(1).unwrap_or(median) })
    }

    /// A figure without its range.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.figures.get(name)?.as_f64()
    }
}

/// The results of one or several runs.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// By benchmark, in the order in which they were reported.
    measured: BTreeMap<String, Vec<Measured>>,
    /// By benchmark.
    settings: BTreeMap<String, Measured>,
}

impl Results {
    /// Adds the lines of a run. A result that is in several runs is that of the last one.
    ///
    /// # Errors
    /// A line is not a JSON object. `source` names the file in the message.
    pub(super) fn read(&mut self, source: &str, text: &str) -> Result<()> {
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let fields = serde_json::from_str::<Map<String, Value>>(line)
                .map_err(|error| format!("{source}, line {}: not a result: {error}", index + 1))?;
            self.add(fields);
        }
        Ok(())
    }

    fn add(&mut self, fields: Map<String, Value>) {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (bench, workload, system) = (text("bench"), text("workload"), text("system"));
        let measured = Measured { workload, system, figures: fields };
        if measured.figures.contains_key("target") {
            return;
        }
        if measured.workload == "setting" {
            self.settings.insert(bench, measured);
        } else if !measured.workload.is_empty() {
            let of = self.measured.entry(bench).or_default();
            let same = |other: &Measured| other.workload == measured.workload && other.system == measured.system;
            match of.iter().position(same) {
                Some(index) => of[index] = measured,
                None => of.push(measured),
            }
        }
    }

    /// The results of a benchmark, in the order in which they were reported first.
    pub(super) fn of(&self, bench: &str) -> &[Measured] {
        self.measured.get(bench).map_or(&[], Vec::as_slice)
    }

    /// How these benchmarks were measured, in a sentence.
    pub(super) fn setting(&self, benches: &[&str]) -> String {
        let settings: Vec<&Measured> = benches.iter().filter_map(|bench| self.settings.get(*bench)).collect();
        let mut parts: Vec<String> = Vec::new();
        for setting in &settings {
            let cores = setting.number("cores").map(|cores| format!("{cores} cores"));
            let all = [Some(setting.system.clone()), cores].into_iter().flatten().filter(|part| !part.is_empty());
            for part in all {
                if !parts.contains(&part) {
                    parts.push(part);
                }
            }
        }
        let is_quick = |setting: &&Measured| setting.figures.get("run").and_then(Value::as_str) == Some("quick");
        if settings.iter().any(is_quick) {
            parts.push("from a quick run".to_owned());
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of several files are one set, in which the last run counts; targets are not results; a figure without a
    /// range has an empty one.
    #[test]
    fn the_last_run_counts() {
        let mut results = Results::default();
        let first = "{\"bench\":\"queue\",\"workload\":\"setting\",\"system\":\"PostgreSQL 15.18\",\"cores\":2,\"run\":\"full\"}\n\n\
                     {\"bench\":\"queue\",\"workload\":\"w\",\"system\":\"a\",\"per_s\":1,\"p50_ms\":null}\n\
                     {\"bench\":\"queue\",\"workload\":\"w\",\"system\":\"b\",\"per_s\":2}\n";
        let second = "{\"bench\":\"queue\",\"workload\":\"w\",\"system\":\"a\",\"per_s\":3,\"ranges\":{\"per_s\":[2,5]}}\n\
                      {\"bench\":\"flow\",\"workload\":\"w\",\"system\":\"a\",\"per_s\":9}\n\
                      {\"target\":\"t\",\"goal\":1,\"value\":1,\"met\":true}\n";
        results.read("first", first).unwrap();
        results.read("second", second).unwrap();
        let [a, b] = results.of("queue") else { panic!("{results:?}") };
        assert_eq!(a.point("per_s"), Some(Point { median: 3.0, low: 2.0, high: 5.0 }));
        assert_eq!(b.point("per_s"), Some(Point::single(2.0)));
        assert_eq!((a.point("p50_ms"), results.of("other").len()), (None, 0));
        assert_eq!(results.setting(&["queue", "flow"]), "PostgreSQL 15.18, 2 cores");
    }

    /// A file that is not of this program is named, with the line.
    #[test]
    fn a_line_that_is_no_result_is_named() {
        let error = Results::default().read("some.json", "{\"workload\":\"w\"}\n[1]\n").unwrap_err().to_string();
        assert!(error.starts_with("some.json, line 2: not a result: "), "{error}");
    }

    /// A figure from a quick run must not pass as one of a full run.
    #[test]
    fn a_quick_run_is_named() {
        let mut results = Results::default();
        let line = "{\"bench\":\"wake\",\"workload\":\"setting\",\"system\":\"PostgreSQL 15\",\"run\":\"quick\"}";
        results.read("f", line).unwrap();
        assert_eq!(results.setting(&["wake"]), "PostgreSQL 15, from a quick run");
    }
}
