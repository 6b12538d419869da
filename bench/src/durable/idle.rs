//! The statements of an idle runtime.

use std::time::Duration;

use workloads::{Dispatchers, Idle, Outcome, Workload};

use super::arena::{Arena, Played};
use super::contender::{Entry, REVEILLE};
use crate::Result;
use crate::comparison::{Comparison, Line};
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const NAME: &str = "idle";
const DISPATCHERS: Dispatchers = Dispatchers::same(4);

/// Measures all contenders with a database.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let period = Duration::from_secs(arena.choose(10, 60));
    let title = format!("{NAME} for {} s, dispatchers 4:4", period.as_secs());
    let workload = Workload::Idle(Idle { period, dispatchers: DISPATCHERS });
    let entry = |contender| Entry { title: title.clone(), contender, workload: workload.clone() };
    let entries = arena.with_peers(&[REVEILLE]).into_iter().map(entry).collect();
    let play = async |entry: &Entry| figures(arena.play(entry.contender, &entry.workload).await?);
    let comparison = Comparison::run(entries, arena.rounds(1, 1), play).await;
    comparison.report(report);
    let statements = comparison.rounds(&title, REVEILLE, "statements");
    report.target("idle: statements", Goal::AtMost(0.0), statements.median());
    Ok(())
}

fn figures(Played { outcome, cost, .. }: Played) -> Result<Line> {
    let Outcome::Idle(done) = outcome else { return Err("not the outcome of an idle period".into()) };
    let cost = cost.ok_or("a contender without a database has no statements")?;
    Ok(vec![
        ("statements", cost.statements),
        ("statements_per_s", cost.statements / done.seconds),
        ("wal_bytes", cost.wal_bytes),
        ("seconds", done.seconds),
    ])
}
