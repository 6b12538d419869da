//! One round of a workload on a published PostgreSQL provider of duroxide.
//!
//! The peers are used as their documentation recommends. Everything else is the same as for ours: workload, runtime
//! options, server. The parent process sends commands to standard input (see [`workloads::play`]) and provides a new
//! schema; this program removes nothing in it.

mod peer;

use std::error::Error;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use clap::Parser;
use peer::Peer;
use tokio::io::{BufReader, stdin, stdout};
use tracing_subscriber::EnvFilter;
use workloads::{Result, System, Workload, play};

/// The default of `RUST_LOG`. The peers warn of every transaction that they repeat.
const LOGGED: &str = "error";

/// The only place from which both peers read the size of their pool.
const POOL_VARIABLE: &str = "DUROXIDE_PG_POOL_MAX";

/// Runs one round of a workload on a published PostgreSQL provider of duroxide.
#[derive(Parser)]
#[command(name = "reveille-bench-peers", version)]
struct Arguments {
    /// The peer.
    #[arg(long, value_enum)]
    provider: Peer,
    /// The server to measure on.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    url: String,
    /// A new schema.
    #[arg(long)]
    schema: String,
    /// What to measure, as JSON, for example {"chain":{"steps":100,"dispatchers":{"orchestrations":2,"workers":2}}}
    #[arg(long, value_name = "JSON", value_parser = |text: &str| serde_json::from_str::<Workload>(text))]
    workload: Workload,
    /// Connections of the provider. Their default, 10, is less than the number of concurrent orchestrations.
    #[arg(long, default_value_t = 20)]
    connections: u32,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Before duroxide's runtime installs a subscriber: that would log to stdout, which is for the results.
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOGGED)))
        .with_writer(std::io::stderr)
        .init();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reveille-bench-peers: {}", causes(&*error));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let connections = arguments.connections.to_string();
    if std::env::var(POOL_VARIABLE).as_deref() != Ok(connections.as_str()) {
        // A process cannot safely change its own environment, but it can execute itself again with another.
        let again = Command::new(std::env::current_exe()?)
            .args(std::env::args_os().skip(1))
            .env(POOL_VARIABLE, connections)
            .exec();
        return Err(again.into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let provider = arguments.provider.connect(&arguments.url, &arguments.schema).await?;
        play(arguments.workload, System::new(provider), BufReader::new(stdin()), stdout()).await
    })
}

fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
