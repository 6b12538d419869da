//! The latency of a single task by its shape: from its submission until its end is known.
//!
//! Only one task runs at a time, so no writes are grouped, and a step has its highest cost. The cost includes
//! submitting the task, waiting for its end and reading its result. A contender that cannot wait for the end is
//! compared by the time until the last step has run.

use tasks::{Measure, Shape, Workload};

use super::arena::{Arena, Played, line};
use super::contender::{Contender, Dbos, Entry, Graphile, Http, Library};
use super::piece::Piece;
use crate::Result;
use crate::comparison::{Comparison, Named as _, compare};
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const TITLE: &str = "latency";
const SHAPES: [Shape; 5] = [Shape::Single, Shape::Chain, Shape::Diamond, Shape::Dag, Shape::Tree];
/// Workers with one slot each: twice the leaves of a tree.
const WORKERS: usize = 8;

/// Measures and compares all contenders.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let mut entries = Vec::new();
    for shape in SHAPES {
        for contender in arena.with_peers(peers(shape)) {
            let measure = Measure::Latency { samples: arena.choose(100, 500) };
            let workload = Piece::Shared(Workload { shape, workers: WORKERS, slots: 1, measure });
            entries.push(Entry { title: title(shape), contender, workload });
        }
    }
    let play = async |entry: &Entry| {
        let Piece::Shared(Workload { shape, .. }) = entry.workload else { return Err("not a shape".into()) };
        let Played { outcome, cost, .. } = arena.play(entry.contender, &entry.workload).await?;
        let each = cost.per(outcome.figure("samples") * shape.size() as f64);
        let mut line = line(&outcome, &["p50_ms", "p99_ms", "max_ms", "ran_p50_ms"]);
        line.extend([
            ("statements_per_step", each.statements),
            ("wal_bytes_per_step", each.wal_bytes),
            ("rows_per_step", each.rows),
        ]);
        Ok(line)
    };
    let comparison = Comparison::run(entries, arena.rounds(1, 3), play).await;
    comparison.report(report);
    let rounds = |shape, contender: Contender, figure| comparison.rounds(&title(shape), contender, figure);
    for (contender, goal) in [(Library, 10.0), (Http, 20.0)] {
        let name = format!("{}, {}: p50 ms", title(Shape::Chain), contender.name());
        report.target(&name, Goal::AtMost(goal), rounds(Shape::Chain, contender, "p50_ms").median());
    }
    for shape in SHAPES {
        for &peer in peers(shape).iter().filter(|_| arena.programs.peers.is_some()) {
            let (figure, named) = if peer == Graphile { ("ran_p50_ms", "p50 to its run") } else { ("p50_ms", "p50") };
            let ratio = rounds(shape, Library, figure).over(&rounds(shape, peer, figure));
            compare(report, &title(shape), &format!("{named} over {}", peer.name()), Goal::AtMost(1.0), &ratio);
        }
    }
    Ok(())
}

/// The peers that support a shape: graphile_worker has single jobs, DBOS has workflows of steps.
pub(super) fn peers(shape: Shape) -> &'static [Contender] {
    match shape {
        Shape::Single => &[Graphile],
        Shape::Chain => &[Dbos],
        _ => &[],
    }
}

fn title(shape: Shape) -> String {
    format!("{TITLE}, {}", shape.name())
}
