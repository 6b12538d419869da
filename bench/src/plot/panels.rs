//! A chart of curves: small panels of the same size, two in a row, each with its own axes.
//!
//! Each curve has its name and last value at its end, so a panel needs no legend. Names that would cover each other are
//! moved apart.

use super::axis::{Axis, extent, number, tick};
use super::results::Point;
use super::svg::{Anchor, Drawing, width};

const WIDTH: f64 = 860.0;
const EDGE: f64 = 16.0;
const COLUMNS: usize = 2;
/// Between the columns.
const GUTTER: f64 = 24.0;
/// The size of the area of the curves; its width is what the texts leave.
const AREA: f64 = 120.0;
/// Above the area: the heading.
const ABOVE: f64 = 34.0;
/// Below the area: the numbers of the axis.
const BELOW: f64 = 34.0;
/// The width of the numbers beside the area.
const BESIDE: f64 = 40.0;
/// Between the names of two curves.
const LINE: f64 = 14.0;
/// Classes of the curves, in their order.
const CLASSES: [&str; 4] = ["a", "b", "c", "d"];
/// The most curves in a panel: more cannot be told apart.
pub(super) const MOST: usize = CLASSES.len();

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    pub(super) name: String,
    /// The position and the value, in the order of their positions.
    pub(super) points: Vec<(f64, Point)>,
    /// What is written after the name: the last value with its unit.
    pub(super) last: String,
}

/// Curves on the same axes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Panel {
    pub(super) heading: String,
    pub(super) curves: Vec<Curve>,
    /// The values are multiples of the first one, and this is the largest that is allowed. `None`: the values are
    /// absolute, the positions are times, and their thirds are marked.
    pub(super) limit: Option<f64>,
}

/// The chart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Panels {
    pub(super) title: String,
    /// What the axes are.
    pub(super) axes: String,
    pub(super) panels: Vec<Panel>,
    /// How it was measured.
    pub(super) note: String,
}

impl Panels {
    /// The document.
    pub(super) fn svg(&self) -> String {
        self.draw().finish(&self.title, &self.description())
    }

    fn draw(&self) -> Drawing {
        let (rows, each) = (self.panels.len().div_ceil(COLUMNS), ABOVE + AREA + BELOW);
        let mut drawing = Drawing::new(WIDTH, 60.0 + rows as f64 * each + 24.0);
        drawing.text(EDGE, 28.0, "title", Anchor::Start, &self.title);
        drawing.text(EDGE, 48.0, "small", Anchor::Start, &self.axes);
        let span = (WIDTH - 2.0 * EDGE - GUTTER) / COLUMNS as f64;
        for (index, panel) in self.panels.iter().enumerate() {
            let left = EDGE + (index % COLUMNS) as f64 * (span + GUTTER);
            panel.draw(&mut drawing, left, 60.0 + (index / COLUMNS) as f64 * each, span);
        }
        drawing.text(EDGE, 60.0 + rows as f64 * each + 12.0, "small", Anchor::Start, &self.note);
        drawing
    }

    fn description(&self) -> String {
        let curve = |curve: &Curve| format!("{} {}", curve.name, curve.last);
        let panel = |panel: &Panel| {
            let curves: Vec<String> = panel.curves.iter().map(curve).collect();
            format!("{}: {}.", panel.heading, curves.join("; "))
        };
        let panels: Vec<String> = self.panels.iter().map(panel).collect();
        format!("{}. {} {}.", self.axes, panels.join(" "), self.note)
    }
}

impl Panel {
    fn draw(&self, drawing: &mut Drawing, left: f64, top: f64, span: f64) {
        drawing.text(left, top + 20.0, "heading", Anchor::Start, &self.heading);
        let names = self.curves.iter().flat_map(|curve| [&curve.name, &curve.last]).map(|text| width(text, "small"));
        let (from, to) = (left + BESIDE, left + span - names.fold(0.0, f64::max) - 10.0);
        let (bottom, highest) = (top + ABOVE + AREA, top + ABOVE);
        let positions = || self.curves.iter().flat_map(|curve| curve.points.iter().map(|(at, _)| *at));
        let values = || self.curves.iter().flat_map(|curve| curve.points.iter().flat_map(|(_, it)| [it.low, it.high]));
        let across = if self.limit.is_some() {
            Axis::for_values(positions(), from, to)
        } else {
            Axis::until(extent(positions()).1, from, to)
        };
        let up = if self.limit.is_some() {
            let (least, most) = extent(values());
            Axis::log(least.min(0.5), most.max(2.0), bottom, highest)
        } else {
            Axis::linear(extent(values()).1, bottom, highest)
        };
        for value in up.ticks(18.0) {
            let y = up.at(value);
            drawing.line("grid", (from, y), (to, y));
            let times = if self.limit.is_some() { "×" } else { "" };
            drawing.text(from - 6.0, y + 4.0, "small", Anchor::End, &format!("{}{times}", tick(value)));
        }
        for value in across.ticks(34.0) {
            let x = across.at(value);
            drawing.line("grid", (x, bottom), (x, bottom + 3.0));
            drawing.text(x, bottom + 15.0, "small", Anchor::Middle, &tick(value));
        }
        match self.limit {
            Some(value) => drawing.line("limit", (from, up.at(value)), (to, up.at(value))),
            None => {
                for third in [1.0, 2.0] {
                    let x = from + (to - from) * third / 3.0;
                    drawing.line("limit", (x, highest), (x, bottom));
                }
            }
        }
        for (curve, class) in self.curves.iter().zip(CLASSES) {
            curve.draw(drawing, class, &across, &up);
        }
        self.name_curves(drawing, &up, to + 8.0, bottom);
    }

