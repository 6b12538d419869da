//! The cost of waiting without jobs.

use std::time::Duration;

use reveille_wake::Options;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{LEASE, start_jobs, until_idle};
use crate::report::{Figures, Goal, Report};
use crate::server::Server;
use crate::{Result, Run};

/// The name of this workload.
pub(super) const NAME: &str = "idle";
const WAITERS: usize = 8;
const QUEUES: [&str; 2] = ["idle a", "idle b"];
/// The interval at which each waiter returns and waits again.
const RETURN: Duration = Duration::from_secs(1);
/// Waiters without a poll for this long are idle.
const CALM: Duration = Duration::from_millis(1_500);

/// Measures eight waiters in two groups that return every second.
pub(crate) async fn run(server: &Server, run: &Run, report: &mut Report) -> Result<()> {
    let time = Duration::from_secs(if run.quick { 10 } else { 60 });
    let jobs = start_jobs(server, 10, &server.new_schema()?, Options::default()).await?;
    let mut waiters: JoinSet<reveille_wake::Result<()>> = JoinSet::new();
    for waiter in 0..WAITERS {
        let jobs = jobs.clone();
        waiters.spawn(async move {
            loop {
                jobs.claim(QUEUES[waiter % QUEUES.len()], LEASE, Instant::now() + RETURN).await?;
            }
        });
    }
    until_idle(&jobs, WAITERS, CALM).await?;
    let (mark, polls) = (server.mark().await?, jobs.claims.counts().polls);
    tokio::select! {
        () = sleep(time) => {}
        Some(ended) = waiters.join_next() => ended??,
    }
    let (statements, wal) = server.since(&mark).await?;
    let figures = Figures::default()
        .perhaps("statements", statements)
        .number("polls", (jobs.claims.counts().polls - polls) as f64)
        .number("wal_bytes", wal)
        .count("waiters", WAITERS)
        .count("groups", QUEUES.len())
        .number("returns", WAITERS as f64 * time.as_secs_f64() / RETURN.as_secs_f64())
        .number("seconds", time.as_secs_f64());
    report.result(NAME, "reveille", figures);
    report.target("idle statements", Goal::AtMost(0.0), statements.unwrap_or(f64::NAN));
    Ok(())
}
