//! Saturation: whether pushes keep consumers from consuming, from one partition and from many.

use traffic::{Outcome, Queue, Saturation, Workload};

use super::arena::{Arena, Played, new_name};
use super::contender::{Entry, HTTP, LIBRARY};
use crate::Result;
use crate::report::{Goal, Report};
use crate::standings::{Line, Named as _, Standings};

/// The name of this workload.
pub(super) const NAME: &str = "saturation";
const SENDERS: usize = 16;
const BATCH: usize = 100;
const LANES: [usize; 2] = [1, 100];
/// What consumers have to keep of their rate, whatever is pushed.
const SHARE: f64 = 0.5;

/// Measures ours.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let own = [HTTP, LIBRARY];
    let mut entries = Vec::new();
    for lanes in LANES {
        for contender in arena.own(&own) {
            let queue = Queue { senders: SENDERS, ..Queue::new(new_name(), lanes, BATCH) };
            let workload = Workload::Saturation(Saturation { queue, seconds: arena.choose(3, 8) });
            entries.push(Entry { title: title(lanes), contender, workload });
        }
    }
    let play = async |entry: &Entry| figures(arena.play(entry.contender, &entry.workload).await?);
    let standings = Standings::contest(entries, arena.rounds(1, 3), play).await;
    standings.report(report);
    for lanes in LANES {
        for contender in arena.own(&own) {
            let share = standings.rounds(&title(lanes), contender, "share").median();
            let name = format!("{}, {}: consumed, of the rate alone", title(lanes), contender.name());
            report.target(&name, Goal::AtLeast(SHARE), share);
        }
    }
    Ok(())
}

fn title(lanes: usize) -> String {
    let lanes = if lanes == 1 { "1 partition".to_owned() } else { format!("{lanes} partitions") };
    format!("{NAME}, {SENDERS} senders, batch {BATCH}, {lanes}")
}

fn figures(Played { outcome, .. }: Played) -> Result<Line> {
    let Outcome::Saturation(done) = outcome else { return Err("not the outcome of a saturation".into()) };
    if done.missing > 0 {
        return Err(format!("{} messages went missing", done.missing).into());
    }
    Ok(vec![
        ("share", done.received_per_second / done.alone_per_second),
        ("consumed_per_s", done.received_per_second),
        ("alone_per_s", done.alone_per_second),
        ("pushed_per_s", done.sent_per_second),
    ])
}
