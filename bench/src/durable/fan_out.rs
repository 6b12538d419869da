//! Throughput: orchestrations of five activities without delay, 20 at a time, with more and more dispatchers.
//!
//! With [`Waits::Client`] a rate is also that of the client, which sees a result only at its next poll. So the systems
//! are compared with [`Waits::Signal`], and at 4:4 in both ways.

use workloads::{Dispatchers, FanOut, Outcome, Waits, Workload};

use super::arena::{Arena, Played};
use super::contender::{CEILING, Contender, DUROXIDE_PG, DUROXIDE_PG_OPT, Entry, REVEILLE, WAITED_ACKS, WOKEN};
use crate::Result;
use crate::comparison::{Comparison, Line, Named as _, compare};
use crate::report::{Goal, Report};
use crate::stats::Rounds;

/// The name of this workload.
pub(super) const NAME: &str = "fan-out";
/// From this share of the ceiling on there is nothing left for more dispatchers to gain.
const AT_THE_CEILING: f64 = 0.9;
/// Below this, more dispatchers are slower; above it, the difference is the machine's.
const NOT_SLOWER: f64 = 0.95;

/// What is compared.
#[derive(Clone, Copy, PartialEq)]
struct Case {
    /// Of each kind.
    dispatchers: usize,
    waits: Waits,
}

const ONE: Case = Case { dispatchers: 1, waits: Waits::Signal };
const TWO: Case = Case { dispatchers: 2, waits: Waits::Signal };
const FOUR: Case = Case { dispatchers: 4, waits: Waits::Signal };
const EIGHT: Case = Case { dispatchers: 8, waits: Waits::Signal };
const FOUR_BY_CLIENT: Case = Case { dispatchers: 4, waits: Waits::Client };

/// The least rate over that of each peer.
const OVER_PEERS: [(Case, f64); 4] = [(ONE, 2.5), (TWO, 4.0), (FOUR, 5.0), (FOUR_BY_CLIENT, 5.0)];
/// The peers, each with the goal beyond at 4:4.
const PEERS: [(Contender, f64); 2] = [(DUROXIDE_PG, 10.0), (DUROXIDE_PG_OPT, 8.0)];

impl Case {
    fn title(self) -> String {
        format!("{NAME}, dispatchers {}", self.short())
    }

    fn short(self) -> String {
        let waits = match self.waits {
            Waits::Client => "client",
            Waits::Signal => "signal",
        };
        format!("{0}:{0}, {waits}", self.dispatchers)
    }

    fn contenders(self, arena: &Arena<'_>) -> Vec<Contender> {
        if self == EIGHT {
            return vec![REVEILLE];
        }
        arena.with_peers(match self.waits {
            Waits::Client => &[REVEILLE, WOKEN],
            Waits::Signal => &[REVEILLE, WAITED_ACKS, CEILING],
        })
    }
}

/// Measures and compares all contenders.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let mut entries = Vec::new();
    for case in [ONE, TWO, FOUR, FOUR_BY_CLIENT, EIGHT] {
        let Case { dispatchers, waits } = case;
        for contender in case.contenders(arena) {
            // A much faster contender gets more work, or its round would end before it is measured.
            let orchestrations = match contender {
                Contender::Own(_) => arena.choose(1_000, 3_000),
                Contender::Peer(_) => arena.choose(200, 500),
            };
            let fan_out = FanOut { waits, ..FanOut::new(orchestrations, Dispatchers::same(dispatchers)) };
            entries.push(Entry { title: case.title(), contender, workload: Workload::FanOut(fan_out) });
        }
    }
    let play = async |entry: &Entry| figures(arena.play(entry.contender, &entry.workload).await?);
    let comparison = Comparison::run(entries, arena.rounds(2, 3), play).await;
    comparison.report(report);
    against_others(arena, &comparison, report);
    against_goals(&comparison, report);
    against_itself(&comparison, report);
    Ok(())
}

