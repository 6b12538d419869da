//! One orchestration of many activities, one after the other: the cost of a step, and whether it grows with the
//! history.

use workloads::{Chain, Dispatchers, Outcome, Workload};

use super::arena::{Arena, Played};
use super::contender::{CEILING, Contender, Entry, REVEILLE};
use crate::Result;
use crate::comparison::{Comparison, Line, compare};
use crate::report::{Goal, Report};
use crate::stats::Rounds;

/// The name of this workload.
pub(super) const NAME: &str = "chain";
const SHORT: usize = 100;
const LONG: usize = 1_000;
/// The length for the peers in a quick run: one that polls needs 100 ms per step.
const QUICK_FOR_PEERS: usize = 20;
const DISPATCHERS: Dispatchers = Dispatchers::same(2);
/// Up to this ratio a step of the long chain counts as equal to one of the short: it has longer numbers, and more
/// splits of index pages.
const THE_SAME: f64 = 1.1;

/// Measures all contenders on the short chain, ours and the ceiling on the long one.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let of_peers = arena.choose(QUICK_FOR_PEERS, SHORT);
    let mut chains = vec![(SHORT, REVEILLE), (SHORT, CEILING), (LONG, REVEILLE), (LONG, CEILING)];
    chains.extend(arena.with_peers(&[]).into_iter().map(|peer| (of_peers, peer)));
    chains.sort_by_key(|(steps, _)| *steps);
    let entry = |(steps, contender)| Entry {
        title: title(steps),
        contender,
        workload: Workload::Chain(Chain { steps, dispatchers: DISPATCHERS }),
    };
    let entries = chains.into_iter().map(entry).collect();
    let play = async |entry: &Entry| {
        let Workload::Chain(Chain { steps, .. }) = entry.workload else { return Err("not a chain".into()) };
        figures(arena.play(entry.contender, &entry.workload).await?, steps)
    };
    let comparison = Comparison::run(entries, arena.rounds(1, 3), play).await;
    comparison.report(report);

    let figure = |contender: Contender, steps, figure| comparison.rounds(&title(steps), contender, figure);
    report.target("chain: ms per step", Goal::AtMost(3.0), figure(REVEILLE, SHORT, "ms_each").median());
    for (name, what) in [
        ("rows per step, long over short", "rows_each"),
        ("WAL bytes per step, long over short", "wal_bytes_each"),
        ("statements per step, long over short", "statements_each"),
    ] {
        let ratio = figure(REVEILLE, LONG, what).over(&figure(REVEILLE, SHORT, what));
        compare(report, NAME, name, Goal::AtMost(THE_SAME), &ratio);
    }
    // The runtime replays the whole history in every turn, which is not the provider's time.
    let own_time = |steps| -> Rounds { figure(REVEILLE, steps, "ms_each").less(&figure(CEILING, steps, "ms_each")) };
    let ratio = own_time(LONG).over(&own_time(SHORT));
    compare(report, NAME, "ms per step beyond the ceiling's, long over short", Goal::AtMost(1.2), &ratio);
    Ok(())
}

fn title(steps: usize) -> String {
    format!("{NAME} of {steps}")
}

pub(super) fn figures(Played { outcome, cost, .. }: Played, steps: usize) -> Result<Line> {
    let Outcome::Chain(done) = outcome else { return Err("not the outcome of a chain".into()) };
    let mut line = vec![("ms_each", done.ms_per_step), ("total_ms", done.total_ms)];
    if let Some(cost) = cost.map(|cost| cost.per(steps as f64)) {
        line.extend([
            ("statements_each", cost.statements),
            ("wal_bytes_each", cost.wal_bytes),
            ("rows_each", cost.rows),
        ]);
    }
    Ok(line)
}
