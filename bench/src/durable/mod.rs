//! The durable provider under duroxide's runtime: its rates, its costs, and the share of the runtime in them.
//!
//! All contenders are measured alike: each round is a process of its own on a schema of its own, warmed up, started by
//! a command, and observed from outside. The workloads are those of the `workloads` crate; the peers, which need
//! another sqlx, are a program of their own with the same protocol. The provider in memory is the ceiling: the rest of
//! the time is the runtime's.

mod arena;
mod chain;
mod contender;
mod fan_out;
mod growth;
mod idle;
mod old_transaction;
mod peers;
mod play;
mod player;
mod stress;
mod timer;
mod waking;

use std::path::PathBuf;

use arena::Arena;
use clap::Args;

pub(crate) use peers::build as build_peers;
pub(crate) use play::{RoundArguments, play};

use crate::report::Report;
use crate::server::Server;
use crate::{Result, Run};

/// What `--quick` leaves out.
const QUICK: &str = "quick: fewer orchestrations and rounds; stress for 2 s each and without the peers; shorter chains \
                     for the peers; idle for 10 s instead of 60 s; no old transaction";

/// The options of a run.
#[derive(Args, Clone)]
pub(crate) struct DurableRun {
    #[command(flatten)]
    pub(crate) run: Run,
    /// The number of rounds of every workload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
}

/// Measures how costs grow with the size of what is stored.
pub(crate) async fn grow(server: &Server, run: &Run, rounds: Option<usize>, report: &mut Report) -> Result<()> {
    growth::run(&Arena { server, peers: None, quick: run.quick, rounds }, run, report).await
}

/// Runs every workload. `peers` is their program, if they take part.
pub(crate) async fn run(
    server: &Server,
    DurableRun { run, rounds }: &DurableRun,
    peers: Option<PathBuf>,
    report: &mut Report,
) -> Result<()> {
    if run.quick {
        eprintln!("{QUICK}");
    }
    let (system, figures) = server.setting().await?;
    report.result("setting", &system, figures.text("run", if run.quick { "quick" } else { "full" }));
    let arena = Arena { server, peers, quick: run.quick, rounds: rounds.map(usize::from) };
    if run.begins(fan_out::NAME) {
        fan_out::run(&arena, report).await?;
    }
    if run.begins(stress::NAME) {
        stress::run(&arena, report).await?;
    }
    if run.begins(chain::NAME) {
        chain::run(&arena, report).await?;
    }
    if run.begins(idle::NAME) {
        idle::run(&arena, report).await?;
    }
    if run.begins(waking::NAME) {
        waking::run(&arena, report).await?;
    }
    if run.begins(timer::NAME) {
        timer::run(&arena, report).await?;
    }
    if !run.quick && run.begins(old_transaction::NAME) {
        old_transaction::run(&arena, report).await?;
    }
    Ok(())
}
