//! The message queue: speed and cost, compared with RabbitMQ and PGMQ.
//!
//! All contenders are measured alike: each round is a process of its own with the same number of connections. It is
//! warmed up, started by a command, and observed from outside. The workloads are those of the `traffic` crate; the
//! peers, which need another sqlx, are a program of their own with the same protocol. Reveille is measured twice: as
//! `reveille serve`, over HTTP, and as a library, in the process that uses it.

mod arena;
mod contender;
mod dwell;
mod growth;
mod http;
mod idle;
mod latency;
mod library;
mod old_transaction;
mod parked;
mod play;
mod programs;
mod rabbit;
mod saturation;
mod throughput;

use arena::Arena;
use clap::Args;
use rabbit::Rabbit;

pub(crate) use play::{RoundArguments, play};
pub(crate) use programs::{Programs, build_peers, build_server, target};

use crate::report::Report;
use crate::server::Server;
use crate::{Result, Run};

/// What `--quick` leaves out.
const QUICK: &str = "quick: one round of 3 s; no 10 000 partitions, five groups at batch 10 only; 200 samples of latency; \
                     5 s of waiting; no old transaction";

/// The options of a run.
#[derive(Args, Clone)]
pub(crate) struct QueueRun {
    #[command(flatten)]
    pub(crate) run: Run,
    /// The number of rounds of every workload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Measure only the library of Reveille, not the server.
    #[arg(long)]
    pub(crate) library: bool,
}

/// Measures how costs grow with the size of what is stored.
pub(crate) async fn grow(server: &Server, run: &Run, rounds: Option<usize>, report: &mut Report) -> Result<()> {
    let programs = Programs { server: None, peers: None };
    growth::run(&Arena { server, programs, rabbit: None, quick: run.quick, rounds }, run, report).await
}

/// Runs every workload.
pub(crate) async fn run(server: &Server, of: &QueueRun, programs: Programs, report: &mut Report) -> Result<()> {
    let QueueRun { run, rounds, .. } = of;
    if run.quick {
        eprintln!("{QUICK}");
    }
    let (system, figures) = server.setting().await?;
    report.result("setting", &system, figures.text("run", if run.quick { "quick" } else { "full" }));
    let rabbit = if run.no_peers { None } else { Some(Rabbit::start().await?) };
    let arena = Arena { server, programs, rabbit, quick: run.quick, rounds: rounds.map(usize::from) };
    let arena = &arena;
    if run.begins(throughput::NAME) {
        throughput::run(arena, report).await?;
    }
    if run.begins(saturation::NAME) {
        saturation::run(arena, report).await?;
    }
    if run.begins(latency::NAME) {
        latency::run(arena, report).await?;
    }
    if run.begins(idle::NAME) {
        idle::run(arena, report).await?;
    }
    if run.begins(parked::NAME) {
        parked::run(arena, report).await?;
    }
    if run.begins(dwell::NAME) {
        dwell::run(arena, report).await?;
    }
    if !run.quick && run.begins(old_transaction::NAME) {
        old_transaction::run(arena, report).await?;
    }
    Ok(())
}
