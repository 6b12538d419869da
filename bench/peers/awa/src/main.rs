//! One round of a workload on awa.
//!
//! It is used as its documentation recommends and shares everything else with ours: how many jobs are in progress, who
//! submits them, when they are counted. The parent process commands it by its standard input (see [`tasks::play`]).
//!
//! It has single jobs, no graphs. The end of a job is reported by its handler: waiting for a job is not possible.
//! Its tables are always in the schema `awa`, which must not exist yet.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use awa::model::insert::params_with;
use awa::{Client, InsertOpts, JobArgs, JobResult, QueueConfig, QueueStorage, QueueStorageConfig};
use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tasks::{Engine, Progress, Result, Shape, Workload, play};
use tokio::io::{BufReader, stdin, stdout};

/// The only schema that awa uses.
const SCHEMA: &str = "awa";
const QUEUE: &str = "jobs";

/// Connections of the tuned settings: one for each submitter, and as many for the rest.
const TUNED_CONNECTIONS: u32 = 32;
/// Shards of the tuned queue, one for each submitter: jobs are ordered within a shard only, and submitters of different
/// shards do not wait for each other.
const TUNED_SHARDS: i16 = 16;
/// Jobs that are submitted before all others, one after the other, with different ordering keys: at least one per shard.
/// The first jobs of a shard create its sequence, and fail with a unique conflict if they do that at the same time.
const FIRST_JOBS: u64 = 64;

/// How awa is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Setup {
    /// Its defaults: 50 workers, one claimer, one shard, a deadline of five minutes.
    Defaults,
    /// The fastest of those tried: a shard and a connection for each submitter, which uses the storage of the queue
    /// instead of the stored function that also serves other languages; no deadline, because a claim is then one row
    /// for many jobs; as many workers as the workload has slots. More than one claimer is slower.
    Tuned,
}

/// Runs one round of a workload on awa.
#[derive(Parser)]
#[command(name = "reveille-bench-awa", version)]
struct Arguments {
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// Must be `awa`.
    #[arg(long)]
    schema: String,
    /// Connections to the database, with the defaults.
    #[arg(long)]
    connections: u32,
    #[arg(long, value_enum)]
    setup: Setup,
    /// What to measure, as JSON.
    #[arg(long, value_name = "JSON", value_parser = |text: &str| serde_json::from_str::<Workload>(text))]
    workload: Workload,
}

/// A job that does nothing.
#[derive(Serialize, Deserialize, JobArgs)]
struct Nothing {
    number: u64,
}

/// Jobs of the queue.
#[derive(Clone)]
struct Jobs {
    pool: PgPool,
    /// How jobs are submitted, if not by `insert_with`.
    store: Option<Arc<QueueStorage>>,
    progress: Arc<Progress>,
    submitted: Arc<AtomicU64>,
}

impl Engine for Jobs {
    /// How many have been submitted with it.
    type Ticket = u64;

    async fn submit(&self) -> Result<u64> {
        self.insert(InsertOpts::default()).await
    }

    async fn done(&self, number: u64) -> Result<()> {
        self.progress.reach(number).await
    }
}

impl Jobs {
    async fn insert(&self, options: InsertOpts) -> Result<u64> {
        let number = self.submitted.fetch_add(1, Relaxed) + 1;
        let options = InsertOpts { queue: QUEUE.into(), ..options };
        let job = Nothing { number };
        match &self.store {
            None => drop(awa::insert_with(&self.pool, &job, options).await?),
            Some(store) => drop(store.enqueue_params_batch(&self.pool, &[params_with(&job, options)?]).await?),
        }
        Ok(number)
    }

    /// Creates what the first jobs of a queue create, and returns when they have run.
    async fn warm_up(&self) -> Result<()> {
        for key in 0..FIRST_JOBS {
            let ordering_key = Some(key.to_be_bytes().to_vec());
            self.insert(InsertOpts { ordering_key, ..InsertOpts::default() }).await?;
        }
        self.progress.reach(FIRST_JOBS).await
    }
}

impl Setup {
    fn connections(self, default: u32) -> u32 {
        match self {
            Setup::Defaults => default,
            Setup::Tuned => TUNED_CONNECTIONS,
        }
    }

    /// Its queue, for a workload with so many slots.
    fn queue(self, slots: usize) -> Result<QueueConfig> {
        Ok(match self {
            Setup::Defaults => QueueConfig::default(),
            Setup::Tuned => QueueConfig {
                max_workers: slots.try_into()?,
                deadline_duration: Duration::ZERO,
                ..QueueConfig::default()
            },
        })
    }

    async fn migrate(self, pool: &PgPool) -> Result<()> {
        awa::migrations::run(pool).await?;
        if self == Setup::Tuned {
            let shards = "insert into awa.queue_meta (queue, enqueue_shards) values ($1, $2)";
            sqlx::query(shards).bind(QUEUE).bind(TUNED_SHARDS).execute(pool).await?;
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reveille-bench-awa: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(Arguments { database_url, schema, connections, setup, workload }: Arguments) -> Result<()> {
    if workload.shape != Shape::Single {
        return Err("it has single jobs only".into());
    }
    if schema != SCHEMA {
        return Err(format!("its schema is always {SCHEMA}, not {schema}").into());
    }
    let pool = PgPoolOptions::new().max_connections(setup.connections(connections)).connect(&database_url).await?;
    setup.migrate(&pool).await?;
    let progress = Arc::new(Progress::default());
    let counted = Arc::clone(&progress);
    let client = Client::builder(pool.clone())
        .queue(QUEUE, setup.queue(workload.workers * workload.slots)?)
        .register::<Nothing, _, _>(move |_, _| {
            counted.ran(true);
            async { Ok(JobResult::Completed) }
        })
        .build()?;
    client.start().await?;
    let store = match setup {
        Setup::Defaults => None,
        Setup::Tuned => Some(Arc::new(QueueStorage::new(QueueStorageConfig::default())?)),
    };
    let engine = Jobs { pool, store, progress: Arc::clone(&progress), submitted: Arc::default() };
    engine.warm_up().await?;
    play(workload, engine, progress, BufReader::new(stdin()), stdout()).await
}
