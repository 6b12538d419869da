//! The latency from the commit of a job until a waiter has claimed it, on an idle system.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use reveille_pg::{Schema, Sql};
use reveille_wake::Options;
use sqlx::postgres::PgListener;
use sqlx::{PgConnection, Row};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::jobs::Jobs;
use super::second_process::Sender;
use super::{LEASE, PATIENCE, latencies, start_jobs, until_idle};
use crate::report::{Figures, Goal, Report};
use crate::server::Server;
use crate::stats::{Latencies, turns};
use crate::{Result, Run};

/// The names of these workloads.
pub(super) const ONE: &str = "commit to claimed, one process";
pub(super) const TWO: &str = "commit to claimed, two processes";
/// The pause between two jobs within one process: long enough for the waiter to wait again.
const INTERVAL: Duration = Duration::from_millis(8);
/// The pause between two jobs of a quiet sender: 33 a second, which notifies in the transaction (busy begins at 50).
const QUIET: Duration = Duration::from_millis(30);
/// The pause between two jobs of a busy sender: 125 a second, which notifies after the commit.
const BUSY: Duration = Duration::from_millis(8);
/// Connections of each process: the default.
const CONNECTIONS: u32 = 10;
const QUEUE: &str = "latency";

/// One waiter, and jobs of the same process.
pub(crate) async fn within_one_process(server: &Server, run: &Run, report: &mut Report) -> Result<()> {
    let samples = if run.quick { 500 } else { 5_000 };
    let schema = server.new_schema()?;
    let jobs = start_jobs(server, CONNECTIONS, &schema, Options::default()).await?;
    let mut bound = ByHand::new(server, &schema).await?;
    let mut claims = Claims::start(&jobs, 1);
    let (mut whole, mut claimed, mut alone) = (Latencies::default(), Latencies::default(), Latencies::default());
    until_idle(&jobs, 1, INTERVAL).await?;
    let before = jobs.claims.counts();
    for _ in 0..samples {
        sleep(INTERVAL).await;
        let submitted = SystemTime::now();
        let id = jobs.enqueue(QUEUE, "job", Duration::ZERO).await?;
        let committed = SystemTime::now();
        let at = claims.of(id).await?;
        claimed.push(since(committed, at));
        whole.push(since(submitted, at));
    }
    let counts = jobs.claims.counts();
    drop(claims);
    until_idle(&jobs, 0, INTERVAL).await?;
    for _ in 0..samples / 5 {
        sleep(INTERVAL).await;
        jobs.enqueue(QUEUE, "job", Duration::ZERO).await?;
        let asked = Instant::now();
        bound.claim().await?;
        alone.push(asked.elapsed());
    }
    let figures = latencies(Figures::default(), &claimed)
        .number("submit_p50_ms", whole.quantile(0.5))
        .number("submit_p99_ms", whole.quantile(0.99))
        .number("polls_per_item", (counts.polls - before.polls) as f64 / samples as f64);
    report.result(ONE, "reveille", figures);
    report.result(ONE, "the claim statement alone", latencies(Figures::default(), &alone));
    report.target("one-process wake p50 ms", Goal::AtMost(0.7), claimed.quantile(0.5));
    Ok(())
}

/// How jobs are received, and how fast the other process sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiver {
    Quiet,
    Busy,
    ByHand,
}

/// One waiter, and jobs of another process.
pub(crate) async fn across_processes(server: &Server, run: &Run, report: &mut Report) -> Result<()> {
    let (rounds, samples) = if run.quick { (2, 200) } else { (5, 1_000) };
    let schema = server.new_schema()?;
    let jobs = start_jobs(server, CONNECTIONS, &schema, Options::default()).await?;
    let mut sender = Sender::start(server, &schema).await?;
    let mut systems = vec![
        (Receiver::Quiet, "reveille, quiet sender", samples, QUIET),
        (Receiver::Busy, "reveille, busy sender", samples, BUSY),
    ];
    if !run.no_peers {
        systems.push((Receiver::ByHand, "LISTEN and claim by hand", samples / 2, QUIET));
    }
    let mut results: HashMap<&str, (Latencies, Latencies, u64)> = HashMap::new();
    for round in 0..rounds {
        for (receiver, name, count, interval) in turns(&systems, round) {
            let before = jobs.claims.counts().polls;
            let (claimed, whole) = match receiver {
                Receiver::ByHand => by_hand(server, &schema, &mut sender, count, interval).await?,
                Receiver::Quiet | Receiver::Busy => by_wake(&jobs, &mut sender, count, interval).await?,
            };
            let result = results.entry(name).or_default();
            result.0.extend(claimed);
            result.1.extend(whole);
            result.2 += jobs.claims.counts().polls - before;
        }
    }
    for (receiver, name, ..) in systems {
        let (claimed, whole, polls) = &results[name];
        let figures = latencies(Figures::default(), claimed)
            .number("submit_p50_ms", whole.quantile(0.5))
            .number("submit_p99_ms", whole.quantile(0.99));
        let figures = match receiver {
            Receiver::ByHand => figures,
            _ => figures.number("polls_per_item", *polls as f64 / claimed.len() as f64),
        };
        report.result(TWO, name, figures);
    }
    let (quiet, ..) = &results["reveille, quiet sender"];
    report.target("cross-process wake p50 ms", Goal::AtMost(1.5), quiet.quantile(0.5));
    report.target("cross-process wake p99 ms", Goal::AtMost(5.0), quiet.quantile(0.99));
    Ok(())
}

