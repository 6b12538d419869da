//! The output of a run: JSON lines, a table, and whether the targets are met.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// Figures of one result, in the order in which they are shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures(Vec<(&'static str, Value)>);

impl Figures {
    /// A number, rounded. One that is not finite was not measured and is shown as unknown.
    pub(crate) fn number(mut self, name: &'static str, value: f64) -> Figures {
        self.0.push((name, rounded(value)));
        self
    }

    /// A number that may be unknown.
    pub(crate) fn perhaps(self, name: &'static str, value: Option<f64>) -> Figures {
        self.number(name, value.unwrap_or(f64::NAN))
    }

    /// A count.
    pub(crate) fn count(mut self, name: &'static str, value: usize) -> Figures {
        self.0.push((name, value.into()));
        self
    }

    /// The ranges of figures over several rounds, by their names. They are in the JSON line and not in the table.
    pub(crate) fn ranges(mut self, ranges: impl IntoIterator<Item = (&'static str, (f64, f64))>) -> Figures {
        let range = |(name, (low, high)): (&str, (f64, f64))| (name.to_owned(), json!([rounded(low), rounded(high)]));
        self.0.push(("ranges", Value::Object(ranges.into_iter().map(range).collect())));
        self
    }

    /// A word.
    pub(crate) fn text(mut self, name: &'static str, value: impl Into<String>) -> Figures {
        self.0.push((name, Value::String(value.into())));
        self
    }
}

/// Three decimals below a hundred, none above: more digits would be noise.
fn rounded(value: f64) -> Value {
    let step = if value.abs() < 100.0 { 1_000.0 } else { 1.0 };
    let value = (value * step).round() / step;
    if value.fract() == 0.0 && value.abs() < 1e15 { Value::from(value as i64) } else { Value::from(value) }
}

/// A goal, and on which side of it a value should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// Met by this or less.
    AtMost(f64),
    /// Met by this or more.
    AtLeast(f64),
}

impl Goal {
    /// A value that is not finite could not be measured, and meets no goal.
    fn is_met(self, value: f64) -> bool {
        value.is_finite()
            && match self {
                Goal::AtMost(goal) => value <= goal,
                Goal::AtLeast(goal) => value >= goal,
            }
    }

    fn value(self) -> f64 {
        match self {
            Goal::AtMost(goal) | Goal::AtLeast(goal) => goal,
        }
    }
}

/// Prints each result at once, and keeps all for the table.
#[derive(Debug)]
pub(crate) struct Report {
    /// The command: names of workloads are unique within it.
    bench: &'static str,
    results: Vec<(String, String, Figures)>,
    targets: Vec<(String, Goal, f64)>,
}

impl Report {
    /// An empty report of a command.
    pub(crate) fn of(bench: &'static str) -> Report {
        Report { bench, results: Vec::new(), targets: Vec::new() }
    }

    /// Reports one system under one workload.
    pub(crate) fn result(&mut self, workload: &str, system: &str, figures: Figures) {
        self.say([("workload", workload), ("system", system)], &figures);
        self.results.push((workload.to_owned(), system.to_owned(), figures));
    }

