//! The latency from a push to the pop that waits for it: without other load, and at half of the throughput.

use traffic::{Latency, Outcome, Queue, Workload};

use super::arena::{Arena, Played, new_name};
use super::contender::{Entry, HTTP, HTTP_TWO, LIBRARY};
use crate::Result;
use crate::comparison::{Comparison, Line, Named as _};
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const NAME: &str = "latency";
const IDLE: &str = "latency, push to parked pop, idle";
const LOADED: &str = "latency, push to parked pop, under 50 % load";
/// The average pause between two messages.
const PAUSE_MS: u64 = 20;
/// Partitions and batch size of the other load.
const PARTITIONS: usize = 100;
const BATCH: usize = 10;

/// Measures all contenders.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let samples = arena.choose(200, 1_000);
    let mut entries = Vec::new();
    for (title, share) in [(IDLE, 0.0), (LOADED, 0.5)] {
        for contender in arena.with_peers(&[HTTP, HTTP_TWO, LIBRARY]) {
            let beside = (share > 0.0).then(|| Queue::new(new_name(), PARTITIONS, BATCH));
            let probe = Queue::probed(new_name(), 1);
            let workload = Workload::Latency(Latency { probe, samples, pause_ms: PAUSE_MS, beside, share });
            entries.push(Entry { title: title.into(), contender, workload });
        }
    }
    let play = async |entry: &Entry| figures(arena.play(entry.contender, &entry.workload).await?);
    let comparison = Comparison::run(entries, arena.rounds(1, 3), play).await;
    comparison.report(report);
    for title in [IDLE, LOADED] {
        for own in arena.own(&[HTTP, HTTP_TWO]) {
            for (figure, goal) in [("p50_ms", 3.0), ("p99_ms", 10.0)] {
                let name = format!("{title}, {}: {figure}", own.name());
                report.target(&name, Goal::AtMost(goal), comparison.rounds(title, own, figure).median());
            }
        }
    }
    Ok(())
}

fn figures(Played { outcome, .. }: Played) -> Result<Line> {
    let Outcome::Latency(done) = outcome else { return Err("not the outcome of a latency".into()) };
    Ok(vec![
        ("p50_ms", done.latencies.p50_ms.unwrap_or(f64::NAN)),
        ("p99_ms", done.latencies.p99_ms.unwrap_or(f64::NAN)),
        ("max_ms", done.latencies.max_ms.unwrap_or(f64::NAN)),
        ("samples", done.latencies.count as f64),
        ("beside_per_s", done.beside_per_second),
    ])
}
