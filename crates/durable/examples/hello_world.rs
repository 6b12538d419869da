//! The smallest orchestration: it calls one activity and returns what that answered.
//!
//! ```text
//! $ cargo run -p reveille-durable --example hello_world
//! Hello, Ada!
//! ```
//!
//! Like all examples here it runs in a schema of its own, which it drops at its end: on the server that `DATABASE_URL`
//! names, or, without it, on a PostgreSQL that it starts.

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use reveille_durable::PostgresProvider;
use reveille_pg::testing::TestDb;
use tracing_subscriber::EnvFilter;

/// Orchestrations are code that is run again from its history after every step, so what has effects is an activity.
async fn hello(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    ctx.schedule_activity("Greet", name).await
}

async fn greet(_: ActivityContext, name: String) -> Result<String, String> {
    Ok(format!("Hello, {name}!"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Where the log goes is the application's choice; without one duroxide writes it to standard output.
    tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).with_writer(std::io::stderr).init();
    let db = TestDb::new().await;
    let (url, schema) = (db.url(), Some(db.schema().name()));

    let provider = PostgresProvider::new_with_long_poll_and_schema(url, schema).await?;
    let activities = ActivityRegistry::builder().register("Greet", greet).build();
    let orchestrations = OrchestrationRegistry::builder().register("Hello", hello).build();
    let runtime = Runtime::start_with_store(Arc::new(provider.clone()), activities, orchestrations).await;
    let client = Client::new(Arc::new(provider.clone()));
    client.start_orchestration("hello-1", "Hello", "Ada").await?;
    let ended = provider.wait_for_completion("hello-1", Duration::from_secs(30)).await?;
    match ended {
        Some(OrchestrationStatus::Completed { output, .. }) => println!("{output}"),
        other => return Err(format!("it has not completed: {other:?}").into()),
    }
    runtime.shutdown(None).await;
    Ok(())
}
