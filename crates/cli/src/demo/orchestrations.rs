//! Orchestrations and the runtime that executes them: a fan-out with a child, an approval with a deadline, one that
//! fails, and one that never ends.

use std::{sync::Arc, time::Duration};

use duroxide::{
    ActivityContext, Client, ClientError, Either2, OrchestrationContext, OrchestrationRegistry,
    runtime::{Runtime, RuntimeOptions, registry::ActivityRegistry},
};
use reveille_durable::{Options, PostgresProvider};
use reveille_pg::{Database, Schema};
use tokio::time::sleep;

const BETWEEN_STARTS: Duration = Duration::from_secs(3);
/// Every this many trips one needs an approval, and every so many fails.
const TRIPS_PER_APPROVAL: u64 = 2;
const TRIPS_PER_FAILURE: u64 = 4;
/// How long an approval waits for its event; every second one gets it.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long ended instances are kept, so that a demo that runs for days stays small.
const KEEP: Duration = Duration::from_secs(3_600);
/// How long the runtime may take to stop: its turns are short.
const STOP_MS: u64 = 1_000;

/// A running runtime.
pub(super) struct Orchestrations {
    runtime: Arc<Runtime>,
    provider: PostgresProvider,
}

impl Orchestrations {
    /// Starts the runtime in `schema`, which is up to date.
    pub(super) async fn start(database: &Database, schema: &Schema) -> reveille_durable::Result<Orchestrations> {
        let options = Options::default().schema(schema.name()).retention(KEEP);
        let provider = PostgresProvider::with_database(database.clone(), options).await?;
        let activities = ActivityRegistry::builder().register("Quote", quote).register("Book", book).build();
        let orchestrations = OrchestrationRegistry::builder()
            .register("PlanTrip", plan_trip)
            .register("BookTrip", book_trip)
            .register("ApproveTrip", approve_trip)
            .register("Clock", clock)
            .build();
        let options = RuntimeOptions { worker_concurrency: 4, ..RuntimeOptions::default() };
        let store = Arc::new(provider.clone());
        let runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
        Ok(Orchestrations { runtime, provider })
    }

    /// A client that starts instances.
    pub(super) fn client(&self) -> Client {
        Client::new(Arc::new(self.provider.clone()))
    }

    /// Stops the runtime. Unfinished instances continue with the next demo.
    pub(super) async fn stop(self) {
        self.runtime.shutdown(Some(STOP_MS)).await;
        self.provider.flush().await;
    }
}

/// Starts instances, and raises the events that they wait for.
pub(super) async fn start_all(client: Client) -> Result<(), ClientError> {
    // Starting an instance that exists does nothing.
    client.start_orchestration("demo-clock", "Clock", "0").await?;
    let run = fastrand::u32(..);
    for number in 0_u64.. {
        let destination = ["Oslo", "Porto", "Rome"][fastrand::usize(..3)];
        let input = if number % TRIPS_PER_FAILURE == 1 { "Atlantis" } else { destination };
        client.start_orchestration(format!("trip-{run:08x}-{number}"), "PlanTrip", input).await?;
        if number % TRIPS_PER_APPROVAL == 0 {
            let approval = format!("approval-{run:08x}-{number}");
            client.start_orchestration(&approval, "ApproveTrip", destination).await?;
            if number % (2 * TRIPS_PER_APPROVAL) == 0 {
                sleep(BETWEEN_STARTS).await;
                client.raise_event(&approval, "approved", "Grace").await?;
            }
        }
        sleep(BETWEEN_STARTS).await;
    }
    Ok(())
}

/// Asks three carriers at once, and leaves the booking to a child.
async fn plan_trip(ctx: OrchestrationContext, destination: String) -> Result<String, String> {
    ctx.set_custom_status("asking for quotes");
    let quotes = ["train", "ship", "coach"].map(|by| ctx.schedule_activity("Quote", format!("{by} to {destination}")));
    let mut answers = Vec::new();
    for answer in ctx.join(quotes.into()).await {
        answers.push(answer?);
    }
    let best = answers.into_iter().min().ok_or("no quotes")?;
    ctx.set_kv_value("best", &best);
    ctx.set_custom_status("booking");
    ctx.schedule_sub_orchestration("BookTrip", best).await
}

/// Waits a little, then books.
async fn book_trip(ctx: OrchestrationContext, quote: String) -> Result<String, String> {
    ctx.schedule_timer(Duration::from_secs(2)).await;
    ctx.schedule_activity("Book", quote).await
}

/// Waits for a person, but not for ever.
async fn approve_trip(ctx: OrchestrationContext, destination: String) -> Result<String, String> {
    let answer = ctx.schedule_wait("approved");
    let deadline = ctx.schedule_timer(PATIENCE);
    ctx.set_custom_status("waiting for an approval");
    match ctx.select2(answer, deadline).await {
        Either2::First(by) => Ok(format!("{destination}: approved by {by}")),
        Either2::Second(()) => Ok(format!("{destination}: no answer within {} s", PATIENCE.as_secs())),
    }
}

/// Continues as new with every tick.
async fn clock(ctx: OrchestrationContext, ticks: String) -> Result<String, String> {
    let ticks: u64 = ticks.parse().map_err(|_| format!("{ticks} is no number"))?;
    ctx.set_custom_status(format!("{ticks} ticks"));
    ctx.schedule_timer(Duration::from_secs(10)).await;
    ctx.continue_as_new((ticks + 1).to_string()).await
}

async fn quote(_: ActivityContext, trip: String) -> Result<String, String> {
    sleep(Duration::from_millis(fastrand::u64(100..900))).await;
    match trip.ends_with("Atlantis") {
        true => Err(format!("no {trip}: it is under water")),
        false => Ok(format!("{} for {trip}", fastrand::u32(20..300))),
    }
}

async fn book(_: ActivityContext, quote: String) -> Result<String, String> {
    sleep(Duration::from_millis(fastrand::u64(100..400))).await;
    Ok(format!("booked: {quote}"))
}
