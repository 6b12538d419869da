//! The loss of throughput during a transaction that is idle for five minutes.
//!
//! While it is open, rows updated or deleted since it began cannot be vacuumed, and claims may have to skip dead
//! tuples. The rate before it is measured after the tables have grown and the first checkpoint has ended: new tables on
//! a server without a checkpoint are faster, with or without the transaction. Their rate is reported, too.

use std::time::Duration;

use tokio::time::sleep;

use crate::Result;
use crate::report::Figures;
use crate::server::Server;

/// The second from which the rate on new tables is measured.
const START: usize = 10;
/// Seconds until the tables have grown and the first checkpoint has ended.
const RUN_UP: usize = 90;
/// Seconds over which a rate is measured.
const WINDOW: usize = 30;
/// Seconds for which the transaction is open.
const OPEN: usize = 300;
/// The workload starts to count at most this many seconds after [`hold`] starts. The windows before the transaction and
/// at its end are earlier by that, so that they do not reach beyond its beginning and its end.
const LATE: usize = 3;
/// The length of the workload in seconds.
pub(crate) const SECONDS: usize = RUN_UP + WINDOW + OPEN + WINDOW;

/// Opens the transaction after the rate without it has been measured, and ends it.
pub(crate) async fn hold(server: &Server) -> Result<()> {
    sleep(Duration::from_secs((RUN_UP + WINDOW) as u64)).await;
    server.sit_idle(Duration::from_secs(OPEN as u64)).await
}

/// The loss in the last seconds of the transaction, in percent, and the rates from which it is calculated.
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
