//! Recovery: a worker process is killed while it holds steps. Measures how long another process takes to complete them.

use std::sync::Arc;
use std::time::Duration;

use reveille_flow::{EventDrivenOrchestrator, Failure, Flow, Step, Submission, Worker};
use serde_json::Value;
use tasks::{Outcome, Progress, Round, Shape};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::arena::Arena;
use super::contender::{Entry, Library};
use super::library::telling;
use super::piece::Piece;
use super::template::{LAST, NAME, NAMESPACE, VERSION, context, text};
use crate::Result;
use crate::comparison::Comparison;
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const TITLE: &str = "recovery after a kill";
const TASKS: usize = 500;
const LEASE: Duration = Duration::from_secs(2);
/// The time between claim and kill, in which several heartbeats are sent.
const HELD: Duration = Duration::from_millis(1_300);
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures Reveille.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let hold = Piece::Hold { tasks: TASKS, lease_ms: LEASE.as_millis() as u64 };
    let entries = vec![Entry { title: TITLE.into(), contender: Library, workload: hold }];
    let play = async |entry: &Entry| {
        let mut holds = arena.prepare(entry.contender, &entry.workload).await?;
        holds.player.play::<Outcome>().await?;
        let mut rescue = arena.beside(&holds, &Piece::Rescue { tasks: TASKS }).await?;
        sleep(HELD).await;
        holds.player.kill().await?;
        let rescued: Outcome = rescue.play().await?;
        rescue.end().await?;
        arena.server.remove(&holds.schema).await?;
        Ok(vec![
            ("all_done_s", rescued.figure("seconds")),
            ("first_done_s", rescued.figure("first_seconds")),
            ("lease_s", LEASE.as_secs_f64()),
            ("steps", TASKS as f64),
            ("lost", TASKS as f64 - rescued.figure("done")),
        ])
    };
    let comparison = Comparison::run(entries, arena.rounds(1, 3), play).await;
    comparison.report(report);
    let figure = |name| comparison.rounds(TITLE, Library, name).median();
    report.target("recovery: s beyond the lease", Goal::AtMost(1.0), figure("all_done_s") - LEASE.as_secs_f64());
    report.target("recovery: tasks lost in a restart", Goal::AtMost(0.0), figure("lost"));
    Ok(())
}

/// A worker whose handlers never end.
pub(super) struct Holds {
    flow: Flow,
    tasks: usize,
    held: Arc<Semaphore>,
    _worker: Worker,
}

impl Holds {
    pub(super) async fn start(flow: Flow, tasks: usize, lease_ms: u64) -> Result<Holds> {
        flow.register(&text(Shape::Single, NAMESPACE)).await?;
        let held = Arc::new(Semaphore::new(0));
        let hold = held.clone();
        let handler = move |_: Step<Value>| {
            hold.add_permits(1);
            std::future::pending::<std::result::Result<bool, Failure>>()
        };
        let worker = flow.worker("doomed").namespace(NAMESPACE).lease(Duration::from_millis(lease_ms));
        let _worker = worker.concurrency(tasks).handle(LAST, handler).start()?;
        Ok(Holds { flow, tasks, held, _worker })
    }
}

impl Round for Holds {
    async fn measure(&mut self) -> Result<Outcome> {
        for _ in 0..self.tasks {
            self.flow.submit(Submission::new(NAMESPACE, NAME, VERSION, context())).await?;
        }
        drop(self.held.acquire_many(self.tasks as u32).await?);
        Ok(Outcome::of([("held", self.tasks as f64)]))
    }
}

/// The worker that completes the steps of the killed one.
pub(super) struct Rescues {
    tasks: usize,
    progress: Arc<Progress>,
    _running: (EventDrivenOrchestrator, Worker),
}

impl Rescues {
    pub(super) async fn start(flow: Flow, tasks: usize) -> Result<Rescues> {
        let progress = Arc::new(Progress::default());
        let worker = telling(flow.worker("rescuer").namespace(NAMESPACE).concurrency(64), &progress).start()?;
        Ok(Rescues { tasks, progress, _running: (flow.orchestrate(), worker) })
    }
}

impl Round for Rescues {
    async fn measure(&mut self) -> Result<Outcome> {
        let begun = Instant::now();
        // If tasks are lost, this times out, and the number of completed tasks shows it.
        let first = timeout(PATIENCE, self.progress.reach(1)).await.map(|_| begun.elapsed());
        let _ = timeout(PATIENCE, self.progress.reach(self.tasks as u64)).await;
        let seconds = begun.elapsed().as_secs_f64();
        let first = first.unwrap_or(PATIENCE).as_secs_f64();
        Ok(Outcome::of([
            ("seconds", seconds),
            ("first_seconds", first),
            ("done", self.progress.tasks().min(self.tasks as u64) as f64),
        ]))
    }
}
