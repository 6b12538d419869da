//! Measures Reveille against its targets and its peers.
//!
//! `cargo run --release -p reveille-bench -- wake` finds or starts a PostgreSQL of its own, with the durability of a
//! fresh installation, and measures the wake engine; `durable` measures the provider for duroxide, `queue` the message
//! queue, `flow` task graphs; `growth` measures how costs grow with what is stored. Results go to stdout, one JSON object per line, targets last. Progress and a table go to
//! stderr.
//!
//! The machine is rarely idle, so a figure alone says little. Systems that are compared run alternately, for several
//! rounds within one run; the results are medians with their spread, and ratios.

mod attack;
mod comparison;
mod connection;
mod durable;
mod flow;
mod growth;
mod idle_transaction;
mod meter;
mod player;
mod plot;
mod processes;
mod queue;
mod report;
mod serve;
mod server;
mod stats;
mod wake;

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use report::Report;
use server::Server;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tracing_subscriber::EnvFilter;

/// An error that ends a run; its chain of causes is printed.
type Failure = Box<dyn Error + Send + Sync>;
type Result<T> = std::result::Result<T, Failure>;

/// What is logged unless `RUST_LOG` says otherwise. Not logged: connections that break because their server is removed,
/// and connections that have ended before they are terminated.
const LOGGED: &str = "warn,sqlx_core=error,sqlx::postgres::notice=error";

/// The time after which a run is ended, because something hangs.
struct Limits {
    quick: Duration,
    full: Duration,
}

/// A quick run takes two minutes, a full one about fifteen.
const WAKE_LIMITS: Limits = Limits { quick: Duration::from_secs(6 * 60), full: Duration::from_secs(45 * 60) };
/// A quick run takes four minutes, a full one about fifty; more rounds take longer.
const DURABLE_LIMITS: Limits = Limits { quick: Duration::from_secs(20 * 60), full: Duration::from_secs(4 * 3_600) };
/// A quick run takes ten minutes, a full one an hour and a half; more rounds take longer.
const QUEUE_LIMITS: Limits = Limits { quick: Duration::from_secs(40 * 60), full: Duration::from_secs(6 * 3_600) };

/// A quick run takes five minutes, a full one three quarters of an hour; more rounds take longer.
const FLOW_LIMITS: Limits = Limits { quick: Duration::from_secs(30 * 60), full: Duration::from_secs(4 * 3_600) };

/// A quick run takes a minute, a full one about ten; more rounds take longer.
const GROWTH_LIMITS: Limits = Limits { quick: Duration::from_secs(30 * 60), full: Duration::from_secs(4 * 3_600) };

/// All attacks take about three minutes, after the build of the server.
const ATTACK_LIMITS: Limits = Limits { quick: Duration::from_secs(40 * 60), full: Duration::from_secs(40 * 60) };

/// Measures Reveille against its targets and its peers.
#[derive(Parser)]
#[command(name = "reveille-bench", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The wake engine: the latency of wake-ups, the cost of waiting, the cost of notifying.
    Wake(Run),
    /// The durable provider under duroxide's runtime: speed and cost, compared with its peers.
    Durable(durable::DurableRun),
    /// The message queue over HTTP and as a library: speed and cost, compared with its peers.
    Queue(queue::QueueRun),
    /// Task graphs, in process and over HTTP: speed and cost, compared with their peers.
    Flow(flow::FlowRun),
    /// How the cost of a unit grows with backlog, partitions, waiters and history.
    Growth(growth::GrowthRun),
    /// Draws the results of runs as SVG: throughput, latency, growth.
    Plot(plot::PlotRun),
    /// Attacks on a running server: peak memory and the slowest health response of each. Fails if an attack succeeds.
    Attack(Run),
    /// The second process of workloads that need one.
    #[command(hide = true)]
    WakeSender(wake::SenderArguments),
    /// The process of one round.
    #[command(hide = true)]
    DurableRound(durable::RoundArguments),
    /// The process of one round.
    #[command(hide = true)]
    QueueRound(queue::RoundArguments),
    /// The process of one round.
    #[command(hide = true)]
    FlowRound(flow::RoundArguments),
}

/// The options of every workload.
#[derive(Args, Clone)]
struct Run {
    /// End within a few minutes: fewer samples, fewer rounds, fewer points.
    #[arg(long)]
    quick: bool,
    /// Only the workloads whose name contains this. Targets of the others are not reported.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Measure Reveille alone.
    #[arg(long)]
    no_peers: bool,
    /// Use this server instead of a private one. Its role should be a superuser, or statements cannot be counted.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// The major version of the private server; the newest that is installed if not given.
    #[arg(long, value_name = "MAJOR", conflicts_with = "database_url")]
    pg: Option<u32>,
}

