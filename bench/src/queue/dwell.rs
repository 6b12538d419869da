//! The longest time that a message waits in a thousand partitions, below saturation: no partition may starve.

use traffic::{Dwell, Outcome, Queue, Workload};

use super::arena::{Arena, Played, new_name};
use super::contender::{Entry, HTTP, LIBRARY};
use crate::Result;
use crate::comparison::{Comparison, Line, Named as _};
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const NAME: &str = "dwell";
const PARTITIONS: usize = 1_000;
const BATCH: usize = 10;
/// The loads, as shares of the throughput.
const SHARES: [f64; 2] = [0.5, 0.8];

/// Measures all contenders.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let own = [HTTP, LIBRARY];
    let mut entries = Vec::new();
    for share in SHARES {
        for contender in arena.with_peers(&own) {
            let queue = Queue::new(new_name(), PARTITIONS, BATCH);
            let workload = Workload::Dwell(Dwell { queue, share, seconds: arena.choose(8, 60) });
            entries.push(Entry { title: title(share), contender, workload });
        }
    }
    let play = async |entry: &Entry| figures(arena.play(entry.contender, &entry.workload).await?);
    let comparison = Comparison::run(entries, arena.rounds(1, 1), play).await;
    comparison.report(report);
    for share in SHARES {
        for contender in arena.own(&own) {
            let most = comparison.rounds(&title(share), contender, "max_ms").median();
            report.target(&format!("{}, {}: max ms", title(share), contender.name()), Goal::AtMost(1_000.0), most);
        }
    }
    Ok(())
}

fn title(share: f64) -> String {
    format!("{NAME}, {PARTITIONS} partitions, {} % load", share * 100.0)
}

fn figures(Played { outcome, .. }: Played) -> Result<Line> {
    let Outcome::Dwell(done) = outcome else { return Err("not the outcome of a dwell".into()) };
    if done.missing > 0 {
        return Err(format!("{} messages were not received", done.missing).into());
    }
    Ok(vec![
        ("max_ms", done.latencies.max_ms.unwrap_or(f64::NAN)),
        ("p99_ms", done.latencies.p99_ms.unwrap_or(f64::NAN)),
        ("p50_ms", done.latencies.p50_ms.unwrap_or(f64::NAN)),
        ("per_s", done.per_second),
        ("messages", done.latencies.count as f64),
    ])
}
