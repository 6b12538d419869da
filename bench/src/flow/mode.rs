//! Polling compared with waking, in one, two and four namespaces of one process: the latency and throughput of tasks,
//! and the polls while there is no work.

use std::sync::Arc;
use std::time::Duration;

use reveille_flow::{Flow, Mode, NamespaceChange};
use tasks::{Engine as _, Latencies, Outcome, Progress, Round, Shape};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::arena::{Arena, line};
use super::contender::{Entry, Library};
use super::library::{self, telling};
use super::piece::Piece;
use super::template::text;
use crate::Result;
use crate::comparison::{Comparison, compare};
use crate::meter::Meter;
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const TITLE: &str = "polling and waking";
const NAMESPACES: [usize; 3] = [1, 2, 4];
/// The pause between two polls.
const POLL_MS: u32 = 1_000;
/// Concurrent tasks in each namespace.
const CONCURRENT: usize = 4;
/// The longest time of a task. Polled tasks take several seconds, and the round waits for those in progress at its end.
const TASK: Duration = Duration::from_secs(30);
/// After this long without tasks, the polls that follow a task have ended.
const IDLE_AFTER: Duration = Duration::from_secs(3);
/// Statements that poll for steps.
const POLLS: [&str; 2] = ["claim_steps", "due_namespaces"];

/// Measures Reveille with polling and with waking.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let seconds = arena.choose(5, 20);
    let mut entries = Vec::new();
    for namespaces in NAMESPACES {
        for polling in [true, false] {
            let workload = Piece::Mode { namespaces, polling, seconds };
            entries.push(Entry { title: title(namespaces, polling), contender: Library, workload });
        }
    }
    let play = async |entry: &Entry| {
        let mut round = arena.prepare(entry.contender, &entry.workload).await?;
        let meter = Meter::start(arena.server).await?;
        let outcome: Outcome = round.player.play().await?;
        let polls = meter.statements_with(&POLLS).await? / outcome.figure("tasks");
        sleep(IDLE_AFTER).await;
        let meter = Meter::start(arena.server).await?;
        round.player.play::<Outcome>().await?;
        let idle = meter.statements_with(&POLLS).await? / seconds as f64;
        round.end().await?;
        let mut line = line(&outcome, &["tasks_per_s", "p50_ms", "p99_ms", "tasks", "empty_looks_per_task"]);
        line.extend([("looks_per_task", polls), ("idle_looks_per_s", idle)]);
        Ok(line)
    };
    let comparison = Comparison::run(entries, arena.rounds(1, 3), play).await;
    comparison.report(report);
    for namespaces in NAMESPACES {
        let figure = |polling, name| comparison.rounds(&title(namespaces, polling), Library, name);
        let of = format!("{TITLE}, {namespaces} namespaces");
        let faster = figure(false, "tasks_per_s").over(&figure(true, "tasks_per_s"));
        compare(report, &of, "throughput over polling", Goal::AtLeast(10.0), &faster);
        let fewer = figure(false, "idle_looks_per_s").over(&figure(true, "idle_looks_per_s"));
        compare(report, &of, "idle looks over polling", Goal::AtMost(0.1), &fewer);
    }
    Ok(())
}

fn title(namespaces: usize, polling: bool) -> String {
    let how = if polling { "polling every second" } else { "event driven" };
    let names = if namespaces == 1 { "1 namespace".to_owned() } else { format!("{namespaces} namespaces") };
    format!("{TITLE}, {names}, {how}")
}

/// One process with all namespaces.
pub(super) struct Modes {
    flow: Flow,
    engines: Vec<library::Library>,
    seconds: usize,
    /// Whether the next measurement is without tasks. The first one is with tasks.
    is_idle: bool,
}

impl Modes {
    pub(super) async fn start(flow: Flow, namespaces: usize, polling: bool, seconds: usize) -> Result<Modes> {
        let names: Vec<String> = (0..namespaces).map(|number| format!("namespace-{number}")).collect();
        let mode = if polling { Mode::Polling } else { Mode::EventDriven };
        let change = NamespaceChange { mode: Some(mode), poll_ms: Some(POLL_MS), ..NamespaceChange::default() };
        let progress = Arc::new(Progress::default());
        let mut workers = Vec::new();
        for name in &names {
            flow.put_namespace(name, &change).await?;
            flow.register(&text(Shape::Chain, name)).await?;
            workers.push(telling(flow.worker(name.as_str()).namespace(name.as_str()), &progress).start()?);
        }
        let engine = library::Library::with(flow.clone(), "", workers);
        let engines: Vec<library::Library> = names.iter().map(|name| engine.within(name)).collect();
        for engine in &engines {
            engine.done(engine.submit().await?).await?;
        }
        Ok(Modes { flow, engines, seconds, is_idle: false })
    }

    async fn load(&self) -> Result<Outcome> {
        let before = self.flow.claims();
        let begun = Instant::now();
        let until = begun + Duration::from_secs(self.seconds as u64);
        let mut submitters = JoinSet::new();
        for engine in self.engines.iter().flat_map(|engine| std::iter::repeat_n(engine, CONCURRENT)) {
            let engine = engine.clone();
            submitters.spawn(async move {
                let mut latencies = Vec::new();
                while Instant::now() < until {
                    let begun = Instant::now();
                    let task = engine.submit().await?;
                    timeout_at(begun + TASK, engine.done(task)).await??;
                    latencies.push(begun.elapsed());
                }
                Ok::<_, crate::Failure>(latencies)
            });
        }
        let mut latencies = Vec::new();
        while let Some(done) = submitters.join_next().await {
            latencies.extend(done??);
        }
        let took = begun.elapsed().as_secs_f64();
        let (tasks, counts) = (latencies.len() as f64, self.flow.claims());
        let mut outcome = Outcome::latencies(&Latencies::of(latencies));
        let empty = (counts.empty_polls - before.empty_polls) as f64;
        let more = [("tasks_per_s", tasks / took), ("tasks", tasks), ("empty_looks_per_task", empty / tasks)];
        outcome.figures.extend(more.map(|(name, figure)| (name.to_owned(), figure)));
        Ok(outcome)
    }
}

impl Round for Modes {
    async fn measure(&mut self) -> Result<Outcome> {
        if std::mem::replace(&mut self.is_idle, true) {
            sleep(Duration::from_secs(self.seconds as u64)).await;
            return Ok(Outcome::default());
        }
        self.load().await
    }
}
