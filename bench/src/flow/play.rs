//! One round of Reveille, in a process that another process commands: see [`tasks::command`].

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use tasks::{Progress, Workload, command};
use tokio::io::{BufReader, stdin, stdout};

use super::claim::Claims;
use super::growth::Backlog;
use super::http::Http;
use super::library::{Library, open};
use super::mode::Modes;
use super::park::Parked;
use super::piece::Piece;
use super::recovery::{Holds, Rescues};
use crate::Result;

/// Arguments of the process.
#[derive(Args)]
pub(crate) struct RoundArguments {
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    #[arg(long)]
    schema: String,
    #[arg(long, value_name = "JSON", value_parser = |text: &str| serde_json::from_str::<Piece>(text))]
    piece: Piece,
    /// Connections to the database, if the engine is in this process.
    #[arg(long)]
    connections: u32,
    /// The address of `reveille serve`; without it the engine is in this process.
    #[arg(long = "server", value_name = "ADDRESS")]
    server: Option<SocketAddr>,
}

/// Runs the process.
pub(crate) async fn play(arguments: RoundArguments) -> Result<()> {
    let RoundArguments { database_url, schema, piece, connections, server } = arguments;
    let (orders, says) = (BufReader::new(stdin()), stdout());
    if let Some(server) = server {
        return match piece {
            Piece::Shared(workload) => over_http(server, workload).await,
            Piece::Park { namespaces, seconds } => {
                command(Parked::over_http(server, namespaces, seconds).await?, orders, says).await
            }
            _ => Err("this workload is not supported over HTTP".into()),
        };
    }
    let flow = open(&database_url, &schema, connections).await?;
    match piece {
        Piece::Shared(workload) => {
            let progress = Arc::new(Progress::default());
            let engine = Library::start(flow, &workload, &progress).await?;
            tasks::play(workload, engine, progress, orders, says).await
        }
        Piece::Claim { samples } => command(Claims::start(flow, samples).await?, orders, says).await,
        Piece::Hold { tasks, lease_ms } => command(Holds::start(flow, tasks, lease_ms).await?, orders, says).await,
        Piece::Rescue { tasks } => command(Rescues::start(flow, tasks).await?, orders, says).await,
        Piece::Backlog { backlog, tasks } => command(Backlog::start(flow, backlog, tasks).await?, orders, says).await,
        Piece::Park { namespaces, seconds } => {
            command(Parked::in_process(flow, namespaces, seconds).await?, orders, says).await
        }
        Piece::Mode { namespaces, polling, seconds } => {
            command(Modes::start(flow, namespaces, polling, seconds).await?, orders, says).await
        }
    }
}

async fn over_http(server: SocketAddr, workload: Workload) -> Result<()> {
    let progress = Arc::new(Progress::default());
    let engine = Http::start(server, &workload, &progress).await?;
    tasks::play(workload, engine, progress, BufReader::new(stdin()), stdout()).await
}
