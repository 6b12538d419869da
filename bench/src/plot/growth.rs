//! The chart of growth: what a unit costs by size, as a multiple of its cost at the smallest size.

use super::dots::Kind;
use super::panels::{Curve, MOST, Panel, Panels, last};
use super::results::{Measured, Point, Results};
use crate::growth::{FLAT, name_and_size};

/// The benchmark whose results these are.
const BENCH: &str = "growth";
/// The costs that are drawn: the first of these that a workload has. A factor leads to the unit.
const COSTS: [(&str, &str, f64, &str); 10] = [
    ("push_us", "push", 1.0, " µs"),
    ("pop_us", "pop and ack", 1.0, " µs"),
    ("submit_us", "submit", 1.0, " µs"),
    ("run_us", "run", 1.0, " µs"),
    ("p50_ms", "latency, p50", 1.0, " ms"),
    ("ms_each", "time", 1.0, " ms"),
    ("statements_each", "statements", 1.0, ""),
    ("database_cpu_us", "server CPU", 1.0, " µs"),
    ("client_cpu_us", "process CPU", 1.0, " µs"),
    ("wal_bytes_each", "WAL", 0.001, " kB"),
];

/// A cost that is reported beside that of a bound: only the time beyond it is the system's own.
const BEYOND: &str = "ms_each";

/// The costs at a size.
struct At<'a> {
    size: usize,
    own: &'a Measured,
    /// The bound under the same workload.
    bound: Option<&'a Measured>,
}

/// The chart; `None` without results.
pub(super) fn chart(results: &Results) -> Option<Panels> {
    let mut panels: Vec<(&str, Vec<At<'_>>)> = Vec::new();
    let all = results.of(BENCH);
    for own in all.iter().filter(|measured| Kind::of(&measured.system) == Kind::Own) {
        let Some((name, size)) = name_and_size(&own.workload) else { continue };
        let is_bound = |it: &&Measured| it.workload == own.workload && Kind::of(&it.system) == Kind::Reference;
        let at = At { size, own, bound: all.iter().find(is_bound) };
        match panels.iter_mut().find(|(other, _)| *other == name) {
            Some((_, sizes)) => sizes.push(at),
            None => panels.push((name, vec![at])),
        }
    }
    let panels: Vec<Panel> = panels.into_iter().filter_map(|(name, sizes)| panel(name, sizes)).collect();
    let mut note = results.setting(&[BENCH]);
    note.push_str(if note.is_empty() { "" } else { ". " });
    note.push_str("Medians of the rounds; whiskers: their range. How it was measured: docs/benchmarks.md");
    (!panels.is_empty()).then(|| Panels {
        title: "Growth of the cost of a unit with what is stored or waits".to_owned(),
        axes: format!(
            "Across: size. Up: cost as a multiple of that at the smallest size; dashed: {FLAT}, the goal. \
                       Beside a name: the cost at the largest size"
        ),
        panels,
        note,
    })
}

impl At<'_> {
    fn point(&self, figure: &str) -> Option<Point> {
        let point = self.own.point(figure)?;
        match self.bound.and_then(|bound| bound.number(figure)).filter(|_| figure == BEYOND) {
            Some(bound) => Some(Point::single(point.median - bound)),
            None => Some(point),
        }
    }
}

fn panel(name: &str, mut sizes: Vec<At<'_>>) -> Option<Panel> {
    sizes.sort_by_key(|at| at.size);
    let curve = |(figure, name, factor, unit): (&str, &str, f64, &str)| {
        let points: Vec<(f64, Point)> =
            sizes.iter().filter_map(|at| Some((at.size as f64, at.point(figure)?))).collect();
        let first = points.first()?.1.median;
        let end = points.last()?.1.median;
        let relative = points.iter().map(|(size, point)| (*size, point.times(1.0 / first))).collect();
        (first > 0.0 && points.len() > 1).then(|| Curve {
            name: name.to_owned(),
            points: relative,
            last: last(end * factor, unit),
        })
    };
    let curves: Vec<Curve> = COSTS.into_iter().filter_map(curve).take(MOST).collect();
    let heading = name.trim_start_matches("growth, ").to_owned();
    (!curves.is_empty()).then_some(Panel { heading, curves, limit: Some(FLAT) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes are in the order of their numbers, however they were reported, and every cost is relative to the smallest
    /// size; the ceiling, ratios, and workloads with one size are not drawn.
    #[test]
    fn costs_are_relative_to_the_smallest_size() {
        let mut results = Results::default();
        let lines = [
            r#"{"bench":"growth","workload":"growth, queue backlog, 10000","system":"reveille, library","push_us":60,"statements_each":0.2}"#,
            r#"{"bench":"growth","workload":"growth, queue backlog, 1000","system":"reveille, library","push_us":50,"statements_each":0.2}"#,
            r#"{"bench":"growth","workload":"growth, queue backlog, compared within rounds","system":"push_us","ratio":1.2}"#,
            r#"{"bench":"growth","workload":"growth, flow steps, 10","system":"reveille","submit_us":1}"#,
        ];
        results.read("test", &lines.join("\n")).unwrap();
        let chart = chart(&results).unwrap();
        let [panel] = chart.panels.as_slice() else { panic!("{chart:?}") };
        assert_eq!(panel.heading, "queue backlog");
        let names: Vec<&str> = panel.curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!((names, panel.curves[0].last.as_str()), (vec!["push", "statements"], "60 µs"));
        let points: Vec<(f64, f64)> = panel.curves[0].points.iter().map(|(size, it)| (*size, it.median)).collect();
        assert_eq!(points, [(1_000.0, 1.0), (10_000.0, 1.2)]);
    }

    /// duroxide's runtime replays the whole history in every turn. That is not the provider's time, so the time of the
    /// model in memory is subtracted.
    #[test]
    fn the_time_of_the_bound_is_subtracted() {
        let mut results = Results::default();
        for (size, own, bound) in [(10, 1.5, 0.5), (100, 4.2, 3.0)] {
            let line = |system: &str, ms: f64| {
                format!(
                    r#"{{"bench":"growth","workload":"growth, durable history, {size}","system":"{system}","ms_each":{ms}}}"#
                )
            };
            results
                .read("test", &format!("{}\n{}", line("reveille", own), line("in memory (the ceiling)", bound)))
                .unwrap();
        }
        let chart = chart(&results).unwrap();
        let [panel] = chart.panels.as_slice() else { panic!("{chart:?}") };
        let last = panel.curves[0].points.last().unwrap().1.median;
        assert!((last - 1.2).abs() < 1e-9, "{last}");
    }
}
