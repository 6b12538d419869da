//! A saga: steps that each have an effect in the world, and what undoes them when a later one fails.
//!
//! There is no transaction over an airline, a hotel and a car rental. The orchestration remembers what it has done, and
//! when there is no car it undoes the rest in reverse order. A process that dies in the middle goes on where it was:
//! what has been done is in the history.
//!
//! ```text
//! $ cargo run -p reveille-durable --example saga
//! book the flight
//! book the hotel
//! book the car
//! cancel the hotel
//! cancel the flight
//! no trip: the car is taken
//! ```

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, BackoffStrategy, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    RetryPolicy,
};
use reveille_durable::PostgresProvider;
use reveille_pg::testing::TestDb;
use tracing_subscriber::EnvFilter;

async fn trip(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    let mut booked = Vec::new();
    for what in ["flight", "hotel", "car"] {
        match ctx.schedule_activity("Book", what).await {
            Ok(_) => booked.push(what),
            Err(why) => {
                while let Some(what) = booked.pop() {
                    // Undoing must not fail for something that passes.
                    let policy = RetryPolicy::new(10).with_backoff(BackoffStrategy::default());
                    ctx.schedule_activity_with_retry("Cancel", what, policy).await?;
                }
                return Err(format!("no trip: {why}"));
            }
        }
    }
    Ok("booked".to_owned())
}

/// An activity is executed at least once, so a real one names its booking by `ctx.instance_id()`: twice is then once.
async fn book(_: ActivityContext, what: String) -> Result<String, String> {
    println!("book the {what}");
    if what == "car" { Err("the car is taken".to_owned()) } else { Ok(what) }
}

async fn cancel(_: ActivityContext, what: String) -> Result<String, String> {
    println!("cancel the {what}");
    Ok(what)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Where the log goes is the application's choice; without one duroxide writes it to standard output.
    tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).with_writer(std::io::stderr).init();
    let db = TestDb::new().await;
    let provider = PostgresProvider::new_with_long_poll_and_schema(db.url(), Some(db.schema().name())).await?;
    let activities = ActivityRegistry::builder().register("Book", book).register("Cancel", cancel).build();
    let orchestrations = OrchestrationRegistry::builder().register("Trip", trip).build();
    let runtime = Runtime::start_with_store(Arc::new(provider.clone()), activities, orchestrations).await;

    Client::new(Arc::new(provider.clone())).start_orchestration("trip-1", "Trip", "").await?;
    match provider.wait_for_completion("trip-1", Duration::from_secs(30)).await? {
        Some(OrchestrationStatus::Failed { details, .. }) => println!("{}", details.display_message()),
        other => return Err(format!("there is no car, and still: {other:?}").into()),
    }
    runtime.shutdown(None).await;
    Ok(())
}
