//! A process that only executes orchestrations. `client.rs` is the process that starts them; they share only the
//! database.
//!
//! Start as many as you like, on as many machines; end them with Ctrl-C, or by pulling the plug: what one leaves, the
//! others finish when its lease ends.
//!
//! ```text
//! $ cargo run -p reveille-durable --example worker
//! ready
//! resized cat.jpg
//! resized dog.jpg
//! resized owl.jpg
//! ```
//!
//! It uses the server that `DATABASE_URL` names, or else starts one that the client finds, and the schema in its first
//! argument.

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use reveille_durable::PostgresProvider;
use reveille_pg::testing::TestDb;
use tracing_subscriber::EnvFilter;

async fn album(ctx: OrchestrationContext, pictures: String) -> Result<String, String> {
    let pictures: Vec<&str> = pictures.split(' ').collect();
    for (done, picture) in pictures.iter().enumerate() {
        ctx.schedule_activity("Resize", *picture).await?;
        // Wakes waiters for a change of it in any process.
        ctx.set_custom_status(format!("{} of {}", done + 1, pictures.len()));
    }
    Ok(format!("{} pictures", pictures.len()))
}

async fn resize(_: ActivityContext, picture: String) -> Result<String, String> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    println!("resized {picture}");
    Ok(picture)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Where the log goes is the application's choice; without one duroxide writes it to standard output.
    tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).with_writer(std::io::stderr).init();
    let server = TestDb::new().await;
    let schema = std::env::args().nth(1).unwrap_or_else(|| "durable_example".to_owned());
    let provider = PostgresProvider::new_with_long_poll_and_schema(server.url(), Some(&schema)).await?;

    let activities = ActivityRegistry::builder().register("Resize", resize).build();
    let orchestrations = OrchestrationRegistry::builder().register("Album", album).build();
    let runtime = Runtime::start_with_store(Arc::new(provider), activities, orchestrations).await;
    println!("ready");
    tokio::signal::ctrl_c().await?;
    runtime.shutdown(None).await;
    println!("bye");
    Ok(())
}
