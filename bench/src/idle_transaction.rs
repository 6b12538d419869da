//! The loss of throughput during a transaction that is idle for five minutes.
//!
//! While it is open, rows updated or deleted since it began cannot be vacuumed, and claims may have to skip dead
//! tuples.
//! The rate before it is taken when the tables have grown and checkpoints run: new tables on a server without a
//! checkpoint are faster, with or without the transaction, and that rate is reported, too.

use std::time::Duration;

use tokio::time::sleep;

use crate::Result;
use crate::report::Figures;
use crate::server::Server;

/// Seconds: the start; the tables grow, and the first checkpoint ends; a rate is measured; the transaction is open; a
/// rate is measured again.
const START: usize = 10;
const RUN_UP: usize = 90;
const WINDOW: usize = 30;
const OPEN: usize = 300;
/// The workload starts to count a few seconds after the transaction's clock starts: windows beside it begin and end
/// that much earlier.
const LATE: usize = 3;
/// All of it.
pub(crate) const SECONDS: usize = RUN_UP + WINDOW + OPEN + WINDOW;

/// Opens a transaction when the rate without it is known, and ends it.
pub(crate) async fn hold(server: &Server) -> Result<()> {
    sleep(Duration::from_secs((RUN_UP + WINDOW) as u64)).await;
    server.sit_idle(Duration::from_secs(OPEN as u64)).await
}

/// How much was lost in the last seconds of the transaction, in percent, and the rates behind it.
pub(crate) fn loss(each_second: &[f64]) -> (f64, Figures) {
    let rate = |from: usize| {
        let window = each_second.get(from..from + WINDOW).unwrap_or_default();
        window.iter().sum::<f64>() / window.len() as f64
    };
    let (before, last) = (rate(RUN_UP - LATE), rate(RUN_UP + OPEN - LATE));
    let loss = 100.0 * (1.0 - last / before);
    let figures = Figures::default()
        .number("loss_percent", loss)
        .number("new_per_s", rate(START))
        .number("before_per_s", before)
        .number("first_per_s", rate(RUN_UP + WINDOW))
        .number("last_per_s", last)
        .number("after_per_s", rate(RUN_UP + WINDOW + OPEN))
        .count("open_s", OPEN);
    (loss, figures)
}
