//! Orchestration: what a process does for tasks and namespaces by itself, with or without workers.
//!
//! [`EventDrivenOrchestrator`] ends last attempts whose leases ended, acts on tasks that exceed a time limit, submits
//! scheduled tasks, and sends steps to queues. It has one [`NamespaceCoordinator`] per namespace, from the creation of
//! the namespace by any process. A coordinator runs the workers of its namespace, if handlers are registered for it
//! ([`WorkerPool`]), and passes events of ready tasks to the [`EventRouter`].
//!
//! **Claiming needs no events.** Workers wait on the wake engine, which nothing here can delay. Events are for routing,
//! for measuring and for outside listeners (`announce.rs`). They are queried only for namespaces that use them, so
//! without any they cost nothing.
//!
//! **How steps are claimed** is a setting of each namespace ([`crate::Mode`]); [`Flow::set_mode`] sets all at once.

mod announce;
mod breaker;
pub(crate) mod change_watch;
mod config;
mod coordination;
mod coordinator;
mod dedup;
mod event;
mod health;
mod listener;
mod meter;
mod mode;
mod poller;
mod router;
mod task_events;
mod view;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use reveille_wake::ListenerState;
use tokio::task::{JoinHandle, JoinSet};

pub(crate) use announce::DEFAULT_SCHEMA;
pub use announce::outside_channel;
pub use breaker::{BreakerState, CircuitBreaker};
pub use config::{OrchestrationConfig, WorkerPool};
pub use coordinator::NamespaceCoordinator;
pub use dedup::Deduplication;
pub use event::{EventSource, TaskReadyEvent};
pub use health::{HealthCheck, HealthStatus};
pub use meter::{EventDrivenMetrics, METRICS};
pub use mode::{Mode, OrchestrationMode};
pub use poller::FallbackPoller;
pub use router::{EventHandler, EventRouter, Failed, NamespacePattern, RoutingRule};
pub use view::{Orchestration, RoutingRuleView};

pub(crate) use announce::NAMESPACE_CREATED;
pub(crate) use meter::{Meter, count_failed_report, count_reported};
pub(crate) use poller::WaitingClaims;
pub(crate) use task_events::{Cause, TaskEvents, run as publish_task_events};

use crate::error::Result;
use crate::flow::Flow;
use crate::namespace;
use crate::provider::publish::Publishing;
use crate::task::orchestrator::maintain;
use coordination::Coordination;

/// Does the engine's own work until it is shut down or dropped. One per process is enough; several do no harm.
pub struct EventDrivenOrchestrator {
    shared: Arc<Coordination>,
    started: Mutex<Option<Started>>,
}

/// The running tokio tasks.
struct Started {
    tasks: Vec<JoinHandle<()>>,
    /// Sends steps to the queues of namespaces.
    publishing: Publishing,
}

impl EventDrivenOrchestrator {
    /// A new orchestrator, not started yet.
    pub fn new(flow: &Flow, config: OrchestrationConfig) -> EventDrivenOrchestrator {
        EventDrivenOrchestrator { shared: Arc::new(Coordination::new(flow, config)), started: Mutex::default() }
    }

