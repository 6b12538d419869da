//! Growth of the cost of a step with the number of steps that wait.

use std::sync::Arc;

use reveille_flow::{EventDrivenOrchestrator, Flow, Submission, Worker};
use tasks::{Outcome, Progress, Round, Shape};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::arena::{Arena, line};
use super::contender::{Entry, Library};
use super::library::telling;
use super::piece::Piece;
use super::template::{NAME, NAMESPACE, VERSION, context, text};
use crate::comparison::Comparison;
use crate::growth::{conclude, title};
use crate::report::Report;
use crate::{Result, Run};

const STEPS: &str = "growth, flow steps";
/// Calls that submit at the same time.
const SUBMITTERS: usize = 64;
/// Steps that run at the same time.
const SLOTS: usize = 64;

/// Measures all sizes.
pub(super) async fn run(arena: &Arena<'_>, run: &Run, report: &mut Report) -> Result<()> {
    if !run.begins(STEPS) {
        return Ok(());
    }
    let sizes = arena.choose(&[1_000, 10_000][..], &[1_000, 10_000, 100_000]);
    // Fewer than the smallest backlog, so that it does not end.
    let tasks = 900;
    let entry = |&backlog: &usize| {
        let workload = Piece::Backlog { backlog, tasks };
        Entry { title: title(STEPS, backlog), contender: Library, workload }
    };
    let play = async |entry: &Entry| {
        let played = arena.play(entry.contender, &entry.workload).await?;
        let each = played.cost.per(tasks as f64);
        let mut line = line(&played.outcome, &["submit_us", "run_us"]);
        line.extend([
            ("statements_each", each.statements),
            ("wal_bytes_each", each.wal_bytes),
            ("database_cpu_us", 1_000_000.0 * played.processor / tasks as f64),
        ]);
        Ok(line)
    };
    let comparison = Comparison::run(sizes.iter().map(entry).collect(), arena.rounds(1, 3), play).await;
    conclude(&comparison, STEPS, Library, sizes, &["submit_us", "run_us", "database_cpu_us"], report);
    Ok(())
}

/// Tasks of one step that wait for a worker.
pub(super) struct Backlog {
    flow: Flow,
    tasks: usize,
    running: Option<(EventDrivenOrchestrator, Worker)>,
}

impl Backlog {
    pub(super) async fn start(flow: Flow, backlog: usize, tasks: usize) -> Result<Backlog> {
        flow.register(&text(Shape::Single, NAMESPACE)).await?;
        let waiting = Backlog { flow, tasks, running: None };
        waiting.submit(backlog).await?;
        Ok(waiting)
    }

    async fn submit(&self, tasks: usize) -> Result<()> {
        let mut submitters = JoinSet::new();
        for number in 0..SUBMITTERS {
            let flow = self.flow.clone();
            submitters.spawn(async move {
                for _ in (number..tasks).step_by(SUBMITTERS) {
                    flow.submit(Submission::new(NAMESPACE, NAME, VERSION, context())).await?;
                }
                Result::Ok(())
            });
        }
        submitters.join_all().await.into_iter().collect()
    }
}

impl Round for Backlog {
    async fn measure(&mut self) -> Result<Outcome> {
        let us = |begun: Instant| 1_000_000.0 * begun.elapsed().as_secs_f64() / self.tasks as f64;
        let begun = Instant::now();
        self.submit(self.tasks).await?;
        let submit_us = us(begun);
        let progress = Arc::new(Progress::default());
        let begun = Instant::now();
        let worker = telling(self.flow.worker("runner").namespace(NAMESPACE).concurrency(SLOTS), &progress).start()?;
        let running = (self.flow.orchestrate(), worker);
        progress.reach(self.tasks as u64).await?;
        let run_us = us(begun);
        self.running = Some(running);
        Ok(Outcome::of([("submit_us", submit_us), ("run_us", run_us)]))
    }
}
