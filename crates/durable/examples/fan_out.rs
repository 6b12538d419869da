//! Fan-out and fan-in: five activities at the same time, and a decision over what they answered.
//!
//! Each of the suppliers takes 200 ms to answer. Asked one after another they would take a second. (In debug mode, and
//! with everything to be connected and prepared; the next in the same process took 229 ms.)
//!
//! ```text
//! $ cargo run -p reveille-durable --example fan_out
//! 5 offers, the best: Cy for 17; after 355 ms
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use reveille_durable::PostgresProvider;
use reveille_pg::testing::TestDb;
use tracing_subscriber::EnvFilter;

const SUPPLIERS: [(&str, u32); 5] = [("Ada", 40), ("Bo", 23), ("Cy", 17), ("Di", 31), ("Ed", 19)];

async fn buy(ctx: OrchestrationContext, _: String) -> Result<String, String> {
    // Scheduled together, they are written by one statement and claimed by one.
    let questions = SUPPLIERS.map(|(name, _)| ctx.schedule_activity("Ask", name));
    let mut offers = Vec::new();
    for answer in ctx.join(questions.into()).await {
        offers.push(serde_json::from_str::<(u32, String)>(&answer?).map_err(|error| error.to_string())?);
    }
    let (price, name) = offers.iter().min().ok_or("no offers")?;
    Ok(format!("{} offers, the best: {name} for {price}", offers.len()))
}

async fn ask(_: ActivityContext, name: String) -> Result<String, String> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (_, price) = SUPPLIERS.iter().find(|(known, _)| *known == name).ok_or("who is that?")?;
    Ok(serde_json::json!([price, name]).to_string())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Where the log goes is the application's choice; without one duroxide writes it to standard output.
    tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).with_writer(std::io::stderr).init();
    let db = TestDb::new().await;
    let provider = PostgresProvider::new_with_long_poll_and_schema(db.url(), Some(db.schema().name())).await?;

    let activities = ActivityRegistry::builder().register("Ask", ask).build();
    let orchestrations = OrchestrationRegistry::builder().register("Buy", buy).build();
    // As many activities at a time as there are slots; the runtime's default is two.
    let options = RuntimeOptions { worker_concurrency: SUPPLIERS.len(), ..RuntimeOptions::default() };
    let runtime = Runtime::start_with_options(Arc::new(provider.clone()), activities, orchestrations, options).await;

    let started = Instant::now();
    Client::new(Arc::new(provider.clone())).start_orchestration("buy-1", "Buy", "").await?;
    match provider.wait_for_completion("buy-1", Duration::from_secs(30)).await? {
        Some(OrchestrationStatus::Completed { output, .. }) => {
            println!("{output}; after {} ms", started.elapsed().as_millis());
        }
        other => return Err(format!("it has not completed: {other:?}").into()),
    }
    runtime.shutdown(None).await;
    Ok(())
}
