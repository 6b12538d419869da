//! Ten thousand waiters in a hundred groups: their memory, the cost of adding them, and the time until all are served.

use std::time::Duration;

use reveille_wake::Options;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{LEASE, PATIENCE, start_jobs, until_idle};
use crate::Result;
use crate::report::{Figures, Report};
use crate::server::Server;

/// The name of this workload.
pub(super) const NAME: &str = "ten thousand waiters";
const WAITERS: usize = 10_000;
const GROUPS: usize = 100;
/// Waiters without a poll for this long are idle.
const CALM: Duration = Duration::from_millis(100);

/// Adds the waiters, then one job for each.
pub(crate) async fn run(server: &Server, report: &mut Report) -> Result<()> {
    let jobs = start_jobs(server, 10, &server.new_schema()?, Options::default()).await?;
    let queue = |number: usize| format!("crowd {}", number % GROUPS);
    let (held, mark) = (resident_kib(), server.mark().await?);
    let parking = Instant::now();
    let mut waiters: JoinSet<Result<()>> = JoinSet::new();
    for waiter in 0..WAITERS {
        let (jobs, queue) = (jobs.clone(), queue(waiter));
        waiters.spawn(async move {
            let job = jobs.claim(&queue, LEASE, Instant::now() + LEASE).await?;
            job.map(drop).ok_or_else(|| "a waiter got no job".into())
        });
    }
    until_idle(&jobs, WAITERS, CALM).await?;
    let parked = parking.elapsed().saturating_sub(CALM);
    let (parking_statements, _) = server.since(&mark).await?;
    let holding = resident_kib().zip(held).map(|(now, then)| now.saturating_sub(then) as f64);

    let (mark, polls) = (server.mark().await?, jobs.claims.counts().polls);
    let serving = Instant::now();
    let mut enqueuing: JoinSet<reveille_wake::Result<i64>> = JoinSet::new();
    for number in 0..WAITERS {
        let (jobs, queue) = (jobs.clone(), queue(number));
        enqueuing.spawn(async move { jobs.enqueue(&queue, "job", Duration::ZERO).await });
    }
    let all = async {
        for sent in enqueuing.join_all().await {
            sent?;
        }
        let enqueued = serving.elapsed();
        for served in waiters.join_all().await {
            served?;
        }
        Ok::<_, crate::Failure>(enqueued)
    };
    let enqueued = timeout(PATIENCE, all).await.map_err(|_| "not all waiters were served in time")??;
    let served = serving.elapsed();
    let (statements, _) = server.since(&mark).await?;
    let figures = Figures::default()
        .count("waiters", WAITERS)
        .count("groups", GROUPS)
        .perhaps("kib_per_waiter", holding.map(|kib| kib / WAITERS as f64))
        .number("park_ms", parked.as_secs_f64() * 1_000.0)
        .perhaps("park_statements", parking_statements)
        .number("enqueue_ms", enqueued.as_secs_f64() * 1_000.0)
        .number("served_ms", served.as_secs_f64() * 1_000.0)
        .number("polls", (jobs.claims.counts().polls - polls) as f64)
        .perhaps("serve_statements", statements);
    report.result(NAME, "reveille", figures);
    Ok(())
}

/// The memory of this process; `None` if the system does not report it.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().trim_end_matches(" kB").parse().ok()
}
