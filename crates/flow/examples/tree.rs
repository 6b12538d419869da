//! A tree: seven steps with one handler, run by two workers as concurrently as the graph allows.
//!
//! ```text
//! $ cargo run -p reveille-flow --example tree
//! the cup goes to Everton
//! 7 matches by 2 workers
//! ```

use std::time::Duration;

use reveille_flow::{Failure, Flow, Options, Step, Submission};
use reveille_pg::testing::TestDb;
use serde_json::{Value, json};
use tokio::time::Instant;

/// The longer name wins; of two equally long names the first.
async fn play(step: Step<Value>) -> Result<String, Failure> {
    // The template names the sides: a team, or the match whose winner plays.
    let sides: [String; 2] = step.initialization()?;
    let [home, guest] = sides.map(|side| Ok::<_, Failure>(step.result_if_any::<String>(&side)?.unwrap_or(side)));
    let (home, guest) = (home?, guest?);
    let winner = if guest.len() > home.len() { guest } else { home };
    if step.name() == "final" {
        println!("the cup goes to {winner}");
    }
    Ok(winner)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = TestDb::new().await;
    let flow = Flow::open(db.database().clone(), db.schema().clone(), Options::default()).await?;
    flow.register(include_str!("tree.yaml")).await?;

    // Both run in one process here. They could run on different machines: they share only the database.
    let field = |name: &str| flow.worker(name).namespace("sport").concurrency(1).handle("match", play).start();
    let fields = [field("field-1")?, field("field-2")?];

    let task = flow.submit(Submission::new("sport", "cup", "1.0.0", json!({}))).await?.task_uuid;
    flow.wait(task, Instant::now() + Duration::from_secs(30)).await?.ok_or("it takes too long")?;
    let mut played = 0;
    for field in fields {
        played += field.stop(Duration::from_secs(10)).await.completed;
    }
    println!("{played} matches by 2 workers");
    if played == 7 { Ok(()) } else { Err("there should be seven".into()) }
}
