//! Throughput during a transaction that is idle for five minutes: one long round per contender, second by second.

use traffic::{Outcome, Queue, Throughput, Workload};

use super::arena::{Arena, Played, new_name};
use super::contender::{Contender, HTTP, LIBRARY, PGMQ};
use crate::Result;
use crate::comparison::Named as _;
use crate::idle_transaction;
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const NAME: &str = "old transaction";
const PARTITIONS: usize = 100;
const BATCH: usize = 10;

/// Measures all contenders with a database, one after the other.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let mut contenders = arena.own(&[HTTP, LIBRARY]);
    contenders.extend(arena.rabbit.is_some().then_some(PGMQ));
    for contender in contenders {
        let loss = match play(arena, contender, report).await {
            Ok(loss) => loss,
            Err(error) => {
                eprintln!("  {}: {}", contender.name(), reveille_pg::causes(&*error));
                f64::NAN
            }
        };
        if contender != PGMQ {
            report.target(&format!("{NAME}, {}: loss %", contender.name()), Goal::AtMost(10.0), loss);
        }
    }
    Ok(())
}

async fn play(arena: &Arena<'_>, contender: Contender, report: &mut Report) -> Result<f64> {
    let seconds = idle_transaction::SECONDS as u64;
    let workload = Workload::Throughput(Throughput { queue: Queue::new(new_name(), PARTITIONS, BATCH), seconds });
    let mut round = arena.prepare(contender, &workload).await?;
    let Played { outcome, .. } = round.play_while(idle_transaction::hold).await?;
    let dead = round.dead_rows().await?;
    round.end().await?;
    let Outcome::Throughput(done) = outcome else { return Err("not the outcome of a throughput".into()) };
    let (loss, figures) = idle_transaction::loss(&done.each_second);
    report.result(NAME, contender.name(), figures.number("dead_rows_after", dead));
    Ok(loss)
}
