//! A second process that adds jobs, and the handle by which the first one commands it.
//!
//! Both run on one machine and read one clock, so the time of a commit in one can be compared with the time of a claim
//! in the other. A job cannot contain the time of its own commit. So the second process keeps a list of the times and
//! prints it when all jobs are sent; printing is thus not measured.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use clap::Args;
use reveille_pg::{Database, Options, Schema};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::PATIENCE;
use super::jobs::Jobs;
use crate::Result;
use crate::server::Server;

/// Arguments of the second process.
#[derive(Args)]
pub(crate) struct SenderArguments {
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    #[arg(long)]
    schema: String,
}

/// When a job was submitted, and when its commit was known.
pub(crate) struct Sent {
    pub(crate) submitted: SystemTime,
    pub(crate) committed: SystemTime,
}

/// A running second process. Killed when dropped.
pub(crate) struct Sender {
    _process: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Sender {
    /// Starts the process on a migrated schema, and waits until it listens.
    pub(crate) async fn start(server: &Server, schema: &Schema) -> Result<Sender> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["wake-sender", "--schema", schema.name()])
            // Not an argument: all users of the machine can read arguments.
            .env("DATABASE_URL", server.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let orders = process.stdin.take().ok_or("the second process has no stdin")?;
        let answers = process.stdout.take().ok_or("the second process has no stdout")?;
        let mut sender = Sender { _process: process, orders, answers: BufReader::new(answers).lines() };
        sender.answer(PATIENCE).await?;
        Ok(sender)
    }

    /// Lets the process add `count` jobs, one every `interval`. Returns when each was sent, by id.
    pub(crate) async fn send(&mut self, queue: &str, count: usize, interval: Duration) -> Result<HashMap<i64, Sent>> {
        self.orders.write_all(format!("{count} {} {queue}\n", interval.as_micros()).as_bytes()).await?;
        let mut sent = HashMap::new();
        for _ in 0..count {
            let answer = self.answer(PATIENCE + interval * u32::try_from(count)?).await?;
            let fields: Vec<u64> = answer.split(' ').map(str::parse).collect::<std::result::Result<_, _>>()?;
            let [id, submitted, committed] = fields[..] else {
                return Err("the second process printed an invalid line".into());
            };
            let at = |nanos| SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
            sent.insert(i64::try_from(id)?, Sent { submitted: at(submitted), committed: at(committed) });
        }
        Ok(sent)
    }

    async fn answer(&mut self, patience: Duration) -> Result<String> {
        let answer = timeout(patience, self.answers.next_line()).await;
        answer
            .map_err(|_| "the second process did not answer in time")??
            .ok_or_else(|| "the second process has ended".into())
    }
}

/// Runs the second process, until its standard input ends.
pub(crate) async fn run(arguments: SenderArguments) -> Result<()> {
    let db = Database::connect(&arguments.database_url, Options::default()).await?;
    let jobs = Jobs::start(&db, &Schema::new(&arguments.schema)?, reveille_wake::Options::default()).await?;
    while !jobs.wake.health().is_connected() {
        tokio::time::sleep(super::GLANCE).await;
    }
    println!("ready");
    let mut orders: Lines<BufReader<Stdin>> = BufReader::new(tokio::io::stdin()).lines();
    while let Some(order) = orders.next_line().await? {
        let fields: Vec<&str> = order.splitn(3, ' ').collect();
        let [count, micros, queue] = fields[..] else { return Err("an order is: count, microseconds, queue".into()) };
        let mut ticks = interval(Duration::from_micros(micros.parse()?));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sent = Vec::new();
        for _ in 0..count.parse::<usize>()? {
            ticks.tick().await;
            let submitted = SystemTime::now();
            let id = jobs.enqueue(queue, "job", Duration::ZERO).await?;
            sent.push((id, submitted, SystemTime::now()));
        }
        let nanos = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let lines = sent
            .into_iter()
            .map(|(id, submitted, committed)| format!("{id} {} {}\n", nanos(submitted), nanos(committed)));
        print!("{}", lines.collect::<String>());
        std::io::Write::flush(&mut std::io::stdout())?;
    }
    Ok(())
}
