//! The cost of clients that wait without messages, on one queue or on one each; and how soon all of them are served.

use traffic::{Crowd, Outcome, Workload};

use super::arena::{Arena, Played, new_name};
use super::contender::{Contender, Entry, HTTP, LIBRARY};
use crate::Result;
use crate::comparison::{Comparison, Line};
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const NAME: &str = "parked clients";
/// The numbers of clients and of the queues on which they wait.
const CROWDS: [(usize, usize); 5] = [(100, 1), (1_000, 1), (10_000, 1), (1_000, 1_000), (5_000, 5_000)];
/// The number of clients for which memory has a target.
const MOST: usize = 10_000;

/// Measures Reveille.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let seconds = arena.choose(5, 30);
    let own = arena.own(&[HTTP, LIBRARY]);
    let mut entries = Vec::new();
    for (receivers, queues) in CROWDS {
        for &contender in &own {
            let workload = Workload::Crowd(Crowd { name: new_name(), receivers, queues, seconds });
            entries.push(Entry { title: title(receivers, queues), contender, workload });
        }
    }
    let play = async |entry: &Entry| play(arena, entry.contender, &entry.workload).await;
    let comparison = Comparison::run(entries, arena.rounds(1, 1), play).await;
    comparison.report(report);
    for (receivers, queues) in CROWDS {
        for &contender in &own {
            let title = title(receivers, queues);
            let figure = |figure| comparison.rounds(&title, contender, figure).median();
            let who = if contender == HTTP { "http" } else { "library" };
            report.target(&format!("{title}, {who}: statements"), Goal::AtMost(0.0), figure("statements"));
            if contender == HTTP && receivers == MOST {
                report.target(&format!("{title}, {who}: server MB"), Goal::AtMost(300.0), figure("server_mb"));
            }
        }
    }
    Ok(())
}

fn title(receivers: usize, queues: usize) -> String {
    let on = if queues == 1 { "one queue".to_owned() } else { format!("{queues} queues") };
    format!("{NAME}, {receivers} on {on}")
}

async fn play(arena: &Arena<'_>, contender: Contender, workload: &Workload) -> Result<Line> {
    let mut round = arena.prepare(contender, workload).await?;
    let Played { outcome, cost, processor } = round.play().await?;
    let Outcome::Crowd(waited) = outcome else { return Err("not the outcome of a crowd".into()) };
    let held = round.held_mb().filter(|_| contender.servers() > 0);
    let Played { outcome, cost: serving, .. } = round.play().await?;
    let Outcome::Crowd(served) = outcome else { return Err("not the outcome of a crowd".into()) };
    round.end().await?;
    let per_second = |seconds: Option<f64>| seconds.map_or(f64::NAN, |seconds| seconds / waited.seconds);
    Ok(vec![
        ("statements", cost.statements),
        ("statements_per_s", cost.statements / waited.seconds),
        ("server_mb", held.unwrap_or(f64::NAN)),
        ("server_cpu_share", per_second(processor.server)),
        ("client_cpu_share", per_second(processor.client)),
        ("database_cpu_share", per_second(processor.database)),
        ("all_served_s", served.seconds),
        ("serving_statements", serving.statements),
    ])
}
