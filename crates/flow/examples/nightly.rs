//! Schedules: a task every night in a time zone, and, as a demonstration, one every second. Two servers run, and each
//! tick creates one task.
//!
//! ```text
//! $ cargo run -p reveille-flow --example nightly
//! nightly: the next three are a night apart
//! demonstration: tick 1 is backed up
//! demonstration: tick 2 is backed up
//! demonstration: tick 3 is backed up
//! no tick ran twice
//! ```

use std::collections::HashSet;
use std::time::Duration;

use reveille_flow::{Failure, Flow, Options, Schedule, Step};
use reveille_pg::testing::TestDb;
use reveille_pg::{Database, Schema};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// What each server process runs; there may be any number of them.
async fn serve(url: &str, schema: &Schema) -> reveille_flow::Result<(Flow, reveille_flow::EventDrivenOrchestrator)> {
    let database = Database::connect(url, reveille_pg::Options::default()).await?;
    let flow = Flow::open(database, schema.clone(), Options::default()).await?;
    let orchestrator = flow.orchestrate();
    Ok((flow, orchestrator))
}

async fn dump(step: Step<Value>) -> Result<String, Failure> {
    // The correlation id of the task is unique to the tick.
    step.correlation_id().map(str::to_owned).ok_or_else(|| Failure::permanent("not submitted by a schedule"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = TestDb::new().await;
    let (flow, _first) = serve(db.url(), db.schema()).await?;
    let (_, _second) = serve(db.url(), db.schema()).await?;
    flow.register(include_str!("nightly.yaml")).await?;

    let schedule = |name: &str, cron: &str| -> serde_json::Result<Schedule> {
        serde_json::from_value(json!({
            "namespace": "house", "name": name, "template": "backup", "version": "1.0.0",
            "cron": cron, "time_zone": "Europe/Lisbon",
        }))
    };
    // At half past two local time, in summer and winter.
    flow.put_schedule(schedule("nightly", "30 2 * * *")?).await?;
    let nights = flow.schedule("house", "nightly", 3).await?.upcoming;
    let a_night = 23..=25;
    if nights.len() != 3 || !nights.windows(2).all(|two| a_night.contains(&(two[1] - two[0]).whole_hours())) {
        return Err(format!("the nights are {nights:?}").into());
    }
    println!("nightly: the next three are a night apart");

    let (done, mut uploads) = mpsc::unbounded_channel();
    let upload = move |step: Step<Value>| {
        let done = done.clone();
        async move { Ok(done.send(step.result::<String>("dump")?)?) }
    };
    let worker = flow.worker("house-1").namespace("house").handle("dump", dump).handle("upload", upload).start()?;

    flow.put_schedule(schedule("demonstration", "* * * * * *")?).await?;
    let mut ticks = HashSet::new();
    for number in 1..=3 {
        let tick = timeout(Duration::from_secs(10), uploads.recv()).await?.ok_or("the worker has ended")?;
        println!("demonstration: tick {number} is backed up");
        if !ticks.insert(tick) {
            return Err("a tick ran twice".into());
        }
    }
    flow.pause_schedule("house", "demonstration").await?;
    worker.stop(Duration::from_secs(10)).await;
    println!("no tick ran twice");
    Ok(())
}
