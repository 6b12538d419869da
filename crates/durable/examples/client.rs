//! A process that only asks: it has no runtime and executes nothing. `worker.rs` does what it wants done, in another
//! process or on another machine; it may also start later.
//!
//! With a worker running:
//!
//! ```text
//! $ cargo run -p reveille-durable --example client
//! 1 of 3
//! 2 of 3
//! 3 of 3
//! done: 3 pictures
//! ```
//!
//! It uses the server that `DATABASE_URL` names, or else the one that the worker started, and the schema in its first
//! argument.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duroxide::{Client, OrchestrationStatus};
use reveille_durable::PostgresProvider;
use reveille_pg::testing::TestDb;
use tracing_subscriber::EnvFilter;

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Where the log goes is the application's choice; without one duroxide writes it to standard output.
    tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).with_writer(std::io::stderr).init();
    let server = TestDb::new().await;
    let schema = std::env::args().nth(1).unwrap_or_else(|| "durable_example".to_owned());
    let provider = PostgresProvider::new_with_long_poll_and_schema(server.url(), Some(&schema)).await?;

    let instance = format!("album-{}", SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis());
    let client = Client::new(Arc::new(provider.clone()));
    client.start_orchestration(&instance, "Album", "cat.jpg dog.jpg owl.jpg").await?;

    // No question is asked while nothing changes: the worker's commit wakes this process.
    let mut seen = 0;
    loop {
        let status = provider.wait_for_status_change(&instance, seen, PATIENCE).await?;
        match status.ok_or("nothing happened for a minute: is a worker running?")? {
            OrchestrationStatus::Running { custom_status, custom_status_version } => {
                seen = custom_status_version;
                println!("{}", custom_status.unwrap_or_default());
            }
            OrchestrationStatus::Completed { output, custom_status, custom_status_version } => {
                if custom_status_version > seen {
                    println!("{}", custom_status.unwrap_or_default());
                }
                println!("done: {output}");
                return Ok(());
            }
            other => return Err(format!("it did not work out: {other:?}").into()),
        }
    }
}
