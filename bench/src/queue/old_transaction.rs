//! Throughput while somebody else's transaction sits idle for five minutes.
//!
//! While it is open nothing deleted or updated since it began can be cleaned up, and every claim may have to wade through
//! the dead. One long round each, second by second.

use std::time::Duration;

use tokio::time::sleep;
use traffic::{Outcome, Queue, Throughput, Workload};

use super::arena::{Arena, Played, new_name};
use super::contender::{Contender, HTTP, LIBRARY, PGMQ};
use crate::Result;
use crate::report::{Figures, Goal, Report};
use crate::server::Server;
use crate::standings::Named as _;

/// The name of this workload.
pub(super) const NAME: &str = "old transaction";
const LANES: usize = 100;
const BATCH: usize = 10;
/// Seconds: it gets going; a rate is measured; the transaction is open; a rate is measured again.
const RUN_UP: usize = 10;
const WINDOW: usize = 30;
const OPEN: usize = 300;

/// Measures everybody who has a database, one after the other.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let mut contenders = arena.own(&[HTTP, LIBRARY]);
    contenders.extend(arena.rabbit.is_some().then_some(PGMQ));
    for contender in contenders {
        let loss = match play(arena, contender, report).await {
            Ok(loss) => loss,
            Err(error) => {
                eprintln!("  {}: {}", contender.name(), pg::causes(&*error));
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
    let seconds = (RUN_UP + WINDOW + OPEN + WINDOW) as u64;
    let workload = Workload::Throughput(Throughput { queue: Queue::new(new_name(), LANES, BATCH), seconds });
    let mut round = arena.prepare(contender, &workload).await?;
    let Played { outcome, .. } = round.play_while(open).await?;
    let dead = round.dead_rows().await?;
    round.end().await?;
    let Outcome::Throughput(done) = outcome else { return Err("not the outcome of a throughput".into()) };
    let rate = |from: usize| {
        let window = done.each_second.get(from..from + WINDOW).unwrap_or_default();
        window.iter().sum::<f64>() / window.len() as f64
    };
    let (before, last) = (rate(RUN_UP), rate(RUN_UP + OPEN));
    let loss = 100.0 * (1.0 - last / before);
    let figures = Figures::default()
        .number("loss_percent", loss)
        .number("before_per_s", before)
        .number("first_per_s", rate(RUN_UP + WINDOW))
        .number("last_per_s", last)
        .number("after_per_s", rate(RUN_UP + WINDOW + OPEN))
        .number("dead_rows_after", dead)
        .count("open_s", OPEN);
    report.result(NAME, contender.name(), figures);
    Ok(loss)
}

/// Opens a transaction when the rate without it is known, and ends it.
async fn open(server: &Server) -> Result<()> {
    sleep(Duration::from_secs((RUN_UP + WINDOW) as u64)).await;
    server.sit_idle(Duration::from_secs(OPEN as u64)).await
}
