//! Task graphs: speed and cost, compared with graphile_worker and awa (single jobs) and DBOS (workflows).
//!
//! All contenders are measured alike: each round is a process of its own on a schema of its own. It is warmed up,
//! started by a command, and observed from outside. The workloads are those of the `tasks` crate. Reveille is measured
//! twice: as a library, in the process that submits tasks and runs steps, and as `reveille serve`, over HTTP. The peers
//! are programs with the same protocol: those of graphile_worker and awa are in workspaces of their own, that of DBOS is
//! in Python.

mod arena;
mod claim;
mod contender;
mod fan_out;
mod graphs;
mod growth;
mod http;
mod library;
mod mode;
mod old_transaction;
mod park;
mod piece;
mod play;
mod programs;
mod rate;
mod recovery;
mod single_jobs;
mod template;

use arena::Arena;
use clap::Args;

pub(crate) use play::{RoundArguments, play};
pub(crate) use programs::Programs;

use crate::report::Report;
use crate::server::Server;
use crate::{Result, Run};

/// What `--quick` leaves out.
const QUICK: &str = "quick: one round; 100 samples of latency; 4 s of throughput; 5 s of waiting; no old transaction";

/// The workloads that need `reveille serve`.
const OVER_HTTP: [&str; 5] = [rate::TITLE, graphs::TITLE, fan_out::TITLE, park::TITLE, old_transaction::TITLE];

/// The options of a run.
#[derive(Args, Clone)]
pub(crate) struct FlowRun {
    #[command(flatten)]
    pub(crate) run: Run,
    /// The number of rounds of every workload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Print the statements that each round has sent, per counted task, if the server counts statements.
    #[arg(long)]
    statements: bool,
}

/// Measures how costs grow with the size of what is stored.
pub(crate) async fn grow(server: &Server, run: &Run, rounds: Option<usize>, report: &mut Report) -> Result<()> {
    let programs = Programs { server: None, peers: None };
    growth::run(&Arena { server, programs, quick: run.quick, rounds, statements: false }, run, report).await
}

/// Runs every workload.
pub(crate) async fn run(
    server: &Server,
    FlowRun { run, rounds, statements }: &FlowRun,
    programs: Programs,
    report: &mut Report,
) -> Result<()> {
    if run.quick {
        eprintln!("{QUICK}");
    }
    let (system, figures) = server.setting().await?;
    report.result("setting", &system, figures.text("run", if run.quick { "quick" } else { "full" }));
    let arena = &Arena { server, programs, quick: run.quick, rounds: rounds.map(usize::from), statements: *statements };
    if run.begins(rate::TITLE) {
        rate::run(arena, report).await?;
    }
    if run.begins(single_jobs::TITLE) {
        single_jobs::run(arena, report).await?;
    }
    if run.begins(graphs::TITLE) {
        graphs::run(arena, report).await?;
    }
    if run.begins(claim::TITLE) {
        claim::run(arena, report).await?;
    }
    if run.begins(fan_out::TITLE) {
        fan_out::run(arena, report).await?;
    }
    if run.begins(recovery::TITLE) {
        recovery::run(arena, report).await?;
    }
    if run.begins(park::TITLE) {
        park::run(arena, report).await?;
    }
    if run.begins(mode::TITLE) {
        mode::run(arena, report).await?;
    }
    if !run.quick && run.begins(old_transaction::TITLE) {
        old_transaction::run(arena, report).await?;
    }
    Ok(())
}
