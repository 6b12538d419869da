//! duroxide's own stress test, in the four configurations that its providers are expected to pass.

use workloads::{Outcome, Stress, Workload};

use super::arena::{Arena, Played};
use super::contender::{CEILING, Entry, REVEILLE};
use crate::Result;
use crate::comparison::{Comparison, Line};
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const NAME: &str = "stress";
const VALIDATION: &str = "stress, validation 1:1";
const BASELINE: &str = "stress, baseline 1:1";
const CONCURRENCY: &str = "stress, concurrency 2:2";
const LONG_POLL: &str = "stress, long polling 4:4";
const CONFIGURATIONS: [(&str, Stress); 4] = [
    (VALIDATION, Stress::VALIDATION),
    (BASELINE, Stress::BASELINE),
    (CONCURRENCY, Stress::CONCURRENCY),
    (LONG_POLL, Stress::LONG_POLL),
];
/// Long enough for two dozen orchestrations at the slowest: the test waits for those that run at the end.
const QUICK_SECONDS: u64 = 2;

/// Measures all contenders.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let own = [REVEILLE, CEILING];
    let contenders = if arena.quick { own.to_vec() } else { arena.with_peers(&own) };
    let mut entries = Vec::new();
    for (title, stress) in CONFIGURATIONS {
        let seconds = arena.choose(QUICK_SECONDS, stress.seconds);
        for &contender in &contenders {
            let workload = Workload::Stress(Stress { seconds, ..stress });
            entries.push(Entry { title: title.into(), contender, workload });
        }
    }
    // Its activities sleep most of the time, so one long round is more precise than several short ones.
    let play = async |entry: &Entry| figures(arena.play(entry.contender, &entry.workload).await?);
    let comparison = Comparison::run(entries, arena.rounds(1, 1), play).await;
    comparison.report(report);
    let ours = |title, figure| comparison.rounds(title, REVEILLE, figure);
    let worst = |figures: Vec<f64>, worse: fn(f64, f64) -> f64| {
        // A figure that could not be measured is the worst.
        figures
            .into_iter()
            .reduce(|a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { worse(a, b) })
            .unwrap_or(f64::NAN)
    };
    let titles = CONFIGURATIONS.map(|(title, _)| title);
    let success = titles.map(|title| ours(title, "success_percent").median()).to_vec();
    report.target("stress: success %", Goal::AtLeast(100.0), worst(success, f64::min));
    let share = |title| ours(title, "per_s").over(&comparison.rounds(title, CEILING, "per_s")).median();
    report.target(
        "stress: least share of the ceiling",
        Goal::AtLeast(0.9),
        worst(titles.map(share).to_vec(), f64::min),
    );
    // Three activities of 50 ms on one worker are 150 ms: the validation cannot be under a hundred on any provider.
    let latencies = [BASELINE, CONCURRENCY, LONG_POLL].map(|title| ours(title, "average_latency_ms").median()).to_vec();
    report.target("stress: average latency ms", Goal::AtMost(100.0), worst(latencies, f64::max));
    report.target("stress: 1:1 orchestrations/s", Goal::AtLeast(10.0), ours(BASELINE, "per_s").median());
    let gain = ours(CONCURRENCY, "per_s").over(&ours(BASELINE, "per_s"));
    report.target("stress: 2:2 over 1:1", Goal::AtLeast(1.3), gain.median());
    Ok(())
}

fn figures(Played { outcome, cost, .. }: Played) -> Result<Line> {
    let Outcome::Stress(done) = outcome else { return Err("not the outcome of a stress test".into()) };
    let mut line = vec![
        ("per_s", done.per_second),
        ("average_latency_ms", done.average_latency_ms),
        ("completed", done.completed as f64),
        ("success_percent", 100.0 * done.completed as f64 / done.launched as f64),
    ];
    if let Some(cost) = cost.map(|cost| cost.per(done.completed as f64)) {
        line.push(("statements_each", cost.statements));
    }
    Ok(line)
}
