//! Throughput: four connections send and four receive, from sending to ending.

use traffic::{Outcome, Queue, Throughput, Workload};

use super::arena::{Arena, Played, new_name};
use super::contender::{Contender, Entry, HTTP, LIBRARY, PGMQ, RABBIT_CLASSIC, RABBIT_QUORUM};
use crate::Result;
use crate::report::{Goal, Report};
use crate::standings::{Line, Standings, compare, told};
use crate::stats::Rounds;

/// The name of this workload.
pub(super) const NAME: &str = "throughput";
const BATCHES: [usize; 3] = [1, 10, 100];
const LANES: [usize; 3] = [1, 100, 10_000];
/// Where there are many lanes for the peers, too: as many queues as connections that receive, and so no matter how many.
const MANY: usize = 100;
const GROUPS: usize = 5;

/// What is compared.
#[derive(Clone, Copy)]
struct Case {
    batch: usize,
    lanes: usize,
    groups: usize,
}

impl Case {
    fn title(self) -> String {
        let Case { batch, lanes, groups } = self;
        let lanes = if lanes == 1 { "1 partition".to_owned() } else { format!("{lanes} partitions") };
        let groups = if groups == 1 { String::new() } else { format!(", {groups} groups") };
        format!("{NAME}, batch {batch}, {lanes}{groups}")
    }

    fn workload(self, seconds: u64) -> Workload {
        let queue = Queue::new(new_name(), self.lanes, self.batch);
        let queue = if self.groups == 1 { queue } else { queue.for_groups(self.groups) };
        Workload::Throughput(Throughput { queue, seconds })
    }
}

fn cases(quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for batch in BATCHES {
        for lanes in LANES {
            if !quick || lanes <= MANY {
                cases.push(Case { batch, lanes, groups: 1 });
            }
        }
        if !quick || batch == 10 {
            cases.push(Case { batch, lanes: MANY, groups: GROUPS });
        }
    }
    cases
}

/// Measures everybody, and compares.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let seconds = arena.choose(3, 6);
    let mut entries = Vec::new();
    for case in cases(arena.quick) {
        let own = [HTTP, LIBRARY];
        let contenders = if case.lanes <= MANY { arena.with_peers(&own) } else { arena.own(&own) };
        for contender in contenders {
            entries.push(Entry { title: case.title(), contender, workload: case.workload(seconds) });
        }
    }
    let play = async |entry: &Entry| figures(arena.play(entry.contender, &entry.workload).await?);
    let standings = Standings::contest(entries, arena.rounds(1, 3), play).await;
    standings.report(report);
    if arena.rabbit.is_some() {
        for own in arena.own(&[HTTP, LIBRARY]) {
            for case in cases(arena.quick) {
                against_others(&standings, own, case, report);
            }
        }
    }
    Ok(())
}

fn figures(Played { outcome, cost, processor }: Played) -> Result<Line> {
    let Outcome::Throughput(done) = outcome else { return Err("not the outcome of a throughput".into()) };
    if done.missing > 0 {
        return Err(format!("{} messages went missing", done.missing).into());
    }
    let messages = done.messages as f64;
    let cost = cost.per(messages);
    let per_million = |seconds: Option<f64>| seconds.map_or(f64::NAN, |seconds| seconds * 1e6 / messages);
    Ok(vec![
        ("per_s", done.per_second),
        ("client_cpu_s_per_million", per_million(processor.client)),
        ("server_cpu_s_per_million", per_million(processor.server)),
        ("database_cpu_s_per_million", per_million(processor.database)),
        ("statements_each", cost.statements),
        ("wal_bytes_each", cost.wal_bytes),
    ])
}

/// The figures of a contender in a case; of a peer those with many lanes, however many they are.
fn rate(standings: &Standings<Contender, Workload>, contender: Contender, case: Case) -> Rounds {
    let lanes = if matches!(contender, Contender::Peer(_)) { case.lanes.min(MANY) } else { case.lanes };
    standings.rounds(&Case { lanes, ..case }.title(), contender, "per_s")
}

fn against_others(standings: &Standings<Contender, Workload>, own: Contender, case: Case, report: &mut Report) {
    let ours = rate(standings, own, case);
    let over = |peer| ours.over(&rate(standings, peer, case));
    let name = |peer: &str| format!("{} over {peer}", if own == HTTP { "http" } else { "library" });
    // With one group; more are measured, and nothing is asked of them.
    let many = case.groups == 1 && (case.lanes >= MANY || case.batch == 100);
    let quorum = many && (own == LIBRARY || case.batch >= 10);
    for (peer, named, is_wanted) in
        [(PGMQ, "pgmq", many), (RABBIT_QUORUM, "rabbitmq quorum", quorum), (RABBIT_CLASSIC, "rabbitmq classic", false)]
    {
        let (name, ratio) = (name(named), over(peer));
        if is_wanted {
            compare(report, &case.title(), &name, Goal::AtLeast(1.0), &ratio);
        } else {
            told(report, &case.title(), &name, &ratio);
        }
    }
}
