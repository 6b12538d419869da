//! Waiting for a person, but not for ever: an event against a timer, whichever comes first.
//!
//! A journey may wait a minute for its approval, a piano half a second. The journey is approved; the piano is not.
//! Neither wait sends statements, and both would continue after a crash of the process: the timer is a row that is due
//! later.
//!
//! ```text
//! $ cargo run -p reveille-durable --example timers_and_events
//! both wait
//! journey: approved by Grace
//! piano: no answer within 500 ms
//! ```

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, Either2, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use reveille_durable::PostgresProvider;
use reveille_pg::testing::TestDb;
use tracing_subscriber::EnvFilter;

/// What needs an approval, and how many milliseconds it may wait for it.
const REQUESTS: [(&str, u64); 2] = [("journey", 60_000), ("piano", 500)];
const LONG: Duration = Duration::from_secs(30);

async fn approval(ctx: OrchestrationContext, patience: String) -> Result<String, String> {
    let (what, patience) = (ctx.instance_id(), patience.parse().map_err(|_| "no number")?);
    let answer = ctx.schedule_wait("approved");
    let deadline = ctx.schedule_timer(Duration::from_millis(patience));
    ctx.set_custom_status("waiting");
    match ctx.select2(answer, deadline).await {
        Either2::First(by) => Ok(format!("{what}: approved by {by}")),
        Either2::Second(()) => Ok(format!("{what}: no answer within {patience} ms")),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Where the log goes is the application's choice; without one duroxide writes it to standard output.
    tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).with_writer(std::io::stderr).init();
    let db = TestDb::new().await;
    let provider = PostgresProvider::new_with_long_poll_and_schema(db.url(), Some(db.schema().name())).await?;
    let orchestrations = OrchestrationRegistry::builder().register("Approval", approval).build();
    let activities = ActivityRegistry::builder().build();
    let runtime = Runtime::start_with_store(Arc::new(provider.clone()), activities, orchestrations).await;
    let client = Client::new(Arc::new(provider.clone()));

    for (what, patience) in REQUESTS {
        client.start_orchestration(what, "Approval", patience.to_string()).await?;
    }
    for (what, _) in REQUESTS {
        // Woken when the orchestration says something; version 0 is before it has said anything.
        provider.wait_for_status_change(what, 0, LONG).await?.ok_or("it has not begun")?;
    }
    println!("both wait");
    client.raise_event("journey", "approved", "Grace").await?;
    for (what, _) in REQUESTS {
        match provider.wait_for_completion(what, LONG).await? {
            Some(OrchestrationStatus::Completed { output, .. }) => println!("{output}"),
            other => return Err(format!("it has not completed: {other:?}").into()),
        }
    }
    runtime.shutdown(None).await;
    Ok(())
}
