//! The job queue at work. `cargo run -p reveille-wake --example jobs` demonstrates it on a private server; with a
//! command and `DATABASE_URL` it is one process of many: `jobs work` in one terminal, `jobs add` in another.

#[allow(unreachable_pub, dead_code)] // Also a module of the tests and of the benchmark.
mod jobs;

use std::time::Duration;

use clap::{Parser, Subcommand};
use jobs::Jobs;
use reveille_pg::{Database, Schema};
use tokio::time::Instant;

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[derive(Parser)]
struct Arguments {
    #[arg(long, env = "DATABASE_URL", default_value = "")]
    database_url: String,
    #[arg(long, default_value = "jobs")]
    schema: String,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Adds jobs and prints their ids.
    Add {
        queue: String,
        body: String,
        #[arg(long, default_value_t = 0)]
        delay_ms: u64,
        #[arg(long, default_value_t = 1)]
        count: usize,
    },
    /// Adds jobs as fast as possible with this many concurrent writers, printing each id after its commit, until
    /// killed.
    Flood { queue: String, writers: usize },
    /// Works until there has been nothing to do for a while, printing each job it claims.
    Work {
        queue: String,
        #[arg(long, default_value_t = 30_000)]
        lease_ms: u64,
        #[arg(long, default_value_t = 10_000)]
        idle_ms: u64,
        /// Print a job and hold it, like a worker that dies while it works.
        #[arg(long)]
        hold: bool,
    },
}

#[tokio::main]
async fn main() -> Outcome {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let arguments = Arguments::parse();
    let Some(command) = arguments.command else { return demo().await };
    let db = Database::connect(&arguments.database_url, reveille_pg::Options::default()).await?;
    let jobs = Jobs::start(&db, &Schema::new(&arguments.schema)?, reveille_wake::Options::default()).await?;
    match command {
        Command::Add { queue, body, delay_ms, count } => {
            for _ in 0..count {
                println!("{}", jobs.enqueue(&queue, &body, Duration::from_millis(delay_ms)).await?);
            }
        }
        Command::Flood { queue, writers } => {
            let flood = (0..writers).map(|_| tokio::spawn(flood(jobs.clone(), queue.clone())));
            for writer in flood.collect::<Vec<_>>() {
                writer.await??;
            }
        }
        Command::Work { queue, lease_ms, idle_ms, hold } => {
            println!("ready");
            let lease = Duration::from_millis(lease_ms);
            while let Some(job) = jobs.claim(&queue, lease, Instant::now() + Duration::from_millis(idle_ms)).await? {
                println!("{} {} {}", job.id, job.attempt, job.body);
                if hold {
                    std::future::pending::<()>().await;
                }
                jobs.done(&queue, &job).await?;
            }
        }
    }
    Ok(())
}

async fn flood(jobs: Jobs, queue: String) -> reveille_wake::Result<()> {
    loop {
        println!("{}", jobs.enqueue(&queue, "flood", Duration::ZERO).await?);
    }
}

/// A job now, a job later, a job that fails twice, and a job whose first worker dies.
async fn demo() -> Outcome {
    let test = reveille_pg::testing::TestDb::new().await;
    let jobs = Jobs::start(test.database(), test.schema(), reveille_wake::Options::default()).await?;
    let started = Instant::now();
    let say = |what: &str| println!("{:>6.1} ms  {what}", started.elapsed().as_secs_f64() * 1_000.0);

    let worker = tokio::spawn({
        let jobs = jobs.clone();
        async move { jobs.claim("demo", Duration::from_secs(30), Instant::now() + Duration::from_secs(10)).await }
    });
    jobs.enqueue("demo", "now", Duration::ZERO).await?;
    let job = worker.await??.ok_or("the waiting worker got nothing")?;
    say(&format!("a waiting worker has {:?}", job.body));
    jobs.done("demo", &job).await?;

    jobs.enqueue("demo", "later", Duration::from_millis(300)).await?;
    let soon = || Instant::now() + Duration::from_secs(10);
    let job = jobs.claim("demo", Duration::from_secs(30), soon()).await?.ok_or("the delayed job never came")?;
    say(&format!("{:?}, which was 300 ms away", job.body));
    jobs.done("demo", &job).await?;

    jobs.enqueue("demo", "stubborn", Duration::ZERO).await?;
    loop {
        let job = jobs.claim("demo", Duration::from_secs(30), soon()).await?.ok_or("the retry never came")?;
        say(&format!("{:?}, attempt {}", job.body, job.attempt));
        if job.attempt == 3 {
            jobs.done("demo", &job).await?;
            break;
        }
        jobs.failed("demo", &job).await?;
    }

    jobs.enqueue("demo", "orphan", Duration::ZERO).await?;
    let lost = jobs.claim("demo", Duration::from_millis(500), soon()).await?.ok_or("the job never came")?;
    say(&format!("{:?} claimed for 500 ms by a worker that dies", lost.body));
    let job = jobs.claim("demo", Duration::from_secs(30), soon()).await?.ok_or("the lease never ended")?;
    say(&format!("{:?} again, attempt {}", job.body, job.attempt));
    assert!(!jobs.done("demo", &lost).await?, "the token of the dead worker is no longer valid");
    assert!(jobs.done("demo", &job).await?);
    say(&format!("done with {:?}", jobs.claims.counts()));
    Ok(())
}
