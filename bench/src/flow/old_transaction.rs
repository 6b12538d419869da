//! Throughput while somebody else's transaction sits idle for five minutes.
//!
//! While it is open nothing updated since it began can be cleaned up, and every claim may have to wade through the dead. One
//! long round each, second by second.

use std::time::Duration;

use tasks::Shape;
use tokio::time::sleep;

use super::arena::{Arena, Played};
use super::contender::{Contender, Http, Library};
use super::rate::busy;
use crate::Result;
use crate::report::{Figures, Goal, Report};
use crate::standings::Named as _;

/// The name of this workload.
pub(super) const TITLE: &str = "old transaction";
/// Seconds: it gets going; a rate is measured; the transaction is open; a rate is measured again.
const RUN_UP: usize = 10;
const WINDOW: usize = 30;
const OPEN: usize = 300;

/// Measures ours, one after the other.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    for contender in [Library, Http] {
        let loss = match play(arena, contender, report).await {
            Ok(loss) => loss,
            Err(error) => {
                eprintln!("  {}: {}", contender.name(), pg::causes(&*error));
                f64::NAN
            }
        };
        report.target(&format!("{TITLE}, {}: loss %", contender.name()), Goal::AtMost(20.0), loss);
    }
    Ok(())
}

async fn play(arena: &Arena<'_>, contender: Contender, report: &mut Report) -> Result<f64> {
    let piece = busy(Shape::Chain, RUN_UP + WINDOW + OPEN + WINDOW);
    let open = async |server: &crate::server::Server| {
        sleep(Duration::from_secs((RUN_UP + WINDOW) as u64)).await;
        server.sit_idle(Duration::from_secs(OPEN as u64)).await
    };
    let Played { outcome, .. } = arena.play_while(contender, &piece, open).await?;
    let rate = |from: usize| {
        let window = outcome.each_second.get(from..from + WINDOW).unwrap_or_default();
        window.iter().sum::<f64>() / window.len() as f64
    };
    let (before, last) = (rate(RUN_UP), rate(RUN_UP + OPEN));
    let loss = 100.0 * (1.0 - last / before);
    let figures = Figures::default()
        .number("loss_percent", loss)
        .number("before_steps_per_s", before)
        .number("first_steps_per_s", rate(RUN_UP + WINDOW))
        .number("last_steps_per_s", last)
        .number("after_steps_per_s", rate(RUN_UP + WINDOW + OPEN))
        .count("open_s", OPEN);
    report.result(TITLE, contender.name(), figures);
    Ok(loss)
}
