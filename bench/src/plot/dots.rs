//! A chart of figures in rows: one row per system, grouped by workload.
//!
//! A figure is a dot on a logarithmic axis, where lengths mean nothing, and a bar on one that begins at zero. Whiskers
//! are the range of the rounds. Each row has the name of its system and its value, so the chart needs no legend.

use super::axis::{Axis, number, tick};
use super::results::Point;
use super::svg::{Anchor, Drawing, width};

const WIDTH: f64 = 860.0;
const EDGE: f64 = 16.0;
const ROW: f64 = 18.0;
const GROUP: f64 = 26.0;
/// Between the axis and what is beside it.
const GAP: f64 = 12.0;
/// From the first row of a section to its heading, the numbers of its axis included.
const HEAD: f64 = 42.0;
/// A section with more rows has the numbers of its axis at both ends.
const LONG: usize = 14;

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Own,
    Peer,
    /// Not a system of the same kind: a bound.
    Reference,
}

impl Kind {
    /// The kind of a system, by its name.
    pub(super) fn of(system: &str) -> Kind {
        if system.starts_with("reveille") {
            Kind::Own
        } else if system.starts_with("in memory") || system.starts_with("the claim statement") {
            Kind::Reference
        } else {
            Kind::Peer
        }
    }

    fn class(self) -> &'static str {
        match self {
            Kind::Own => "own",
            Kind::Peer => "peer",
            Kind::Reference => "reference",
        }
    }
}

/// A figure of one system.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) system: String,
    pub(super) point: Point,
    /// The p99 that belongs to a median.
    pub(super) tail: Option<f64>,
}

/// The rows of one workload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) rows: Vec<Row>,
}

/// Groups on one axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Section {
    pub(super) heading: String,
    /// Written after each value, such as ` ms`.
    pub(super) unit: &'static str,
    pub(super) groups: Vec<Group>,
}

/// The chart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dots {
    pub(super) title: String,
    pub(super) sections: Vec<Section>,
    /// How it was measured.
    pub(super) note: String,
}

impl Section {
    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.groups.iter().flat_map(|group| &group.rows)
    }

    fn value(&self, row: &Row) -> String {
        let value = format!("{}{}", number(row.point.median), self.unit);
        row.tail.map_or(value.clone(), |tail| format!("{value}, p99 {}", number(tail)))
    }

    fn height(&self) -> f64 {
        let groups: f64 = self.groups.iter().map(|group| named(group) + ROW * group.rows.len() as f64).sum();
        HEAD + groups + if self.rows().count() > LONG { 22.0 } else { 0.0 } + 14.0
    }
}

/// The height of a group's name; a group without a name has none.
fn named(group: &Group) -> f64 {
    if group.name.is_empty() { 0.0 } else { GROUP }
}

impl Dots {
    /// The document.
    pub(super) fn svg(&self) -> String {
        self.draw().finish(&self.title, &self.description())
    }

    fn draw(&self) -> Drawing {
        let sections: f64 = self.sections.iter().map(Section::height).sum();
        let mut drawing = Drawing::new(WIDTH, 36.0 + sections + 26.0);
        drawing.text(EDGE, 28.0, "title", Anchor::Start, &self.title);
        // One column of names for all sections, so that their axes begin at the same position.
        let names = self.sections.iter().flat_map(Section::rows).map(|row| width(&row.system, ""));
        let left = EDGE + names.fold(0.0, f64::max) + GAP;
        let mut y = 36.0;
        for section in &self.sections {
            section.draw(&mut drawing, left, y);
            y += section.height();
        }
        drawing.text(EDGE, y + 14.0, "small", Anchor::Start, &self.note);
        drawing
    }

    /// All figures as text.
    fn description(&self) -> String {
        let mut parts = Vec::new();
        for section in &self.sections {
            let mut groups = Vec::new();
            for group in &section.groups {
                let rows: Vec<String> =
                    group.rows.iter().map(|row| format!("{} {}", row.system, section.value(row))).collect();
                let name = if group.name.is_empty() { String::new() } else { format!("{}: ", group.name) };
                groups.push(format!("{name}{}", rows.join("; ")));
            }
            parts.push(format!("{}. {}.", section.heading, groups.join(". ")));
        }
        parts.push(format!("{}.", self.note));
        parts.join(" ")
    }
}

impl Section {
    fn draw(&self, drawing: &mut Drawing, left: f64, top: f64) {
        let values = self.rows().map(|row| width(&self.value(row), ""));
        let right = WIDTH - EDGE - values.fold(0.0, f64::max) - GAP;
        let all =
            self.rows().flat_map(|row| [row.point.median, row.point.low, row.point.high].into_iter().chain(row.tail));
        let axis = Axis::for_values(all, left, right);
        let heading = if axis.is_log() { format!("{} (logarithmic)", self.heading) } else { self.heading.clone() };
        drawing.text(EDGE, top + 16.0, "heading", Anchor::Start, &heading);
        let first = top + HEAD;
        let last = top + self.height() - 14.0 - if self.rows().count() > LONG { 22.0 } else { 0.0 };
        for value in axis.ticks(44.0) {
            let x = axis.at(value);
            drawing.line("grid", (x, first - 2.0), (x, last));
            drawing.text(x, first - 7.0, "small", Anchor::Middle, &tick(value));
            if self.rows().count() > LONG {
                drawing.text(x, last + 14.0, "small", Anchor::Middle, &tick(value));
            }
        }
        let mut y = first;
        for group in &self.groups {
            y += named(group);
            if !group.name.is_empty() {
                drawing.text(EDGE, y - 8.0, "muted", Anchor::Start, &group.name);
            }
            for row in &group.rows {
                y += ROW;
                self.draw_row(drawing, &axis, row, y - ROW / 2.0);
            }
        }
    }

