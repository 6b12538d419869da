//! One round of a workload on RabbitMQ or PGMQ.
//!
//! The peers are used as their documentation recommends and share everything else with ours: the messages, the number
//! of connections, the backlog, and when messages are counted. The parent process commands this program by its standard
//! input (see [`traffic::play`]).

mod pgmq_broker;
mod rabbit;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use pgmq_broker::Pgmq;
use rabbit::{Kind, Rabbit};
use tokio::io::{BufReader, stdin, stdout};
use traffic::{Result, Workload, play};

/// A system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum System {
    /// RabbitMQ, quorum queues.
    RabbitQuorum,
    /// RabbitMQ, classic durable queues.
    RabbitClassic,
    /// PGMQ, by SQL.
    Pgmq,
}

/// Runs one round of a workload on RabbitMQ or PGMQ.
#[derive(Parser)]
#[command(name = "reveille-bench-queue-peers", version)]
struct Arguments {
    /// Which one.
    #[arg(long, value_enum)]
    system: System,
    /// The server: amqp:// for RabbitMQ, postgres:// for PGMQ.
    #[arg(long, env = "BROKER_URL", hide_env_values = true)]
    url: String,
    /// What the names of all queues begin with.
    #[arg(long)]
    prefix: String,
    /// What to measure, as JSON.
    #[arg(long, value_name = "JSON", value_parser = |text: &str| serde_json::from_str::<Workload>(text))]
    workload: Workload,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reveille-bench-queue-peers: {}", causes(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<()> {
    let (orders, says) = (BufReader::new(stdin()), stdout());
    let Arguments { system, url, prefix, workload } = arguments;
    match system {
        System::RabbitQuorum => play(workload, Rabbit::new(url, prefix, Kind::Quorum), orders, says).await,
        System::RabbitClassic => play(workload, Rabbit::new(url, prefix, Kind::Classic), orders, says).await,
        System::Pgmq => play(workload, Pgmq::install(url, prefix).await?, orders, says).await,
    }
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
