//! Saturation: how much the rate of consumers drops while pushes are as fast as they can, with one partition and many.

use traffic::{Outcome, Queue, Saturation, Workload};

use super::arena::{Arena, Played, new_name};
use super::contender::{Entry, HTTP, LIBRARY};
use crate::Result;
use crate::comparison::{Comparison, Line, Named as _};
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const NAME: &str = "saturation";
const SENDERS: usize = 16;
const BATCH: usize = 100;
const PARTITIONS: [usize; 2] = [1, 100];
/// The share of their rate that consumers must keep during pushes.
const SHARE: f64 = 0.5;
/// The share of pushed messages that consumers without a backlog must receive. It is below 1, because the two numbers
/// are read at slightly different times.
const KEPT_UP: f64 = 0.95;

/// Measures Reveille.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let own = [HTTP, LIBRARY];
    let mut entries = Vec::new();
    for partitions in PARTITIONS {
        for contender in arena.own(&own) {
            let queue = Queue { senders: SENDERS, ..Queue::new(new_name(), partitions, BATCH) };
            let workload = Workload::Saturation(Saturation { queue, seconds: arena.choose(3, 8) });
            entries.push(Entry { title: title(partitions), contender, workload });
        }
    }
    let play = async |entry: &Entry| figures(arena.play(entry.contender, &entry.workload).await?);
    let comparison = Comparison::run(entries, arena.rounds(1, 3), play).await;
    comparison.report(report);
    for partitions in PARTITIONS {
        for contender in arena.own(&own) {
            let median = |figure| comparison.rounds(&title(partitions), contender, figure).median();
            // Without a backlog there is no rate of consumers alone. They must then receive what is pushed.
            let (of, share, goal) = match median("share") {
                share if share.is_finite() => ("the rate alone", share, SHARE),
                _ => ("what was pushed", median("consumed_per_s") / median("pushed_per_s"), KEPT_UP),
            };
            let name = format!("{}, {}: consumed, of {of}", title(partitions), contender.name());
            report.target(&name, Goal::AtLeast(goal), share);
        }
    }
    Ok(())
}

fn title(partitions: usize) -> String {
    let partitions = if partitions == 1 { "1 partition".to_owned() } else { format!("{partitions} partitions") };
    format!("{NAME}, {SENDERS} senders, batch {BATCH}, {partitions}")
}

fn figures(Played { outcome, .. }: Played) -> Result<Line> {
    let Outcome::Saturation(done) = outcome else { return Err("not the outcome of a saturation".into()) };
    if done.missing > 0 {
        return Err(format!("{} messages were not received", done.missing).into());
    }
    let share = if done.alone_per_second > 0.0 { done.received_per_second / done.alone_per_second } else { f64::NAN };
    Ok(vec![
        ("share", share),
        ("consumed_per_s", done.received_per_second),
        ("alone_per_s", done.alone_per_second),
        ("pushed_per_s", done.sent_per_second),
    ])
}
