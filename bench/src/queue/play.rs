//! One round of Reveille, in a process that another process commands: see [`traffic::play`].

use clap::Args;
use tokio::io::{BufReader, stdin, stdout};
use traffic::Workload;

use super::contender::Own;
use super::http::Http;
use super::library::Library;
use crate::Result;

/// Arguments of the process.
#[derive(Args)]
pub(crate) struct RoundArguments {
    #[arg(long, value_enum)]
    system: Own,
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    #[arg(long)]
    schema: String,
    #[arg(long, value_name = "JSON", value_parser = |text: &str| serde_json::from_str::<Workload>(text))]
    workload: Workload,
    /// Connections of the library to the database.
    #[arg(long)]
    connections: u32,
    /// The addresses of `reveille serve`: messages are pushed to the first and popped from the last.
    #[arg(long = "server", value_name = "ADDRESS")]
    servers: Vec<std::net::SocketAddr>,
}

/// Runs the process.
pub(crate) async fn play(arguments: RoundArguments) -> Result<()> {
    let (orders, says) = (BufReader::new(stdin()), stdout());
    match arguments.system {
        Own::Library => {
            let library = Library::connect(&arguments.database_url, &arguments.schema, arguments.connections).await?;
            traffic::play(arguments.workload, library, orders, says).await
        }
        Own::Http | Own::HttpTwo => {
            let http = Http::new(&arguments.servers).ok_or("`--server` is required")?;
            traffic::play(arguments.workload, http, orders, says).await
        }
    }
}
