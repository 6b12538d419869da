//! A diamond: two steps run concurrently, and the last waits for both.
//!
//! The flight and the hotel take 300 ms each. The task takes little more than that, because they run at the same time.
//!
//! ```text
//! $ cargo run -p reveille-flow --example diamond
//! a trip to Lisbon for 3 nights costs 470
//! side by side
//! ```

use std::sync::Arc;
use std::time::Duration;

use reveille_flow::{Failure, Flow, Options, Step, Submission, TaskState};
use reveille_pg::testing::TestDb;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Barrier;
use tokio::time::{Instant, sleep, timeout};

#[derive(Deserialize)]
struct Trip {
    to: String,
}

#[derive(Serialize, Deserialize)]
struct Plan {
    nights: u32,
}

async fn plan(_: Step<Trip>) -> Result<Plan, Failure> {
    Ok(Plan { nights: 3 })
}

async fn offer(step: Step<Trip>) -> Result<u32, Failure> {
    // The results of all steps before it are available, not only those of its direct dependencies.
    let Plan { nights } = step.result("plan")?;
    let total = step.result::<u32>("flight")? + nights * step.result::<u32>("hotel")?;
    println!("a trip to {} for {nights} nights costs {total}", step.context.to);
    Ok(total)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = TestDb::new().await;
    let flow = Flow::open(db.database().clone(), db.schema().clone(), Options::default()).await?;
    flow.register(include_str!("diamond.yaml")).await?;

    // Each handler waits at the barrier for the other one: run one after the other, they would time out.
    let meeting = Arc::new(Barrier::new(2));
    let ask = move |price: u32| {
        let meeting = meeting.clone();
        move |_: Step<Trip>| {
            let meeting = meeting.clone();
            async move {
                timeout(Duration::from_secs(10), meeting.wait()).await?;
                sleep(Duration::from_millis(300)).await;
                Ok(price)
            }
        }
    };
    let worker = flow.worker("travel-1").namespace("travel");
    let worker = worker.handle("plan", plan).handle("flight", ask(170)).handle("hotel", ask(100));
    let worker = worker.handle("offer", offer).start()?;

    let task = flow.submit(Submission::new("travel", "quote", "1.0.0", json!({"to": "Lisbon"}))).await?.task_uuid;
    let ended = flow.wait(task, Instant::now() + Duration::from_secs(30)).await?.ok_or("it takes too long")?;
    worker.stop(Duration::from_secs(10)).await;
    if ended.summary.status != TaskState::Complete {
        return Err(format!("the task is {}", ended.summary.status).into());
    }
    println!("side by side");
    Ok(())
}
