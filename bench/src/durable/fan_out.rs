//! Throughput: orchestrations of five activities without delay, 20 at a time, with more and more dispatchers.

use workloads::{Dispatchers, FanOut, Outcome, Workload};

use super::arena::{Arena, Played};
use super::contender::{CEILING, Contender, DUROXIDE_PG, DUROXIDE_PG_OPT, Entry, REVEILLE, WOKEN};
use crate::Result;
use crate::comparison::{Comparison, Line, compare};
use crate::report::{Goal, Report};
use crate::stats::Rounds;

/// The name of this workload.
pub(super) const NAME: &str = "fan-out";
/// Dispatchers of each kind.
const DISPATCHERS: [usize; 4] = [1, 2, 4, 8];
/// Where the contenders are compared.
const COMPARED: usize = 4;
/// From this share of the ceiling on there is nothing left for more dispatchers to gain.
const AT_THE_CEILING: f64 = 0.9;
/// Below this, more dispatchers are slower; above it, the difference is the machine's.
const NOT_SLOWER: f64 = 0.95;

/// Measures and compares all contenders.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let mut entries = Vec::new();
    for dispatchers in DISPATCHERS {
        let own: &[Contender] =
            if dispatchers == COMPARED { &[REVEILLE, WOKEN, CEILING] } else { &[REVEILLE, CEILING] };
        let peers_too = !arena.quick || dispatchers == COMPARED;
        for contender in if peers_too { arena.with_peers(own) } else { own.to_vec() } {
            // A much faster contender gets more work, or its round would end before it is measured.
            let orchestrations = match contender {
                Contender::Own(_) => arena.choose(500, 3_000),
                Contender::Peer(_) => arena.choose(100, 500),
            };
            let workload = Workload::FanOut(FanOut::new(orchestrations, Dispatchers::same(dispatchers)));
            entries.push(Entry { title: title(dispatchers), contender, workload });
        }
    }
    let play = async |entry: &Entry| figures(arena.play(entry.contender, &entry.workload).await?);
    let comparison = Comparison::run(entries, arena.rounds(2, 3), play).await;
    comparison.report(report);
    against_others(arena, &comparison, report);
    against_itself(&comparison, report);
    Ok(())
}

fn title(dispatchers: usize) -> String {
    format!("{NAME}, dispatchers {dispatchers}:{dispatchers}")
}

fn figures(Played { outcome, cost }: Played) -> Result<Line> {
    let Outcome::FanOut(done) = outcome else { return Err("not the outcome of a fan-out".into()) };
    if let Some(failure) = &done.first_failure {
        eprintln!("  {} of {} failed, the first: {failure}", done.failures, done.failures + done.completed);
    }
    let mut line = vec![
        ("per_s", done.per_second),
        ("p50_ms", done.latencies.p50_ms.unwrap_or(f64::NAN)),
        ("p99_ms", done.latencies.p99_ms.unwrap_or(f64::NAN)),
        ("failures", done.failures as f64),
    ];
    if let Some(cost) = cost.map(|cost| cost.per(done.completed as f64)) {
        line.extend([
            ("statements_each", cost.statements),
            ("wal_bytes_each", cost.wal_bytes),
            ("rows_each", cost.rows),
        ]);
    }
    Ok(line)
}

fn rate(comparison: &Comparison<Contender, Workload>, contender: Contender, dispatchers: usize) -> Rounds {
    comparison.rounds(&title(dispatchers), contender, "per_s")
}

/// At 4:4, round by round.
fn against_others(arena: &Arena<'_>, comparison: &Comparison<Contender, Workload>, report: &mut Report) {
    let ours = rate(comparison, REVEILLE, COMPARED);
    let over = |contender| ours.over(&rate(comparison, contender, COMPARED));
    if arena.peers.is_some() {
        compare(report, NAME, "4:4 over duroxide-pg", Goal::AtLeast(5.0), &over(DUROXIDE_PG));
        compare(report, NAME, "4:4 over duroxide-pg-opt", Goal::AtLeast(8.0), &over(DUROXIDE_PG_OPT));
        report.target(
            "fan-out: 4:4 over duroxide-pg, the goal beyond",
            Goal::AtLeast(10.0),
            over(DUROXIDE_PG).median(),
        );
    }
    compare(report, NAME, "4:4 over the ceiling, the goal beyond", Goal::AtLeast(0.5), &over(CEILING));
    let cost = |figure| comparison.rounds(&title(COMPARED), REVEILLE, figure).median();
    report.target("fan-out: statements per orchestration", Goal::AtMost(12.0), cost("statements_each"));
    report.target("fan-out: WAL bytes per orchestration", Goal::AtMost(12_000.0), cost("wal_bytes_each"));
}

/// What more dispatchers bring.
fn against_itself(comparison: &Comparison<Contender, Workload>, report: &mut Report) {
    let ours = |dispatchers| rate(comparison, REVEILLE, dispatchers);
    let gain = ours(2).over(&ours(1));
    let share = ours(2).over(&rate(comparison, CEILING, 2)).median();
    let goal = if share >= AT_THE_CEILING { NOT_SLOWER } else { 1.3 };
    compare(report, NAME, "2:2 over 1:1", Goal::AtLeast(goal), &gain);
    compare(report, NAME, "4:4 over 2:2", Goal::AtLeast(NOT_SLOWER), &ours(4).over(&ours(2)));
    compare(report, NAME, "8:8 over 4:4", Goal::AtLeast(NOT_SLOWER), &ours(8).over(&ours(4)));
}