    fn draw_row(&self, drawing: &mut Drawing, axis: &Axis, row: &Row, middle: f64) {
        let (class, start) = (Kind::of(&row.system).class(), axis.at(0.0));
        let Point { median, low, high } = row.point;
        let at = axis.at(median);
        drawing.text(start - GAP, middle + 4.0, "", Anchor::End, &row.system);
        if !axis.is_log() {
            // At zero a thin line remains.
            drawing.bar(class, (start, middle - 6.0), (at - start).max(1.5), 12.0);
        }
        let mut end = at + 5.0;
        if high > low {
            let (from, to) = (axis.at(low), axis.at(high));
            // On a bar a whisker of the same colour cannot be seen.
            let class = if axis.is_log() { format!("{class} whisker") } else { "range".to_owned() };
            drawing.line(&class, (from, middle), (to, middle));
            for x in [from, to] {
                drawing.line(&class, (x, middle - 3.5), (x, middle + 3.5));
            }
            end = end.max(to);
        }
        if let Some(tail) = row.tail {
            let x = axis.at(tail);
            drawing.dot(&format!("{class} hollow"), (x, middle), 3.0);
            end = end.max(x + 4.0);
        }
        if axis.is_log() {
            drawing.dot(class, (at, middle), 4.5);
        }
        drawing.text(end + 7.0, middle + 4.0, "", Anchor::Start, &self.value(row));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(system: &str, median: f64, spread: f64, tail: Option<f64>) -> Row {
        let point = Point { median, low: median * (1.0 - spread), high: median * (1.0 + spread) };
        Row { system: system.to_owned(), point, tail }
    }

    fn chart(groups: Vec<Group>) -> Dots {
        let section = Section { heading: "Messages per second".into(), unit: " ms", groups };
        let other = Section { heading: "Statements".into(), unit: "", groups: vec![] };
        Dots { title: "Throughput".into(), sections: vec![section, other], note: "PostgreSQL 15, 2 cores".into() }
    }

    proptest! {
        /// No text may cover another or leave the drawing, whatever is measured: sizes over many decades, long names,
        /// and so many rows that the axis has numbers at both ends. The estimated boxes of all texts are compared.
        #[test]
        fn texts_do_not_overlap(
            figures in proptest::collection::vec((1e-3..1e6f64, 0.0..0.9f64, proptest::option::of(1.0..50.0f64)), 1..24),
            decades in 0.0..8.0f64,
        ) {
            let names = ["reveille, http, two servers", "rabbitmq, quorum", "in memory (the ceiling)", "pgmq"];
            let rows: Vec<Row> = figures.iter().enumerate().map(|(index, (value, spread, tail))| {
                let value = value.powf(decades / 8.0);
                row(names[index % 4], value, *spread, tail.map(|times| times * value))
            }).collect();
            let group = |some: &[Row]| Group { name: "batch 10, 10 000 partitions, 5 groups".into(), rows: some.to_vec() };
            let faults = chart(rows.chunks(5).map(group).collect()).draw().faults();
            prop_assert!(faults.is_empty(), "{:?}", faults);
        }
    }

    /// A measured zero is the claim of the idle chart, so it must be visible: a thin bar and its value. A dot on a
    /// logarithmic axis could not show it.
    #[test]
    fn a_zero_is_drawn() {
        let rows = vec![row("reveille", 0.0, 0.0, None), row("duroxide-pg", 79.0, 0.0, None)];
        let text = chart(vec![Group { name: String::new(), rows }]).svg();
        assert!(text.contains("<rect class=\"own\"") && text.contains("width=\"1.5\""), "{text}");
        assert!(text.contains(">0 ms</text>") && !text.contains("<circle"), "{text}");
    }

    /// A reader who cannot see the drawing has all figures in its description; own systems differ from peers by class.
    #[test]
    fn the_description_has_all_figures() {
        let rows = vec![row("reveille", 994.0, 0.1, Some(1_397.0)), row("duroxide-pg", 15.2, 0.0, None)];
        let text = chart(vec![Group { name: "4:4".into(), rows }]).svg();
        assert!(text.contains("4:4: reveille 994 ms, p99 1\u{202f}397; duroxide-pg 15.2 ms"), "{text}");
        assert!(text.contains("class=\"own whisker\"") && text.contains("<circle class=\"peer\""), "{text}");
        assert!(text.contains("(logarithmic)"), "{text}");
    }
}
