//! How late timers fire, one at a time, so that nothing else delays them.

use workloads::{Dispatchers, Outcome, Timer, Workload};

use super::arena::{Arena, Played};
use super::contender::{CEILING, Entry, REVEILLE};
use crate::Result;
use crate::comparison::{Comparison, Line};
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const NAME: &str = "timer lateness";
const DISPATCHERS: Dispatchers = Dispatchers::same(2);

/// Measures all contenders.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let timer = Timer { timers: arena.choose(7, 40), concurrent: 1, dispatchers: DISPATCHERS };
    let entry = |contender| Entry { title: NAME.into(), contender, workload: Workload::Timer(timer) };
    let entries = arena.with_peers(&[REVEILLE, CEILING]).into_iter().map(entry).collect();
    let play = async |entry: &Entry| figures(arena.play(entry.contender, &entry.workload).await?);
    let comparison = Comparison::run(entries, arena.rounds(1, 2), play).await;
    comparison.report(report);
    report.target("timer: p99 late ms", Goal::AtMost(10.0), comparison.rounds(NAME, REVEILLE, "p99_ms").median());
    Ok(())
}

fn figures(Played { outcome, .. }: Played) -> Result<Line> {
    let Outcome::Timer(done) = outcome else { return Err("not the outcome of timers".into()) };
    if let Some(failure) = &done.first_failure {
        eprintln!("  {} timers failed, the first: {failure}", done.failures);
    }
    let least = done.lateness.samples_ms.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(vec![
        ("p50_ms", done.lateness.p50_ms.unwrap_or(f64::NAN)),
        ("p99_ms", done.lateness.p99_ms.unwrap_or(f64::NAN)),
        ("least_ms", least),
        ("failures", done.failures as f64),
        ("timers", done.lateness.samples_ms.len() as f64),
    ])
}
