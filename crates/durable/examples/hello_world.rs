//! The smallest orchestration: it calls one activity and returns its result.
//!
//! ```text
//! $ cargo run -p reveille-durable --example hello_world
//! Hello, Ada!
//! ```
//!
//! Like all examples here it runs in a schema of its own, which it drops at its end: on the server in `DATABASE_URL`, or
//! else on a PostgreSQL that it starts.

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use reveille_durable::PostgresProvider;

/// An orchestration is replayed from its history, so whatever has effects is an activity.
async fn hello(ctx: OrchestrationContext, name: String) -> Result<String, String> {
    ctx.schedule_activity("Greet", name).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Without a subscriber, duroxide writes its log to standard output.
    tracing_subscriber::fmt().with_max_level(tracing::Level::ERROR).with_writer(std::io::stderr).init();
    let db = reveille_pg::testing::TestDb::new().await;
    let (url, schema) = (db.url(), Some(db.schema().name()));

    let provider = PostgresProvider::new_with_long_poll_and_schema(url, schema).await?;
    let greet = |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) };
    let activities = ActivityRegistry::builder().register("Greet", greet).build();
    let orchestrations = OrchestrationRegistry::builder().register("Hello", hello).build();
    let runtime = Runtime::start_with_store(Arc::new(provider.clone()), activities, orchestrations).await;
    let client = Client::new(Arc::new(provider.clone()));
    client.start_orchestration("hello-1", "Hello", "Ada").await?;
    let ended = provider.wait_for_completion("hello-1", Duration::from_secs(30)).await?;
    let Some(OrchestrationStatus::Completed { output, .. }) = ended else { return Err(format!("{ended:?}").into()) };
    println!("{output}");
    runtime.shutdown(None).await;
    Ok(())
}
