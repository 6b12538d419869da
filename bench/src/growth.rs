//! Growth: what a unit costs as the size of what is stored or waits increases.
//!
//! Each product has its own workloads, in its module `growth`, on Reveille alone and without a server of its own. A
//! workload runs once per size and round, each in a schema of its own, in rotating order. The cost at the largest size
//! is compared with that at the smallest, within each round.

use clap::Args;

use crate::comparison::{Comparison, Named, compare};
use crate::report::{Goal, Report};
use crate::server::Server;
use crate::{Result, Run, durable, flow, queue};

/// The largest cost at the largest size, as a multiple of that at the smallest.
pub(crate) const FLAT: f64 = 1.2;

/// What `--quick` leaves out.
const QUICK: &str = "quick: one round; the largest sizes are a hundredth to a tenth of those of a full run";

/// The options of a run.
#[derive(Args, Clone)]
pub(crate) struct GrowthRun {
    #[command(flatten)]
    pub(crate) run: Run,
    /// The number of rounds of every workload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
}

/// Runs every workload.
pub(crate) async fn run(server: &Server, GrowthRun { run, rounds }: &GrowthRun, report: &mut Report) -> Result<()> {
    if run.quick {
        eprintln!("{QUICK}");
    }
    let (system, figures) = server.setting().await?;
    report.result("setting", &system, figures.text("run", if run.quick { "quick" } else { "full" }));
    let rounds = rounds.map(usize::from);
    queue::grow(server, run, rounds, report).await?;
    durable::grow(server, run, rounds, report).await?;
    flow::grow(server, run, rounds, report).await
}

/// The title of a workload at a size.
pub(crate) fn title(name: &str, size: usize) -> String {
    format!("{name}, {size}")
}

/// The name of a workload and the size, from a title.
pub(crate) fn name_and_size(title: &str) -> Option<(&str, usize)> {
    let (name, size) = title.rsplit_once(", ")?;
    Some((name, size.parse().ok()?))
}

/// Reports every size, and for each of these figures the cost at the largest size over that at the smallest.
pub(crate) fn conclude<C: Named, W>(
    comparison: &Comparison<C, W>,
    name: &str,
    contender: C,
    sizes: &[usize],
    figures: &[&str],
    report: &mut Report,
) {
    comparison.report(report);
    let [smallest, .., largest] = sizes else { return };
    for figure in figures {
        let at = |size| comparison.rounds(&title(name, size), contender, figure);
        compare(
            report,
            name,
            &format!("{figure}, {largest} over {smallest}"),
            Goal::AtMost(FLAT),
            &at(*largest).over(&at(*smallest)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plots find the sizes in the titles.
    #[test]
    fn a_title_has_its_name_and_size() {
        assert_eq!(name_and_size(&title("growth, queue backlog", 1_000)), Some(("growth, queue backlog", 1_000)));
        assert_eq!(name_and_size("growth, queue backlog, compared within rounds"), None);
    }
}
