//! The wake engine: the latency of wake-ups, the cost of waiting, the cost of notifying.
//!
//! Most workloads run the example product of the wake crate, a job queue. It is compared with `NOTIFY` in every
//! transaction, with `LISTEN` and a hand-written claim, and with two other designs (every waiter polls; polling for a
//! minute after every wake-up).

mod crowd;
mod designs;
mod idle;
#[allow(unreachable_pub, dead_code)] // The example product, as it is.
#[path = "../../../crates/wake/examples/jobs/jobs.rs"]
mod jobs;
mod latency;
mod notifying;
mod second_process;
mod writer;

use std::time::Duration;

use jobs::Jobs;
use reveille_wake::{ConsumerHealth, Options};
use tokio::time::{Instant, sleep};

pub(crate) use second_process::{SenderArguments, run as sender};

use crate::report::{Figures, Report};
use crate::server::Server;
use crate::stats::Latencies;
use crate::{Result, Run};

/// The lease of a claimed job: longer than any run, so that no lease ends within one.
const LEASE: Duration = Duration::from_secs(3_600);
/// How long to wait for a job, or for waiters to become idle, before the run fails.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often to check whether waiters are idle.
const GLANCE: Duration = Duration::from_millis(2);

/// What `--quick` leaves out.
const QUICK: &str = "quick: a tenth of the samples, notifying with 1 and 32 writers only, fewer and shorter rounds, \
                     idle for 10 s instead of 60 s, the wake-up designs in one round and watched for 3 s afterwards instead of 30 s";

/// Runs every workload.
pub(crate) async fn run(server: &Server, run: &Run, report: &mut Report) -> Result<()> {
    if run.quick {
        eprintln!("{QUICK}");
    }
    let (system, figures) = server.setting().await?;
    report.result("setting", &system, figures.text("run", if run.quick { "quick" } else { "full" }));
    if run.begins(latency::ONE) {
        latency::within_one_process(server, run, report).await?;
    }
    if run.begins(latency::TWO) {
        latency::across_processes(server, run, report).await?;
    }
    if run.begins(idle::NAME) {
        idle::run(server, run, report).await?;
    }
    if run.begins(designs::NAME) {
        designs::run(server, run, report).await?;
    }
    if run.begins(notifying::NAME) {
        notifying::run(server, run, report).await?;
    }
    if run.begins(writer::NAME) {
        writer::run(server, run, report).await?;
    }
    if run.begins(crowd::NAME) {
        crowd::run(server, report).await?;
    }
    Ok(())
}

fn latencies(figures: Figures, claimed: &Latencies) -> Figures {
    figures
        .number("p50_ms", claimed.quantile(0.5))
        .number("p90_ms", claimed.quantile(0.9))
        .number("p99_ms", claimed.quantile(0.99))
        .count("samples", claimed.len())
}

/// Starts the job queue on a schema, and waits until its listener is connected.
async fn start_jobs(server: &Server, connections: u32, schema: &reveille_pg::Schema, options: Options) -> Result<Jobs> {
    let jobs = Jobs::start(&server.database(connections).await?, schema, options).await?;
    let give_up = Instant::now() + PATIENCE;
    while !jobs.wake.health().is_connected() {
        if Instant::now() > give_up {
            return Err("the listener was not connected in time".into());
        }
        sleep(GLANCE).await;
    }
    Ok(jobs)
}

/// Waits until there are `waiters` waiters and no poll has been made for `calm`.
async fn until_idle(jobs: &Jobs, waiters: usize, calm: Duration) -> Result<()> {
    let give_up = Instant::now() + PATIENCE + calm;
    let (mut polls, mut since) = (jobs.claims.counts().polls, Instant::now());
    loop {
        sleep(GLANCE).await;
        let ConsumerHealth { waiters: parked, .. } = jobs.claims.health();
        let now = jobs.claims.counts().polls;
        if now != polls || parked != waiters {
            (polls, since) = (now, Instant::now());
        }
        if since.elapsed() >= calm {
            return Ok(());
        }
        if Instant::now() > give_up {
            return Err(format!("the waiters did not become idle in time: {parked} of {waiters} wait").into());
        }
    }
}
