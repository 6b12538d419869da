//! One task with five thousand parallel steps.

use tasks::{Measure, Shape, Workload};

use super::arena::{Arena, Played};
use super::contender::{Entry, Http, Library};
use super::piece::Piece;
use crate::Result;
use crate::comparison::Comparison;
use crate::report::Report;

/// The name of this workload.
pub(super) const TITLE: &str = "fan-out";
const WIDTH: usize = 5_000;
const WORKERS: usize = 4;
const SLOTS: usize = 16;

/// Measures Reveille.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let shape = Shape::Wide(WIDTH);
    let measure = Measure::Latency { samples: 1 };
    let workload = Piece::Shared(Workload { shape, workers: WORKERS, slots: SLOTS, measure });
    let title = format!("{TITLE} of {WIDTH}, {WORKERS} workers of {SLOTS} places");
    let entry = |contender| Entry { title: title.clone(), contender, workload };
    let entries = [Library, Http].map(entry).to_vec();
    let play = async |entry: &Entry| {
        let Played { outcome, cost, .. } = arena.play(entry.contender, &entry.workload).await?;
        let steps = shape.size() as f64;
        let (seconds, each) = (outcome.figure("max_ms") / 1_000.0, cost.per(steps));
        Ok(vec![
            ("seconds", seconds),
            ("steps_per_s", steps / seconds),
            ("statements_per_step", each.statements),
            ("wal_bytes_per_step", each.wal_bytes),
        ])
    };
    Comparison::run(entries, arena.rounds(1, 3), play).await.report(report);
    Ok(())
}