async fn by_wake(jobs: &Jobs, sender: &mut Sender, count: usize, interval: Duration) -> Result<(Latencies, Latencies)> {
    let mut claims = Claims::start(jobs, 1);
    until_idle(jobs, 1, INTERVAL).await?;
    let sent = sender.send(QUEUE, count, interval).await?;
    let (mut claimed, mut whole) = (Latencies::default(), Latencies::default());
    for (id, sent) in sent {
        let at = claims.of(id).await?;
        claimed.push(since(sent.committed, at));
        whole.push(since(sent.submitted, at));
    }
    drop(claims);
    until_idle(jobs, 0, INTERVAL).await?;
    Ok((claimed, whole))
}

async fn by_hand(
    server: &Server,
    schema: &Schema,
    sender: &mut Sender,
    count: usize,
    interval: Duration,
) -> Result<(Latencies, Latencies)> {
    let mut claimer = ByHand::new(server, schema).await?;
    let mut listener = PgListener::connect(server.url()).await?;
    listener.listen(&reveille_wake::channel_name(schema.name(), "jobs")).await?;
    let claiming = tokio::spawn(async move {
        let mut claimed = HashMap::new();
        while claimed.len() < count {
            listener.recv().await?;
            while let Some(id) = claimer.claim().await? {
                claimed.insert(id, SystemTime::now());
            }
        }
        Ok::<_, sqlx::Error>(claimed)
    });
    let sent = sender.send(QUEUE, count, interval).await?;
    let at = timeout(PATIENCE, claiming).await.map_err(|_| "not all jobs were claimed by hand in time")???;
    let (mut claimed, mut whole) = (Latencies::default(), Latencies::default());
    for (id, sent) in sent {
        let at = *at.get(&id).ok_or("a job was not claimed")?;
        claimed.push(since(sent.committed, at));
        whole.push(since(sent.submitted, at));
    }
    Ok((claimed, whole))
}

/// The time between two events. Zero if the job was claimed before its sender had the response to the commit.
fn since(from: SystemTime, to: SystemTime) -> Duration {
    to.duration_since(from).unwrap_or_default()
}

/// The claim of the job queue without the engine: one connection, one statement.
struct ByHand {
    conn: PgConnection,
    sql: Sql,
}

impl ByHand {
    async fn new(server: &Server, schema: &Schema) -> Result<ByHand> {
        let sql = schema.sql("select id from {schema}.claim($1, 1, $2, false) where id is not null");
        Ok(ByHand { conn: server.connection().await?, sql })
    }

    async fn claim(&mut self) -> sqlx::Result<Option<i64>> {
        let claim = sqlx::query(&self.sql).bind(QUEUE).bind(LEASE.as_millis() as i64);
        let row = claim.fetch_optional(&mut self.conn).await?;
        Ok(row.map(|row| row.get(0)))
    }
}

/// Waiters that claim and complete jobs, and report when they claimed them. Dropping this ends them.
pub(super) struct Claims {
    claimed: mpsc::UnboundedReceiver<(i64, SystemTime)>,
    early: HashMap<i64, SystemTime>,
    _waiters: JoinSet<()>,
}

impl Claims {
    pub(super) fn start(jobs: &Jobs, waiters: usize) -> Claims {
        let (tell, claimed) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for _ in 0..waiters {
            let (jobs, tell) = (jobs.clone(), tell.clone());
            tasks.spawn(async move {
                // Ends when a claim fails. A missing job is reported by `of`.
                while let Ok(Some(job)) = jobs.claim(QUEUE, LEASE, Instant::now() + LEASE).await {
                    if tell.send((job.id, SystemTime::now())).is_err() || jobs.done(QUEUE, &job).await.is_err() {
                        return;
                    }
                }
            });
        }
        Claims { claimed, early: HashMap::new(), _waiters: tasks }
    }

    /// When a job was claimed.
    pub(super) async fn of(&mut self, id: i64) -> Result<SystemTime> {
        loop {
            if let Some(at) = self.early.remove(&id) {
                return Ok(at);
            }
            let claim = timeout(PATIENCE, self.claimed.recv()).await.ok().flatten();
            let (id, at) = claim.ok_or("a job was not claimed in time")?;
            self.early.insert(id, at);
        }
    }
}

/// The queue that [`Claims`] wait on.
pub(super) const CLAIMS_QUEUE: &str = QUEUE;
