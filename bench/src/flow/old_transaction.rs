//! Throughput during a transaction that is idle for five minutes: one long round per contender, second by second.

use tasks::Shape;

use super::arena::{Arena, Played};
use super::contender::{Contender, Http, Library};
use super::rate::busy;
use crate::Result;
use crate::comparison::Named as _;
use crate::idle_transaction;
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const TITLE: &str = "old transaction";

/// Measures both contenders of Reveille, one after the other.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    for contender in [Library, Http] {
        let loss = match play(arena, contender, report).await {
            Ok(loss) => loss,
            Err(error) => {
                eprintln!("  {}: {}", contender.name(), reveille_pg::causes(&*error));
                f64::NAN
            }
        };
        report.target(&format!("{TITLE}, {}: loss %", contender.name()), Goal::AtMost(20.0), loss);
    }
    Ok(())
}

async fn play(arena: &Arena<'_>, contender: Contender, report: &mut Report) -> Result<f64> {
    let piece = busy(Shape::Chain, idle_transaction::SECONDS);
    let Played { outcome, .. } = arena.play_while(contender, &piece, idle_transaction::hold).await?;
    let (loss, figures) = idle_transaction::loss(&outcome.each_second);
    report.result(TITLE, contender.name(), figures);
    Ok(loss)
}