    /// Prints a line of names and figures.
    fn say<'a>(&self, names: impl IntoIterator<Item = (&'static str, &'a str)>, figures: &Figures) {
        let names = names.into_iter().map(|(name, value)| (name, Value::from(value)));
        let names = std::iter::once(("bench", Value::from(self.bench))).chain(names);
        println!("{}", line(names.chain(figures.0.iter().cloned())));
    }

    /// Adds a target and its measured value, NaN if there is none. Targets are printed at the end.
    pub(crate) fn target(&mut self, name: &str, goal: Goal, value: f64) {
        self.targets.push((name.to_owned(), goal, value));
    }

    /// Prints the targets, and the table.
    pub(crate) fn finish(&self) {
        for (name, goal, value) in &self.targets {
            let met = goal.is_met(*value);
            let names = [("bench", Value::from(self.bench)), ("target", Value::from(name.as_str()))];
            let figures = names.into_iter().chain([("goal", rounded(goal.value()))]);
            println!("{}", line(figures.chain([("value", rounded(*value)), ("met", met.into())])));
        }
        eprint!("{}", self.table());
    }

    fn table(&self) -> String {
        let mut text = String::new();
        let mut rest = self.results.as_slice();
        while let Some((workload, ..)) = rest.first() {
            let (these, others) = rest.split_at(rest.iter().take_while(|(name, ..)| name == workload).count());
            rest = others;
            let mut columns: Vec<&str> = Vec::new();
            for (name, value) in these.iter().flat_map(|(.., figures)| &figures.0) {
                if !value.is_object() && !columns.contains(name) {
                    columns.push(name);
                }
            }
            let head = ["system"].into_iter().chain(columns.iter().copied()).map(str::to_owned).collect();
            let body = these.iter().map(|(_, system, figures)| {
                let cell =
                    |column: &&str| figures.0.iter().find(|(name, _)| name == column).map(|(_, value)| plain(value));
                let cells = columns.iter().map(|column| cell(column).unwrap_or_default());
                std::iter::once(system.clone()).chain(cells).collect()
            });
            // Writing to a string does not fail.
            let _ = write!(text, "\n{workload}\n{}", aligned(std::iter::once(head).chain(body).collect()));
        }
        let targets = self.targets.iter().map(|(name, goal, value)| {
            let side = if matches!(goal, Goal::AtMost(_)) { "at most" } else { "at least" };
            let verdict = if goal.is_met(*value) { "met" } else { "NOT met" };
            vec![name.clone(), format!("{side} {}", goal.value()), plain(&rounded(*value)), verdict.to_owned()]
        });
        let _ = write!(text, "\ntargets\n{}", aligned(targets.collect()));
        text
    }
}

/// One JSON object with its fields in the order given.
fn line(fields: impl Iterator<Item = (&'static str, Value)>) -> String {
    let fields: Vec<String> = fields.map(|(name, value)| format!("{}:{value}", Value::from(name))).collect();
    format!("{{{}}}", fields.join(","))
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "?".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Rows of cells as text: the first column is aligned to the left, the others to the right.
fn aligned(rows: Vec<Vec<String>>) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column| rows.iter().filter_map(|row| row.get(column)).map(|cell: &String| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if column == 0 { write!(text, "  {cell:<width$}") } else { write!(text, "  {cell:>width$}") };
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs read the lines, so their form is fixed: fields in order, numbers rounded, unknown values `null`.
    /// Compared as text.
    #[test]
    fn a_result_is_one_json_object_with_its_fields_in_order() {
        let figures = Figures::default().number("p50_ms", 0.123_456).count("samples", 500).perhaps("wal", None);
        let names = [("workload", Value::from("w")), ("system", Value::from("a \"b\""))];
        let text = line(names.into_iter().chain(figures.0));
        assert_eq!(text, r#"{"workload":"w","system":"a \"b\"","p50_ms":0.123,"samples":500,"wal":null}"#);
        let text = line(Figures::default().ranges([("p50_ms", (0.1, 0.5))]).0.into_iter());
        assert_eq!(text, r#"{"ranges":{"p50_ms":[0.1,0.5]}}"#);
    }

    /// A target that could not be measured must not count as met.
    /// Both kinds of goal, on, under and over it, and not a number.
    #[test]
    fn an_unmeasured_target_is_not_met() {
        assert!(Goal::AtMost(5.0).is_met(5.0) && !Goal::AtMost(5.0).is_met(5.1) && !Goal::AtMost(5.0).is_met(f64::NAN));
        assert!(Goal::AtLeast(80.0).is_met(80.0) && !Goal::AtLeast(80.0).is_met(79.9));
        assert!(!Goal::AtLeast(80.0).is_met(f64::NAN));
    }

    /// The cells of one workload are aligned although its systems have different figures.
    #[test]
    fn the_table_has_a_column_for_every_figure() {
        let mut report = Report::of("b");
        let figures = Figures::default().count("x", 1).ranges([("x", (1.0, 2.0))]);
        report.results.push(("w".into(), "a".into(), figures));
        report.results.push(("w".into(), "b".into(), Figures::default().count("y", 20)));
        assert!(
            report.table().starts_with("\nw\n  system  x   y\n  a       1    \n  b          20\n"),
            "{}",
            report.table()
        );
    }
}