    /// Starts it, unless it has started or was shut down. Returns at once; if the database is unavailable, it keeps
    /// trying.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(&self) {
        let mut started = self.started.lock();
        let shared = &self.shared;
        if started.is_some() || shared.is_stopped() {
            return;
        }
        shared.flow.inner.task_events.attach(shared, shared.router.is_some());
        let mut tasks = Vec::from(maintain(&shared.flow));
        tasks.push(tokio::spawn(supervise(shared.clone())));
        if shared.config.fallback_enabled {
            tasks.push(tokio::spawn(FallbackPoller::new(shared.clone()).run()));
        }
        *started = Some(Started { tasks, publishing: Publishing::start(&shared.flow) });
    }

    /// Stops it permanently. Handlers may continue for the configured grace period; then their steps are released.
    /// Returns when they are, and when steps that were about to be sent to a queue are being released: [`Flow::close`]
    /// waits for that.
    pub async fn shutdown(&self) {
        self.shared.mark_stopped();
        let started = self.take_started();
        if let Some(Started { tasks, publishing }) = started {
            for task in tasks {
                task.abort();
                let _ = task.await;
            }
            publishing.stop().await;
        }
        self.shared.stop_all().await;
    }

    /// The coordinator of a namespace, if it has one.
    pub fn coordinator(&self, namespace: &str) -> Option<Arc<NamespaceCoordinator>> {
        self.shared.find(namespace)
    }

    /// The running coordinators.
    pub fn coordinators(&self) -> Vec<Arc<NamespaceCoordinator>> {
        self.shared.coordinators()
    }

    /// Stops the coordinator of a namespace, if there is one, as [`shutdown`](Self::shutdown) does, and starts a new
    /// one. No step is lost: steps are in the database.
    pub async fn restart_coordinator(&self, namespace: &str) -> Option<Arc<NamespaceCoordinator>> {
        self.shared.stop(namespace).await;
        self.shared.coordinator(namespace)
    }

    /// Sets the mode of all namespaces: see [`Flow::set_mode`].
    ///
    /// # Errors
    /// Those of [`Flow::set_mode`].
    pub async fn set_mode(&self, mode: &OrchestrationMode) -> Result<()> {
        self.shared.flow.set_mode(mode).await
    }

    /// The counters.
    pub fn metrics(&self) -> EventDrivenMetrics {
        self.shared.flow.event_metrics()
    }

    /// Its health. Sends no query.
    pub fn check(&self) -> HealthStatus {
        self.shared.check()
    }

    /// Takes the running tasks, and unsubscribes from task events.
    fn take_started(&self) -> Option<Started> {
        let started = self.started.lock().take();
        if started.is_some() {
            self.shared.flow.inner.task_events.detach(self.shared.router.is_some());
        }
        started
    }
}

impl Drop for EventDrivenOrchestrator {
    fn drop(&mut self) {
        if let Some(started) = self.take_started() {
            started.tasks.iter().for_each(JoinHandle::abort);
        }
        self.shared.close();
    }
}

impl std::fmt::Debug for EventDrivenOrchestrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventDrivenOrchestrator").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl Flow {
    /// Starts an orchestrator with the default configuration: see [`EventDrivenOrchestrator`].
    pub fn orchestrate(&self) -> EventDrivenOrchestrator {
        let orchestrator = EventDrivenOrchestrator::new(self, OrchestrationConfig::default());
        orchestrator.start();
        orchestrator
    }

    /// The counters of events and claims of this flow, over all orchestrators and claims.
    pub fn event_metrics(&self) -> EventDrivenMetrics {
        self.inner.meter.snapshot()
    }
}

/// Starts a coordinator for every namespace as soon as it exists, and runs the listener while its events are used.
async fn supervise(shared: Arc<Coordination>) {
    for name in &shared.config.spawn_early {
        shared.coordinator(name);
    }
    let inner = &shared.flow.inner;
    let mut known = inner.wait_for_namespaces().await;
    let mut listener = JoinSet::new();
    loop {
        let (names, listens) = {
            let all = known.borrow_and_update();
            let shadow = all.values().any(|one| one.settings.mode == namespace::Mode::Shadow);
            let announced = all.values().any(task_events::is_announced);
            let wanted = announced && (shadow || shared.router.is_some());
            (all.keys().cloned().collect::<Vec<_>>(), wanted)
        };
        let possible = inner.db.can_listen() && inner.wake.health().listener != ListenerState::Off;
        shared.listens.store(listens && possible, Relaxed);
        for name in names {
            shared.coordinator(&name);
        }
        if !(listens && possible) {
            listener.shutdown().await;
        } else if listener.is_empty() {
            listener.spawn(listener::run(shared.clone()));
        }
        if known.changed().await.is_err() {
            return;
        }
    }
}
