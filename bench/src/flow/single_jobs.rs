//! Single jobs: tasks of one step beside the jobs of awa, a PostgreSQL job queue in Rust.
//!
//! A fixed number of jobs is in progress. Sixteen submitters add them one at a time, each in a call of its own that
//! returns when the job is stored; workers in the same process run a handler that does nothing. A job that has run is
//! replaced by a new one. Handlers that have run are counted. No contender has more than a bounded number of results
//! that are not stored yet, so this is also the rate of completed jobs.

use tasks::{Measure, Shape, Workload};

use super::arena::{Arena, Played, line};
use super::contender::{Awa, Contender, Entry, Library, TunedAwa};
use super::piece::Piece;
use crate::Result;
use crate::comparison::{Comparison, Named as _, compare};
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const TITLE: &str = "single-jobs";
/// The slots of the only worker, and how many jobs are in progress.
const SIZES: [(usize, usize); 2] = [(64, 256), (256, 1_024)];
/// The least rate over that of awa.
const OVER_AWA: f64 = 1.2;

/// Measures and compares all contenders.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let peers: &[Contender] = if arena.programs.peers.is_some() { &[Awa, TunedAwa] } else { &[] };
    let seconds = arena.choose(4, 10);
    let mut entries = Vec::new();
    for (slots, concurrent) in SIZES {
        for &contender in [Library].iter().chain(peers) {
            let measure = Measure::Rate { concurrent, seconds };
            let workload = Piece::Shared(Workload { shape: Shape::Single, workers: 1, slots, measure });
            entries.push(Entry { title: title(slots), contender, workload });
        }
    }
    let play = async |entry: &Entry| {
        let Played { outcome, cost, processor } = arena.play(entry.contender, &entry.workload).await?;
        let each = cost.per(outcome.figure("tasks"));
        let mut line = line(&outcome, &["tasks_per_s"]);
        line.extend([
            ("statements_per_job", each.statements),
            ("wal_bytes_per_job", each.wal_bytes),
            ("rows_per_job", each.rows),
            ("database_cpu_ms_per_job", 1_000.0 * processor / outcome.figure("tasks")),
        ]);
        Ok(line)
    };
    let comparison = Comparison::run(entries, arena.rounds(3, 5), play).await;
    comparison.report(report);
    for (slots, _) in SIZES {
        let rate = |contender| comparison.rounds(&title(slots), contender, "tasks_per_s");
        for &peer in peers {
            let name = format!("{} over {}", Library.name(), peer.name());
            compare(report, &title(slots), &name, Goal::AtLeast(OVER_AWA), &rate(Library).over(&rate(peer)));
        }
    }
    Ok(())
}

fn title(slots: usize) -> String {
    format!("{TITLE}, {slots} places")
}
