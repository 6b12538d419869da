//! Growth of the cost of a step with the history of its instance.

use workloads::{Chain, Dispatchers, Workload};

use super::arena::Arena;
use super::chain::figures;
use super::contender::{CEILING, Entry, REVEILLE};
use crate::comparison::{Comparison, compare};
use crate::growth::{FLAT, conclude, title};
use crate::report::{Goal, Report};
use crate::stats::Rounds;
use crate::{Result, Run};

const NAME: &str = "growth, durable history";
/// Events of a step in the history: scheduled and completed.
const EVENTS: usize = 2;

/// Measures all sizes, in events.
pub(super) async fn run(arena: &Arena<'_>, run: &Run, report: &mut Report) -> Result<()> {
    if !run.begins(NAME) {
        return Ok(());
    }
    let sizes = arena.choose(&[10, 100, 1_000][..], &[10, 100, 1_000, 10_000]);
    let mut entries = Vec::new();
    for &size in sizes {
        for contender in [REVEILLE, CEILING] {
            let chain = Chain { steps: size / EVENTS, dispatchers: Dispatchers::same(2) };
            entries.push(Entry { title: title(NAME, size), contender, workload: Workload::Chain(chain) });
        }
    }
    let play = async |entry: &Entry| {
        let Workload::Chain(Chain { steps, .. }) = entry.workload else { return Err("not a chain".into()) };
        figures(arena.play(entry.contender, &entry.workload).await?, steps)
    };
    let comparison = Comparison::run(entries, arena.rounds(1, 3), play).await;
    conclude(&comparison, NAME, REVEILLE, sizes, &["wal_bytes_each", "statements_each"], report);
    // The runtime replays the whole history in every turn, which is not the provider's time.
    let of = |contender, size| comparison.rounds(&title(NAME, size), contender, "ms_each");
    let own = |size| -> Rounds { of(REVEILLE, size).less(&of(CEILING, size)) };
    if let [smallest, .., largest] = sizes {
        let name = format!("ms beyond the ceiling's, {largest} over {smallest}");
        compare(report, NAME, &name, Goal::AtMost(FLAT), &own(*largest).over(&own(*smallest)));
    }
    Ok(())
}