impl Run {
    /// Whether a workload is selected.
    fn selects(&self, workload: &str) -> bool {
        self.only.as_ref().is_none_or(|part| workload.contains(part.as_str()))
    }

    /// Whether a workload is selected. If it is, prints its name.
    fn begins(&self, workload: &str) -> bool {
        let selected = self.selects(workload);
        if selected {
            eprintln!("· {workload}");
        }
        selected
    }
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOGGED)))
        .with_writer(std::io::stderr)
        .init();
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let done = match arguments.command {
        Command::Wake(run) => {
            measure(&runtime, "wake", &run, WAKE_LIMITS, async |server, report| wake::run(server, &run, report).await)
        }
        Command::Attack(run) => measure(&runtime, "attack", &run, ATTACK_LIMITS, async |server, report| {
            attack::run(server, &run, report).await
        }),
        Command::Growth(run) => measure(&runtime, "growth", &run.run, GROWTH_LIMITS, async |server, report| {
            growth::run(server, &run, report).await
        }),
        Command::Plot(run) => plot::run(&run),
        Command::Durable(run) => measure_durable(&runtime, &run),
        Command::Queue(run) => measure_queue(&runtime, &run),
        Command::Flow(run) => measure_flow(&runtime, &run),
        Command::DurableRound(arguments) => runtime.block_on(durable::play(arguments)),
        Command::QueueRound(arguments) => runtime.block_on(queue::play(arguments)),
        Command::FlowRound(arguments) => runtime.block_on(flow::play(arguments)),
        Command::WakeSender(arguments) => runtime.block_on(wake::sender(arguments)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&*error),
    }
}

/// Builds the peers, then runs the workloads: building does not count towards the time limit.
fn measure_durable(runtime: &tokio::runtime::Runtime, run: &durable::DurableRun) -> Result<()> {
    let peers = if run.run.no_peers { None } else { Some(durable::build_peers()?) };
    measure(runtime, "durable", &run.run, DURABLE_LIMITS, async |server, report| {
        durable::run(server, run, peers, report).await
    })
}

/// Builds the programs that are measured, then runs the workloads.
fn measure_queue(runtime: &tokio::runtime::Runtime, run: &queue::QueueRun) -> Result<()> {
    let programs = queue::Programs::build(!run.library, !run.run.no_peers)?;
    measure(runtime, "queue", &run.run, QUEUE_LIMITS, async |server, report| {
        queue::run(server, run, programs, report).await
    })
}

/// Builds the programs that are measured, then runs the workloads.
fn measure_flow(runtime: &tokio::runtime::Runtime, run: &flow::FlowRun) -> Result<()> {
    let programs = flow::Programs::build(&run.run)?;
    measure(runtime, "flow", &run.run, FLOW_LIMITS, async |server, report| {
        flow::run(server, run, programs, report).await
    })
}

/// Runs workloads on a server, and stops and removes the server however they end.
fn measure(
    runtime: &tokio::runtime::Runtime,
    bench: &'static str,
    run: &Run,
    limits: Limits,
    workloads: impl AsyncFnOnce(&Server, &mut Report) -> Result<()>,
) -> Result<()> {
    // From here on Ctrl-C ends the run in order, also while the server is being created.
    let mut ended = {
        let _context = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let server = runtime.block_on(Server::start(run.database_url.as_deref(), run.pg))?;
    let limit = if run.quick { limits.quick } else { limits.full };
    let measured = async {
        let mut report = Report::of(bench);
        tokio::select! {
            done = timeout(limit, workloads(&server, &mut report)) => {
                done.map_err(|_| "the run exceeded its time limit")??;
            }
            _ = ended.0.recv() => return Err("interrupted".into()),
            _ = ended.1.recv() => return Err("terminated".into()),
        }
        report.finish();
        Ok(())
    };
    let done = catch_unwind(AssertUnwindSafe(|| runtime.block_on(measured)));
    let stopped = runtime.block_on(server.stop());
    done.unwrap_or_else(|_| Err("a workload panicked".into())).and(stopped)
}

fn failed(error: &(dyn Error + 'static)) -> ExitCode {
    eprintln!("reveille-bench: {}", reveille_pg::causes(error));
    ExitCode::FAILURE
}
