//! A chain: each step gets the results of the steps before it, and a failed step is retried.
//!
//! ```text
//! $ cargo run -p reveille-flow --example linear
//! write: Dear Ada
//! translate: Chère Ada
//! send: the post office is closed, attempt 1 of 3
//! send: Chère Ada, on its way
//! the task is complete
//! ```
//!
//! Like all examples here it runs in a schema of its own, which it drops at the end: on the server in `DATABASE_URL`,
//! or else on a PostgreSQL instance that it starts.

use std::time::Duration;

use reveille_flow::{Failure, Flow, Options, Step, Submission, TaskState};
use reveille_pg::testing::TestDb;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

/// The context of the task.
#[derive(Deserialize)]
struct Letter {
    to: String,
}

/// The settings of the handler, from the template.
#[derive(Deserialize)]
struct Dictionary {
    to: String,
}

async fn write(step: Step<Letter>) -> Result<String, Failure> {
    let text = format!("Dear {}", step.context.to);
    println!("write: {text}");
    Ok(text)
}

async fn translate(step: Step<Letter>) -> Result<String, Failure> {
    let Dictionary { to } = step.initialization()?;
    let text: String = step.result("write")?;
    let text = match to.as_str() {
        "french" => text.replace("Dear", "Chère"),
        // A retry would fail the same way.
        _ => return Err(Failure::permanent(format!("no dictionary for {to}"))),
    };
    println!("translate: {text}");
    Ok(text)
}

async fn send(step: Step<Letter>) -> Result<(), Failure> {
    if step.attempt() == 1 {
        println!("send: the post office is closed, attempt 1 of {}", step.max_attempts());
        return Err(Failure::new("the post office is closed"));
    }
    println!("send: {}, on its way", step.result::<String>("translate")?);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = TestDb::new().await;
    let flow = Flow::open(db.database().clone(), db.schema().clone(), Options::default()).await?;
    flow.register(include_str!("linear.yaml")).await?;

    let worker = flow.worker("post-1").namespace("post");
    let worker =
        worker.handle("write", write).handle("dictionary.translate", translate).handle("send", send).start()?;

    let task = flow.submit(Submission::new("post", "greeting", "1.0.0", json!({"to": "Ada"}))).await?.task_uuid;
    let ended = flow.wait(task, Instant::now() + Duration::from_secs(30)).await?.ok_or("it takes too long")?;
    println!("the task is {}", ended.summary.status);
    worker.stop(Duration::from_secs(10)).await;
    if ended.summary.status == TaskState::Complete { Ok(()) } else { Err("it should be complete".into()) }
}
