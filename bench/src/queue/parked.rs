//! Statements per message while a hundred clients wait on one queue.

use traffic::{Outcome, Parked, Queue, Workload};

use super::arena::{Arena, Played, new_name};
use super::contender::{Entry, HTTP, LIBRARY};
use crate::Result;
use crate::comparison::{Comparison, Line, Named as _};
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const NAME: &str = "statements per message, 100 parked clients";
const CLIENTS: usize = 100;
/// The average pause between two messages.
const PAUSE_MS: u64 = 20;
/// The fewest statements per message: a push, a poll and an ack.
const FEWEST: f64 = 3.0;

/// Measures Reveille.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let own = arena.own(&[HTTP, LIBRARY]);
    let entry = |contender| {
        let queue = Queue::probed(new_name(), CLIENTS);
        let messages = arena.choose(200, 1_000);
        let workload = Workload::Parked(Parked { queue, messages, pause_ms: PAUSE_MS });
        Entry { title: NAME.into(), contender, workload }
    };
    let entries = own.iter().copied().map(entry).collect();
    let play = async |entry: &Entry| figures(arena.play(entry.contender, &entry.workload).await?);
    let comparison = Comparison::run(entries, arena.rounds(1, 1), play).await;
    comparison.report(report);
    for contender in own {
        let statements = comparison.rounds(NAME, contender, "statements_each").median();
        let name = format!("{NAME}, {}: push, look and ack", contender.name());
        // Half a statement more: some polls find that another poll has claimed the message.
        report.target(&name, Goal::AtMost(FEWEST + 0.5), statements);
    }
    Ok(())
}

fn figures(Played { outcome, cost, .. }: Played) -> Result<Line> {
    let Outcome::Parked(done) = outcome else { return Err("not the outcome of parked clients".into()) };
    let cost = cost.per(done.latencies.count as f64);
    Ok(vec![
        ("statements_each", cost.statements),
        ("p50_ms", done.latencies.p50_ms.unwrap_or(f64::NAN)),
        ("p99_ms", done.latencies.p99_ms.unwrap_or(f64::NAN)),
        ("messages", done.latencies.count as f64),
    ])
}
