//! A batch: a file is divided into parts that are read concurrently, and a report waits for all of them. The first
//! worker dies; the second one resumes from the checkpoints.
//!
//! ```text
//! $ cargo run -p reveille-flow --example csv_import
//! 120 rows in 4 parts
//! the first worker dies after 10 rows of each part
//! the second worker resumes at row 10 of each part
//! 120 rows, 7140 in all
//! no row was read twice
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use reveille_flow::{Decision, Failure, Flow, Options, Step, Submission, TaskState, Worker};
use reveille_pg::testing::{TestDb, eventually};
use reveille_pg::{Database, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

const PARTS: u32 = 4;
/// The first worker dies after this many rows of each part.
const DEADLY: u32 = 10;

#[derive(Deserialize)]
struct File {
    csv: String,
}

/// The input of a part.
#[derive(Serialize, Deserialize)]
struct Rows {
    from: u32,
    to: u32,
}

/// The checkpoint of a part.
#[derive(Default, Serialize, Deserialize)]
struct Progress {
    read: u32,
    sum: u64,
}

async fn split(step: Step<File>) -> Result<Decision, Failure> {
    let rows = step.context.csv.lines().count() as u32;
    println!("{rows} rows in {PARTS} parts");
    Decision::divide((0..PARTS).map(|part| Rows { from: part * rows / PARTS, to: (part + 1) * rows / PARTS }))
}

async fn report(step: Step<File>) -> Result<u64, Failure> {
    let parts: Vec<Progress> = step.results_of_parts("rows")?;
    let total = parts.iter().map(|part| part.sum).sum();
    println!("{} rows, {total} in all", parts.iter().map(|part| part.read).sum::<u32>());
    Ok(total)
}

/// Reads a part row by row, and counts the rows in `read`. The worker that is to die hangs at the deadly row.
async fn rows(step: Step<File>, read: Arc<AtomicU32>, dies: bool) -> Result<Progress, Failure> {
    let Rows { from, to } = step.input()?;
    let mut progress: Progress = step.checkpoint()?.unwrap_or_default();
    if progress.read > 0 && from == 0 {
        println!("the second worker resumes at row {} of each part", progress.read);
    }
    for row in step.context.csv.lines().take(to as usize).skip((from + progress.read) as usize) {
        if dies && progress.read == DEADLY {
            std::future::pending::<()>().await;
        }
        let (_, amount) = row.split_once(',').ok_or_else(|| Failure::permanent(format!("no row: {row:?}")))?;
        progress.sum += amount.parse::<u64>()?;
        progress.read += 1;
        // A saved checkpoint is durable. For a file of a million rows, save every thousandth.
        step.save_checkpoint(&progress).await?;
        read.fetch_add(1, Ordering::Relaxed);
    }
    Ok(progress)
}

/// A worker with its own connections, as in another process. It sends a heartbeat every second; three seconds after its
/// death its steps are retried.
async fn start(
    url: &str,
    schema: &Schema,
    name: &str,
    read: Arc<AtomicU32>,
    dies: bool,
) -> reveille_flow::Result<Worker> {
    let database = Database::connect(url, reveille_pg::Options::default()).await?;
    let flow = Flow::start(&database, schema, Options::default());
    let worker = flow.worker(name).namespace("data").lease(Duration::from_secs(3));
    let worker = worker.handle("split", split).handle("report", report);
    worker.handle("rows", move |step| rows(step, read.clone(), dies)).start()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let db = TestDb::new().await;
    let flow = Flow::open(db.database().clone(), db.schema().clone(), Options::default()).await?;
    flow.register(include_str!("csv_import.yaml")).await?;

    let read = Arc::new(AtomicU32::new(0));
    let csv: String = (0..120).map(|row| format!("row {row},{row}\n")).collect();
    let task = flow.submit(Submission::new("data", "import", "1.0.0", json!({"csv": csv}))).await?.task_uuid;

    // The whole runtime is dropped, as when a machine goes down: nothing is released.
    let machine = tokio::runtime::Runtime::new()?;
    let (url, schema, counted) = (db.url().to_owned(), db.schema().clone(), read.clone());
    machine.spawn(async move {
        let _first = start(&url, &schema, "first", counted, true).await;
        std::future::pending::<()>().await;
    });
    eventually("all parts have stopped", async || read.load(Ordering::Relaxed) == PARTS * DEADLY).await;
    println!("the first worker dies after {DEADLY} rows of each part");
    machine.shutdown_background();

    let second = start(db.url(), db.schema(), "second", read.clone(), false).await?;
    let ended = flow.wait(task, Instant::now() + Duration::from_secs(30)).await?.ok_or("it takes too long")?;
    second.stop(Duration::from_secs(10)).await;
    match (ended.summary.status, read.load(Ordering::Relaxed)) {
        (TaskState::Complete, 120) => println!("no row was read twice"),
        (state, rows) => return Err(format!("the task is {state} after {rows} rows").into()),
    }
    Ok(())
}
