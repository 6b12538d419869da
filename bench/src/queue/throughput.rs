//! Throughput: four connections push; four pop and ack, or one for each of five groups.

use traffic::{Outcome, Queue, Throughput, Workload};

use super::arena::{Arena, Played, new_name};
use super::contender::{Contender, Entry, HTTP, LIBRARY, PGMQ, RABBIT_CLASSIC, RABBIT_QUORUM};
use crate::Result;
use crate::comparison::{Comparison, Line, compare, report_ratio};
use crate::report::{Goal, Report};
use crate::stats::Rounds;

/// The name of this workload.
pub(super) const NAME: &str = "throughput";
const BATCHES: [usize; 3] = [1, 10, 100];
const PARTITIONS: [usize; 3] = [1, 100, 10_000];
/// From this number of partitions on the peers use as many queues as receiving connections.
const MANY: usize = 100;
const GROUPS: usize = 5;

/// Settings of a workload.
#[derive(Clone, Copy)]
struct Case {
    batch: usize,
    partitions: usize,
    groups: usize,
}

impl Case {
    fn title(self) -> String {
        let Case { batch, partitions, groups } = self;
        let partitions = if partitions == 1 { "1 partition".to_owned() } else { format!("{partitions} partitions") };
        let groups = if groups == 1 { String::new() } else { format!(", {groups} groups") };
        format!("{NAME}, batch {batch}, {partitions}{groups}")
    }

    fn workload(self, seconds: u64) -> Workload {
        let queue = Queue::new(new_name(), self.partitions, self.batch);
        let queue = if self.groups == 1 { queue } else { queue.for_groups(self.groups) };
        Workload::Throughput(Throughput { queue, seconds })
    }
}

fn cases(quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for batch in BATCHES {
        for partitions in PARTITIONS {
            if !quick || partitions <= MANY {
                cases.push(Case { batch, partitions, groups: 1 });
            }
        }
        if !quick || batch == 10 {
            cases.push(Case { batch, partitions: MANY, groups: GROUPS });
        }
    }
    cases
}

/// Measures and compares all contenders.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let seconds = arena.choose(3, 6);
    let mut entries = Vec::new();
    for case in cases(arena.quick) {
        let own = [HTTP, LIBRARY];
        let contenders = if case.partitions <= MANY { arena.with_peers(&own) } else { arena.own(&own) };
        for contender in contenders {
            entries.push(Entry { title: case.title(), contender, workload: case.workload(seconds) });
        }
    }
    let play = async |entry: &Entry| figures(arena.play(entry.contender, &entry.workload).await?);
    let comparison = Comparison::run(entries, arena.rounds(1, 3), play).await;
    comparison.report(report);
    if arena.rabbit.is_some() {
        for own in arena.own(&[HTTP, LIBRARY]) {
            for case in cases(arena.quick) {
                against_others(&comparison, own, case, report);
            }
        }
    }
    Ok(())
}

fn figures(Played { outcome, cost, processor }: Played) -> Result<Line> {
    let Outcome::Throughput(done) = outcome else { return Err("not the outcome of a throughput".into()) };
    if done.missing > 0 {
        return Err(format!("{} messages were not received", done.missing).into());
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

/// The rates of a contender in a case. Peers are not measured with more than [`MANY`] partitions.
fn rate(comparison: &Comparison<Contender, Workload>, contender: Contender, case: Case) -> Rounds {
    let partitions = if matches!(contender, Contender::Peer(_)) { case.partitions.min(MANY) } else { case.partitions };
    comparison.rounds(&Case { partitions, ..case }.title(), contender, "per_s")
}

fn against_others(comparison: &Comparison<Contender, Workload>, own: Contender, case: Case, report: &mut Report) {
    let ours = rate(comparison, own, case);
    let over = |peer| ours.over(&rate(comparison, peer, case));
    let name = |peer: &str| format!("{} over {peer}", if own == HTTP { "http" } else { "library" });
    // Cases with several groups have no target.
    let many = case.groups == 1 && (case.partitions >= MANY || case.batch == 100);
    let quorum = many && (own == LIBRARY || case.batch >= 10);
    for (peer, named, is_wanted) in
        [(PGMQ, "pgmq", many), (RABBIT_QUORUM, "rabbitmq quorum", quorum), (RABBIT_CLASSIC, "rabbitmq classic", false)]
    {
        let (name, ratio) = (name(named), over(peer));
        if is_wanted {
            compare(report, &case.title(), &name, Goal::AtLeast(1.0), &ratio);
        } else {
            report_ratio(report, &case.title(), &name, &ratio);
        }
    }
}