    /// Writes the names and last values, at the height of the last value where there is room.
    fn name_curves(&self, drawing: &mut Drawing, up: &Axis, x: f64, bottom: f64) {
        let ends: Vec<f64> =
            self.curves.iter().map(|curve| curve.points.last().map_or(bottom, |(_, it)| up.at(it.median))).collect();
        // Two lines of text per curve.
        for ((curve, class), y) in self.curves.iter().zip(CLASSES).zip(apart(&ends, 2.0 * LINE, bottom - LINE)) {
            let class = format!("small {class}");
            drawing.text(x, y, &class, Anchor::Start, &curve.name);
            drawing.text(x, y + LINE, "small", Anchor::Start, &curve.last);
        }
    }
}

impl Curve {
    fn draw(&self, drawing: &mut Drawing, class: &str, across: &Axis, up: &Axis) {
        let at = |(position, point): &(f64, Point)| (across.at(*position), up.at(point.median));
        let points: Vec<(f64, f64)> = self.points.iter().filter(|(_, it)| it.median.is_finite()).map(at).collect();
        drawing.curve(class, &points);
        for (position, point) in self.points.iter().filter(|(_, point)| point.high > point.low) {
            let x = across.at(*position);
            drawing.line(&format!("{class} whisker"), (x, up.at(point.low)), (x, up.at(point.high)));
        }
        // Many points are a curve; few are measurements.
        if points.len() <= 16 {
            points.iter().for_each(|at| drawing.dot(class, *at, 3.0));
        }
    }
}

/// Moves positions at least `gap` apart, and not beyond `most`; their order stays.
fn apart(positions: &[f64], gap: f64, most: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by(|a, b| positions[*a].total_cmp(&positions[*b]));
    let mut moved = positions.to_vec();
    for pair in order.windows(2) {
        moved[pair[1]] = moved[pair[1]].max(moved[pair[0]] + gap);
    }
    let mut limit = most;
    for index in order.into_iter().rev() {
        moved[index] = moved[index].min(limit);
        limit = moved[index] - gap;
    }
    moved
}

/// The last value of a curve with its unit.
pub(super) fn last(value: f64, unit: &str) -> String {
    format!("{}{unit}", number(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn curve(name: &str, values: &[f64]) -> Curve {
        let points = values.iter().enumerate().map(|(index, it)| (10_f64.powi(index as i32), Point::single(*it)));
        Curve { name: name.into(), points: points.collect(), last: last(values.last().copied().unwrap_or(0.0), " µs") }
    }

    fn chart(panels: Vec<Panel>) -> Panels {
        Panels { title: "Growth".into(), axes: "Across: size".into(), panels, note: "PostgreSQL 15".into() }
    }

    proptest! {
        /// No text may cover another or leave the drawing, whatever is measured: curves that end at the same value,
        /// and values over many decades. The estimated boxes of all texts are compared.
        #[test]
        fn texts_do_not_overlap(
            values in proptest::collection::vec(proptest::collection::vec(1e-2..1e5f64, 1..8), 1..=MOST),
            decades in 0.0..5.0f64,
            is_relative in any::<bool>(),
            panels in 1usize..4,
        ) {
            let curves: Vec<Curve> = values.iter().map(|values| {
                let values: Vec<f64> = values.iter().map(|value| value.powf(decades / 5.0)).collect();
                curve("processor of the server", &values)
            }).collect();
            let limit = is_relative.then_some(1.2);
            let panel = Panel { heading: "Messages that wait in a queue".into(), curves, limit };
            let faults = chart(vec![panel; panels]).draw().faults();
            prop_assert!(faults.is_empty(), "{:?}", faults);
        }

        /// Names that are moved apart keep their order, their distance and the room they have.
        #[test]
        fn names_are_moved_apart(positions in proptest::collection::vec(0.0..100.0f64, 0..5)) {
            let moved = apart(&positions, 20.0, 100.0);
            let mut sorted = moved.clone();
            sorted.sort_by(f64::total_cmp);
            prop_assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 20.0 - 1e-9), "{:?}", moved);
            prop_assert!(moved.iter().all(|it| *it <= 100.0), "{:?}", moved);
        }
    }

    /// Samples in which nothing was measured are drawn as an empty panel, not as a broken document.
    #[test]
    fn a_panel_without_values_is_drawn() {
        let empty = Curve { name: "p99".into(), points: vec![(0.0, Point::single(f64::NAN))], last: "?".into() };
        let panel = Panel { heading: "Latency".into(), curves: vec![empty], limit: None };
        let text = chart(vec![panel]).svg();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
