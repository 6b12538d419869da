//! One round of a workload on graphile_worker.
//!
//! It is used as its documentation recommends and shares everything else with ours: how many jobs are in progress, how
//! many run at a time, when they are counted. The parent process commands it by its standard input (see
//! [`tasks::play`]).
//!
//! It has single jobs, no graphs. The end of a job is reported by its handler: waiting for a job is not possible.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use clap::Parser;
use graphile_worker::{IntoTaskHandlerResult, JobSpec, TaskHandler, WorkerContext, WorkerOptions, WorkerUtils};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use tasks::{Engine, Progress, Result, Shape, Workload, play};
use tokio::io::{BufReader, stdin, stdout};

/// Runs one round of a workload on graphile_worker.
#[derive(Parser)]
#[command(name = "reveille-bench-flow-peers", version)]
struct Arguments {
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    #[arg(long)]
    schema: String,
    /// Connections to the database.
    #[arg(long)]
    connections: u32,
    /// What to measure, as JSON.
    #[arg(long, value_name = "JSON", value_parser = |text: &str| serde_json::from_str::<Workload>(text))]
    workload: Workload,
}

/// A job that does nothing.
#[derive(Deserialize, Serialize)]
struct Nothing {
    number: u64,
}

impl TaskHandler for Nothing {
    const IDENTIFIER: &'static str = "nothing";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        match context.get_ext::<Arc<Progress>>() {
            Some(progress) => {
                progress.ran(true);
                Ok(())
            }
            None => Err("there is no counter of progress"),
        }
    }
}

/// Jobs of a schema.
#[derive(Clone)]
struct Jobs {
    jobs: Arc<WorkerUtils>,
    progress: Arc<Progress>,
    submitted: Arc<AtomicU64>,
}

impl Engine for Jobs {
    /// How many have been submitted with it.
    type Ticket = u64;

    async fn submit(&self) -> Result<u64> {
        let number = self.submitted.fetch_add(1, Relaxed) + 1;
        self.jobs.add_job(Nothing { number }, JobSpec::default()).await?;
        Ok(number)
    }

    async fn done(&self, number: u64) -> Result<()> {
        self.progress.reach(number).await
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reveille-bench-flow-peers: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(Arguments { database_url, schema, connections, workload }: Arguments) -> Result<()> {
    if workload.shape != Shape::Single {
        return Err("it has single jobs only".into());
    }
    let progress = Arc::new(Progress::default());
    let pool = PgPoolOptions::new().max_connections(connections).connect(&database_url).await?;
    let worker = WorkerOptions::default()
        .pg_pool(pool)
        .schema(&schema)
        .concurrency(workload.workers * workload.slots)
        .add_extension(progress.clone())
        .define_job::<Nothing>()
        .init()
        .await?;
    let jobs = Arc::new(worker.create_utils());
    let works = tokio::spawn(async move { worker.run().await.map_err(|error| error.to_string()) });
    let engine = Jobs { jobs, progress: progress.clone(), submitted: Arc::default() };
    tokio::select! {
        played = play(workload, engine, progress, BufReader::new(stdin()), stdout()) => played,
        ended = works => Err(format!("the worker has ended: {ended:?}").into()),
    }
}
