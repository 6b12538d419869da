//! Coordinators: what a process does for one namespace. A coordinator runs the namespace's workers, if there are
//! handlers for it, and passes on events.
//!
//! Workers wait for steps by themselves and need no events. Events are for the router and for measuring. They come
//! through a bounded channel and are handled one after the other. If handlers are slower than events, the channel
//! fills, and further events are dropped and counted: a commit never waits for an event handler.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::dedup::Deduplication;
use super::event::TaskReadyEvent;
use super::meter::Meter;
use super::router::EventRouter;
use crate::error::Result;
use crate::flow::Flow;
use crate::namespace::Mode;
use crate::worker::{Worker, WorkerCounts};

/// The most tasks whose events are deduplicated; events of others pass unchanged.
const TASKS_MAX: usize = 10_000;
/// The interval in which events are counted.
const SECOND: Duration = Duration::from_secs(1);
/// How long to sleep if no event is held.
const LONG: Duration = Duration::from_secs(86_400);

/// An event, and when it happened, if that was in this process.
pub(super) type Arrived = (TaskReadyEvent, Option<Instant>);

/// Runs the workers of a namespace and passes on its events.
#[derive(Debug)]
pub struct NamespaceCoordinator {
    namespace: String,
    events: mpsc::Sender<Arrived>,
    worker: Mutex<Option<Pool>>,
    end: Mutex<Option<oneshot::Sender<()>>>,
    run: Mutex<Option<JoinHandle<()>>>,
    meter: Arc<Meter>,
}

/// The workers of a coordinator.
#[derive(Debug)]
struct Pool {
    worker: Worker,
    handlers: Handlers,
}

/// The number of handlers, included in the metric until this is dropped.
#[derive(Debug)]
struct Handlers(usize, Arc<Meter>);

impl Drop for Handlers {
    fn drop(&mut self) {
        self.1.workers.add(-(self.0 as i64));
    }
}

/// The configuration of a coordinator.
pub(super) struct Setting {
    pub(super) flow: Flow,
    pub(super) router: Option<Arc<EventRouter>>,
    pub(super) capacity: usize,
    pub(super) window: Duration,
}

impl NamespaceCoordinator {
    /// Starts a coordinator. `worker`: its worker, and how many handlers may run at a time.
    pub(super) fn start(
        namespace: &str,
        setting: Setting,
        worker: Option<(Worker, usize)>,
    ) -> Arc<NamespaceCoordinator> {
        let meter = setting.flow.inner.meter.clone();
        let (events, arrived) = mpsc::channel(setting.capacity.max(1));
        let (end, ending) = oneshot::channel();
        meter.spawned.add(1);
        meter.active.add(1);
        let running = Running { namespace: namespace.to_owned(), arrived, meter: meter.clone(), counted: None };
        let worker = worker.map(|(worker, handlers)| {
            meter.workers.add(handlers as i64);
            Pool { worker, handlers: Handlers(handlers, meter.clone()) }
        });
        Arc::new(NamespaceCoordinator {
            namespace: namespace.to_owned(),
            events,
            worker: Mutex::new(worker),
            end: Mutex::new(Some(end)),
            run: Mutex::new(Some(tokio::spawn(running.run(setting, ending)))),
            meter,
        })
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether it is running, and its workers, if it has any.
    pub fn is_healthy(&self) -> bool {
        let run = self.run.lock();
        let worker = self.worker.lock();
        run.as_ref().is_some_and(|run| !run.is_finished())
            && worker.as_ref().is_none_or(|pool| pool.worker.is_running())
    }

    /// The counters of its workers; `None`: no handlers are registered for its namespace.
    pub fn worker_counts(&self) -> Option<WorkerCounts> {
        self.worker.lock().as_ref().map(|pool| pool.worker.counts())
    }

    /// The most concurrent handlers of its workers.
    pub fn worker_count(&self) -> usize {
        self.worker.lock().as_ref().map_or(0, |pool| pool.handlers.0)
    }

    /// The number of waiting events.
    pub fn queue_depth(&self) -> usize {
        self.events.max_capacity() - self.events.capacity()
    }

    /// Adds an event without waiting. If the channel is full, the event is dropped and counted.
    pub(super) fn offer(&self, event: TaskReadyEvent, at: Option<Instant>) {
        self.meter.received(event.source);
        self.meter.depth.add(1);
        if let Err(TrySendError::Full(_) | TrySendError::Closed(_)) = self.events.try_send((event, at)) {
            self.meter.depth.add(-1);
            self.meter.failed.add(1);
        }
    }

    /// Stops: events and steps are processed for the grace period; then the workers release the remaining steps.
    pub(super) async fn stop(&self, grace: Duration) {
        let (pool, end, run) = {
            let pool = self.worker.lock().take();
            let end = self.end.lock().take();
            let run = self.run.lock().take();
            (pool, end, run)
        };
        drop(end);
        let worker = async {
            if let Some(pool) = pool {
                pool.worker.stop(grace).await;
            }
        };
        let run = async {
            let Some(mut run) = run else { return };
            if timeout(grace, &mut run).await.is_err() {
                run.abort();
                let _ = run.await;
            }
        };
        tokio::join!(worker, run);
    }
}

/// The state of the tokio task of a coordinator.
struct Running {
    namespace: String,
    arrived: mpsc::Receiver<Arrived>,
    meter: Arc<Meter>,
    /// The start of the counting interval, and the events since then.
    counted: Option<(Instant, u64)>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.meter.depth.add(-(self.arrived.len() as i64));
        self.meter.active.add(-1);
    }
}