fn figures(Played { outcome, cost, processor }: Played) -> Result<Line> {
    let Outcome::FanOut(done) = outcome else { return Err("not the outcome of a fan-out".into()) };
    if let Some(failure) = &done.first_failure {
        let all = done.failures + done.completed;
        return Err(format!("{} of {all} orchestrations failed, the first: {failure}", done.failures).into());
    }
    let completed = done.completed as f64;
    let ms_each = |seconds: f64| 1_000.0 * seconds / completed;
    let mut line = vec![
        ("per_s", done.per_second),
        ("p50_ms", done.latencies.p50_ms.unwrap_or(f64::NAN)),
        ("p99_ms", done.latencies.p99_ms.unwrap_or(f64::NAN)),
        ("process_cpu_ms_each", ms_each(processor.process)),
    ];
    if let Some(cost) = cost.map(|cost| cost.per(completed)) {
        line.extend([
            ("server_cpu_ms_each", ms_each(processor.server)),
            ("cpu_ms_each", ms_each(processor.process + processor.server)),
            ("statements_each", cost.statements),
            ("wal_bytes_each", cost.wal_bytes),
            ("rows_each", cost.rows),
        ]);
    }
    if let Some(reads) = done.reads {
        line.push(("status_reads_each", reads.all as f64 / completed));
        line.push(("verifying_reads_each", reads.verifying as f64 / completed));
    }
    Ok(line)
}

fn rate(comparison: &Comparison<Contender, Workload>, contender: Contender, case: Case) -> Rounds {
    comparison.rounds(&case.title(), contender, "per_s")
}

/// Rates over those of the peers and of the ceiling, round by round.
fn against_others(arena: &Arena<'_>, comparison: &Comparison<Contender, Workload>, report: &mut Report) {
    let over = |contender, case| rate(comparison, REVEILLE, case).over(&rate(comparison, contender, case));
    for (peer, beyond) in PEERS.iter().copied().filter(|_| arena.peers.is_some()) {
        for (case, goal) in OVER_PEERS {
            let (name, ratio) = (format!("{} over {}", case.short(), peer.name()), over(peer, case));
            compare(report, NAME, &name, Goal::AtLeast(goal), &ratio);
            if case.dispatchers == FOUR.dispatchers {
                let name = format!("{NAME}: {name}, the goal beyond");
                report.target(&name, Goal::AtLeast(beyond), ratio.median());
            }
        }
    }
    let name = format!("{} over the ceiling, the goal beyond", FOUR.short());
    compare(report, NAME, &name, Goal::AtLeast(0.5), &over(CEILING, FOUR));
}

/// The costs of an orchestration, by signal; at 4:4 unless they say otherwise.
fn against_goals(comparison: &Comparison<Contender, Workload>, report: &mut Report) {
    for (name, case, figure, goal) in [
        ("processor ms of the process per orchestration, 1:1", ONE, "process_cpu_ms_each", 1.5),
        ("processor ms of the process per orchestration, 4:4", FOUR, "process_cpu_ms_each", 0.8),
        ("processor ms of process and server per orchestration", FOUR, "cpu_ms_each", 2.4),
        ("statements per orchestration", FOUR, "statements_each", 5.0),
        ("WAL bytes per orchestration", FOUR, "wal_bytes_each", 12_000.0),
    ] {
        let value = comparison.rounds(&case.title(), REVEILLE, figure).median();
        report.target(&format!("{NAME}: {name}"), Goal::AtMost(goal), value);
    }
}

/// What more dispatchers bring.
fn against_itself(comparison: &Comparison<Contender, Workload>, report: &mut Report) {
    let ours = |case| rate(comparison, REVEILLE, case);
    let gain = ours(TWO).over(&ours(ONE));
    let share = ours(TWO).over(&rate(comparison, CEILING, TWO)).median();
    let goal = if share >= AT_THE_CEILING { NOT_SLOWER } else { 1.3 };
    compare(report, NAME, "2:2 over 1:1", Goal::AtLeast(goal), &gain);
    compare(report, NAME, "4:4 over 2:2", Goal::AtLeast(NOT_SLOWER), &ours(FOUR).over(&ours(TWO)));
    compare(report, NAME, "8:8 over 4:4", Goal::AtLeast(NOT_SLOWER), &ours(EIGHT).over(&ours(FOUR)));
}
