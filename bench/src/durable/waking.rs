//! How soon an idle process runs an orchestration that another process starts, its cost, and the statements afterwards:
//! for the peers, and for the three designs of waking in our own provider.
//!
//! Competing (ours): one wake-up, one poll for all waiters of a process. Polling after every wake-up: the same, and
//! then ten polls a second for a minute. Broadcast: one wake-up, one poll by every waiter.

use std::time::Duration;

use tokio::time::sleep;
use workloads::{Dispatchers, Latencies, Outcome, WakeClient, WakeWorker, Workload};

use super::arena::{Arena, IDLE_AFTER};
use super::contender::{BROADCAST, Contender, EVERY_WAKE, Entry, REVEILLE, WOKEN};
use super::player::start;
use crate::Result;
use crate::comparison::{Comparison, Line};
use crate::meter::Meter;
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const NAME: &str = "wake across processes";
const WORKER: Workload = Workload::WakeWorker(WakeWorker { dispatchers: Dispatchers::same(4) });

/// Measures all contenders in turns.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    // No event for at least this long before each start: all processes wait again.
    let pause = Duration::from_millis(arena.choose(100, 500));
    let samples = arena.choose(20, 60);
    let entry = |contender| Entry {
        title: NAME.into(),
        contender,
        workload: Workload::WakeClient(WakeClient { samples, pause }),
    };
    let own = [REVEILLE, WOKEN, EVERY_WAKE, BROADCAST];
    let entries = arena.with_peers(&own).into_iter().map(entry).collect();
    let afterwards = Duration::from_secs(arena.choose(2, 20));
    let play = async |entry: &Entry| play(arena, entry.contender, &entry.workload, afterwards).await;
    let comparison = Comparison::run(entries, arena.rounds(1, 2), play).await;
    comparison.report(report);
    report.target(
        "wake: first turn p99 ms",
        Goal::AtMost(5.0),
        comparison.rounds(NAME, REVEILLE, "turn_p99_ms").median(),
    );
    Ok(())
}

/// The functions that poll for turns and activities. All contenders call it by the names of duroxide's contract.
const POLLS: [&str; 2] = ["fetch_orchestration_item", "fetch_work_item"];

/// A worker process and a client process on one schema.
async fn play(arena: &Arena<'_>, contender: Contender, workload: &Workload, afterwards: Duration) -> Result<Line> {
    let schema = arena.server.new_schema()?;
    let mut worker = start(arena, contender, &schema, &WORKER).await?;
    worker.play::<Outcome>().await?;
    let mut client = start(arena, contender, &schema, workload).await?;
    let meter = Meter::start(arena.server).await?;
    let Outcome::WakeClient(done) = client.play().await? else { return Err("not the outcome of a client".into()) };
    let items = done.to_turn.samples_ms.len() as f64;
    let cost = meter.read().await?.per(items);
    let polls = meter.statements_with(&POLLS).await? / items;
    client.end().await?;
    sleep(IDLE_AFTER).await;
    let then = meter.statements().await?;
    sleep(afterwards).await;
    let asked = meter.statements().await? - then;
    worker.end().await?;
    arena.server.remove(&schema).await?;
    if let Some(failure) = &done.first_failure {
        eprintln!("  {} starts failed, the first: {failure}", done.failures);
    }
    let (p50, p99) = (|of: &Latencies| of.p50_ms.unwrap_or(f64::NAN), |of: &Latencies| of.p99_ms.unwrap_or(f64::NAN));
    Ok(vec![
        ("turn_p50_ms", p50(&done.to_turn)),
        ("turn_p99_ms", p99(&done.to_turn)),
        ("activity_p50_ms", p50(&done.to_activity)),
        ("completion_p50_ms", p50(&done.to_completion)),
        ("completion_p99_ms", p99(&done.to_completion)),
        ("statements_each", cost.statements),
        ("looks_each", polls),
        ("afterwards_per_s", asked / afterwards.as_secs_f64()),
        ("samples", items),
    ])
}