impl Running {
    /// Handles events until the coordinator is stopped and none are left.
    async fn run(mut self, setting: Setting, mut ending: oneshot::Receiver<()>) {
        let mut recent = Deduplication::new(setting.window, TASKS_MAX);
        let mut open = true;
        loop {
            let alarm = recent.next().unwrap_or_else(|| Instant::now() + LONG);
            let events = tokio::select! {
                biased;
                _ = &mut ending, if open => {
                    open = false;
                    self.arrived.close();
                    continue;
                }
                arrived = self.arrived.recv() => match arrived {
                    Some((event, at)) => {
                        self.meter.depth.add(-1);
                        let now = Instant::now();
                        at.into_iter().for_each(|at| self.meter.lag(now - at));
                        let before = recent.dropped();
                        let event = recent.offer(event, now);
                        self.meter.deduplicated.add(recent.dropped() - before);
                        event.into_iter().collect()
                    }
                    None => {
                        for event in recent.rest() {
                            self.handle(event, &setting).await;
                        }
                        return;
                    }
                },
                () = sleep_until(alarm) => recent.due(Instant::now()),
            };
            for event in events {
                self.handle(event, &setting).await;
            }
        }
    }

    async fn handle(&mut self, event: TaskReadyEvent, setting: &Setting) {
        self.count(Instant::now());
        let shadow = setting.flow.inner.mode_of(&self.namespace) == Some(Mode::Shadow);
        let task = event.task_uuid;
        // In shadow mode events are measured and not routed.
        let routed = match &setting.router {
            Some(router) if !shadow => AssertUnwindSafe(router.route(event)).catch_unwind().await,
            _ => Ok(Ok(())),
        };
        let reason = match routed {
            Ok(Ok(())) => return self.meter.processed.add(1),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the handler panicked".to_owned(),
        };
        self.meter.failed.add(1);
        tracing::warn!(namespace = self.namespace, %task, reason, "an event handler failed");
    }

    fn count(&mut self, now: Instant) {
        match &mut self.counted {
            Some((since, events)) if now < *since + SECOND => *events += 1,
            counted => {
                if let Some((_, events)) = counted.replace((now, 1)) {
                    self.meter.throughput(events);
                }
            }
        }
    }
}

/// Starts the worker of a namespace, if a pool has handlers for it.
pub(super) fn start_worker(
    flow: &Flow,
    namespace: &str,
    pools: &[super::WorkerPool],
) -> Result<Option<(Worker, usize)>> {
    let Some(pool) = pools.iter().find(|pool| pool.namespaces.matches(namespace)) else { return Ok(None) };
    let worker = flow
        .worker(format!("{}@{namespace}", pool.name))
        .namespace(namespace)
        .concurrency(pool.concurrency)
        .handlers(pool.handlers.clone())
        .start()?;
    Ok(Some((worker, pool.concurrency)))
}
