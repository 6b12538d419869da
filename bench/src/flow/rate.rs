//! Throughput: of single steps, and of chains of four steps with 1 to 64 workers.

use tasks::{Measure, Shape, Workload};

use super::arena::{Arena, Played, line};
use super::contender::{Contender, Entry, Http, Library};
use super::graphs::peers;
use super::piece::Piece;
use crate::Result;
use crate::comparison::{Comparison, Named as _, compare};
use crate::report::{Goal, Report};
use crate::stats::Rounds;

/// The name of this workload.
pub(super) const TITLE: &str = "throughput";
/// Workers with one slot each.
const WORKERS: [usize; 4] = [1, 4, 16, 64];
/// The number of workers for comparisons.
const COMPARED: usize = 64;
/// Concurrent tasks.
const CONCURRENT: usize = 256;
/// With more workers the rate must be at least this share of the rate with fewer; smaller differences are noise.
const NOT_SLOWER: f64 = 0.95;
const STEPS_PER_S: f64 = 2_000.0;

/// A number of workers.
#[derive(Debug, Clone, Copy)]
struct Crew {
    workers: usize,
    slots: usize,
}

impl Crew {
    fn title(self, shape: Shape) -> String {
        let Crew { workers, slots } = self;
        let of = if slots == 1 { String::new() } else { format!(" of {slots} places") };
        let many = if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
        format!("{TITLE}, {}, {many}{of}", shape.name())
    }

    fn piece(self, shape: Shape, concurrent: usize, seconds: usize) -> Piece {
        let Crew { workers, slots } = self;
        Piece::Shared(Workload { shape, workers, slots, measure: Measure::Rate { concurrent, seconds } })
    }
}

const ONES: Crew = Crew { workers: COMPARED, slots: 1 };
/// As many slots in one worker, as in a program that starts only one.
const ALL_IN_ONE: Crew = Crew { workers: 1, slots: COMPARED };

/// The workers for one task at a time, whose end is not waited for: no writes are grouped, and all statements are those
/// of submitting it and running its steps.
const ALONE: Crew = Crew { workers: 4, slots: 1 };
/// The goal for the statements of a step in that workload.
const STATEMENTS: f64 = 4.0;

fn alone() -> String {
    format!("{TITLE}, {}, one task at a time", Shape::Chain.name())
}

/// A workload with a high throughput, for measurements under load.
pub(super) fn busy(shape: Shape, seconds: usize) -> Piece {
    ALL_IN_ONE.piece(shape, CONCURRENT, seconds)
}

/// Measures and compares all contenders.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let seconds = arena.choose(4, 10);
    let mut entries = Vec::new();
    let mut enter = |crew: Crew, shape, contenders: Vec<Contender>| {
        for contender in contenders {
            let workload = crew.piece(shape, CONCURRENT, seconds);
            entries.push(Entry { title: crew.title(shape), contender, workload });
        }
    };
    enter(ONES, Shape::Single, arena.with_peers(peers(Shape::Single)));
    for workers in WORKERS {
        let peers = if workers == COMPARED { peers(Shape::Chain) } else { &[] };
        enter(Crew { workers, slots: 1 }, Shape::Chain, arena.with_peers(peers));
    }
    enter(ALL_IN_ONE, Shape::Chain, vec![Library, Http]);
    for contender in [Library, Http] {
        entries.push(Entry { title: alone(), contender, workload: ALONE.piece(Shape::Chain, 1, seconds) });
    }
    let play = async |entry: &Entry| {
        let Played { outcome, cost, processor } = arena.play(entry.contender, &entry.workload).await?;
        let each = cost.per(outcome.figure("steps"));
        let mut line = line(&outcome, &["steps_per_s", "tasks_per_s"]);
        line.extend([
            ("statements_per_step", each.statements),
            ("wal_bytes_per_step", each.wal_bytes),
            ("rows_per_step", each.rows),
            ("database_cpu_ms_per_step", 1_000.0 * processor / outcome.figure("steps")),
        ]);
        Ok(line)
    };
    let comparison = Comparison::run(entries, arena.rounds(1, 3), play).await;
    comparison.report(report);

    let rate = |crew: Crew, shape, contender| comparison.rounds(&crew.title(shape), contender, "steps_per_s");
    let of = |workers| Crew { workers, slots: 1 };
    for contender in [Library, Http] {
        let best = WORKERS.map(|workers| rate(of(workers), Shape::Chain, contender).median());
        let best = best.into_iter().fold(f64::NAN, f64::max);
        report.target(&format!("{TITLE}, {}: steps/s", contender.name()), Goal::AtLeast(STEPS_PER_S), best);
        let statements = comparison.rounds(&alone(), contender, "statements_per_step").median();
        let name = format!("{}, {}: statements per step, unbatched", alone(), contender.name());
        report.target(&name, Goal::AtMost(STATEMENTS), statements);
        for pair in WORKERS.windows(2) {
            let more: Rounds =
                rate(of(pair[1]), Shape::Chain, contender).over(&rate(of(pair[0]), Shape::Chain, contender));
            let name = format!("{}, {} workers over {}", contender.name(), pair[1], pair[0]);
            compare(report, TITLE, &name, Goal::AtLeast(NOT_SLOWER), &more);
        }
        for shape in [Shape::Single, Shape::Chain] {
            for &peer in peers(shape).iter().filter(|_| arena.programs.peers.is_some()) {
                let ratio = rate(ONES, shape, contender).over(&rate(ONES, shape, peer));
                let name = format!("{}, {} over {}", shape.name(), contender.name(), peer.name());
                compare(report, TITLE, &name, Goal::AtLeast(1.0), &ratio);
            }
        }
    }
    Ok(())
}
