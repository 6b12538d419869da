//! The effect of grouping writes: the rate of an enqueue with 1 to 256 concurrent callers.

use std::time::Duration;

use reveille_wake::Options;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::start_jobs;
use crate::report::{Figures, Report};
use crate::server::Server;
use crate::stats::{Rounds, turns};
use crate::{Result, Run};

/// The name of this workload.
pub(super) const NAME: &str = "grouped enqueue";
const SUBMITTERS: [usize; 4] = [1, 16, 64, 256];
/// The statement of a batch, as pg_stat_statements shows it.
const STATEMENT: &str = ".enqueue(";

/// Measures 1 to 256 callers that enqueue jobs.
pub(crate) async fn run(server: &Server, run: &Run, report: &mut Report) -> Result<()> {
    let (rounds, time) = if run.quick { (2, 500) } else { (5, 2_000) };
    let jobs = start_jobs(server, 10, &server.new_schema()?, Options::default()).await?;
    let slots: Vec<usize> = (0..SUBMITTERS.len()).collect();
    let mut measured: Vec<(Rounds, Rounds, Rounds)> = slots.iter().map(|_| Default::default()).collect();
    for round in 0..rounds {
        for index in turns(&slots, round) {
            let (mark, writer) = (server.mark().await?, server.statements(STATEMENT).await?);
            let began = Instant::now();
            let until = began + Duration::from_millis(time);
            let mut submitters: JoinSet<reveille_wake::Result<usize>> = JoinSet::new();
            for _ in 0..SUBMITTERS[index] {
                let jobs = jobs.clone();
                submitters.spawn(async move {
                    let mut count = 0;
                    while Instant::now() < until {
                        jobs.enqueue("batches", "job", Duration::ZERO).await?;
                        count += 1;
                    }
                    Ok(count)
                });
            }
            let mut enqueued = 0;
            while let Some(ended) = submitters.join_next().await {
                enqueued += ended??;
            }
            let enqueued = enqueued as f64;
            let (rate, writes, wal) = &mut measured[index];
            rate.push(enqueued / began.elapsed().as_secs_f64());
            wal.push(server.since(&mark).await?.1 / enqueued);
            let flown = server.statements(STATEMENT).await?.zip(writer).map(|(now, then)| (now - then) as f64);
            writes.push(flown.map_or(f64::NAN, |writer| enqueued / writer));
        }
    }
    for (submitters, (rate, writes, wal)) in SUBMITTERS.into_iter().zip(measured) {
        let figures = Figures::default()
            .count("submitters", submitters)
            .number("jobs_per_s", rate.median())
            .number("spread", rate.spread())
            .number("writes_per_batch", writes.median())
            .number("wal_bytes_per_job", wal.median());
        report.result(NAME, "reveille", figures);
    }
    Ok(())
}
