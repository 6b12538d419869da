//! Orchestration by events: what a process does by itself for tasks and namespaces, whether or not workers are connected to it.
//!
//! [`EventDrivenOrchestrator`] frees what workers that died have left behind, deals with tasks that take too long and submits what is scheduled. It has one [`NamespaceCoordinator`] for each namespace, from the moment the namespace is
//! made, in whatever process: a coordinator runs the workers of its namespace, if handlers are registered for it ([`WorkerPool`]), and hands events of ready tasks to whoever routes them ([`EventRouter`]).
//!
//! **Claiming needs no events.** Workers wait by the wake engine, which rings them when something is committed, and which nothing here can delay or lose. Events are beside that: for routing, for measuring and for listeners outside
//! (`announce.rs`). They are read only of namespaces that somebody wants to hear of, so without any they cost nothing.
//!
//! **How steps are claimed** is a setting of each namespace in the database ([`crate::Mode`]), of all at once by [`Flow::set_mode`].

mod announce;
mod breaker;
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

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

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
pub(crate) use meter::{Meter, count_reported};
pub(crate) use poller::Waiting;
pub(crate) use task_events::{Cause, News, run as tell_news};

use crate::claim::unanswered::locked;
use crate::error::Result;
use crate::flow::Flow;
use crate::namespace;
use crate::provider::publish::Publishing;
use crate::task::orchestrator::attend_all;
use coordination::Coordination;

/// Does what nobody else does, until it is shut down or dropped. One per process is enough; several do not disturb each other.
pub struct EventDrivenOrchestrator {
    shared: Arc<Coordination>,
    started: Mutex<Option<Started>>,
}

/// What it has running.
struct Started {
    tasks: Vec<JoinHandle<()>>,
    /// Sends steps through the queues that namespaces have beside the tables.
    publishing: Publishing,
}

impl EventDrivenOrchestrator {
    /// One that has not started.
    pub fn new(flow: &Flow, config: OrchestrationConfig) -> EventDrivenOrchestrator {
        EventDrivenOrchestrator { shared: Arc::new(Coordination::new(flow, config)), started: Mutex::default() }
    }

    /// Starts it, unless it has started, or was shut down. Returns at once: what needs the database waits for it by itself.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(&self) {
        let mut started = locked(&self.started);
        let shared = &self.shared;
        if started.is_some() || shared.is_stopped() {
            return;
        }
        shared.flow.inner.news.attach(shared, shared.router.is_some());
        let mut tasks = Vec::from(attend_all(&shared.flow));
        tasks.push(tokio::spawn(supervise(shared.clone())));
        if shared.config.fallback_enabled {
            tasks.push(tokio::spawn(FallbackPoller::new(shared.clone()).run()));
        }
        *started = Some(Started { tasks, publishing: Publishing::start(&shared.flow) });
    }

    /// Stops for good: handlers may go on for as long as the config says, and what is not done by then is given back. Returns when it has, and when whatever was being sent through another queue is on its way
    /// back: [`Flow::close`] waits for that.
    pub async fn shutdown(&self) {
        self.shared.refuse();
        let started = self.leave();
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

    /// All coordinators.
    pub fn coordinators(&self) -> Vec<Arc<NamespaceCoordinator>> {
        self.shared.coordinators()
    }

    /// Stops the coordinator of a namespace, if it has one, as [`shutdown`](Self::shutdown) does, and starts it again. Nothing is lost: steps are in the database.
    pub async fn restart_coordinator(&self, namespace: &str) -> Option<Arc<NamespaceCoordinator>> {
        self.shared.stop(namespace).await;
        self.shared.coordinator(namespace)
    }

    /// Sets how the steps of all namespaces are claimed: see [`Flow::set_mode`].
    ///
    /// # Errors
    /// The same.
    pub async fn set_mode(&self, mode: &OrchestrationMode) -> Result<()> {
        self.shared.flow.set_mode(mode).await
    }

    /// What was counted.
    pub fn metrics(&self) -> EventDrivenMetrics {
        self.shared.flow.event_metrics()
    }

    /// How it is doing. Asks the database nothing.
    pub fn check(&self) -> HealthStatus {
        self.shared.check()
    }

    /// Takes what it has running: it hears of nothing any more.
    fn leave(&self) -> Option<Started> {
        let started = locked(&self.started).take();
        if started.is_some() {
            self.shared.flow.inner.news.detach(self.shared.router.is_some());
        }
        started
    }
}

impl Drop for EventDrivenOrchestrator {
    fn drop(&mut self) {
        if let Some(started) = self.leave() {
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
    /// Starts to do what nobody else does: to free what workers that died have left behind, to deal with tasks that take too long, to submit what is scheduled, and to look for what nobody heard of. More can be asked for by
    /// [`EventDrivenOrchestrator::new`], which this is with the default config.
    pub fn orchestrate(&self) -> EventDrivenOrchestrator {
        let orchestrator = EventDrivenOrchestrator::new(self, OrchestrationConfig::default());
        orchestrator.start();
        orchestrator
    }

    /// What this flow has counted about events and claims, by whichever orchestrator and whoever claims.
    pub fn event_metrics(&self) -> EventDrivenMetrics {
        self.inner.meter.snapshot()
    }
}

/// Starts a coordinator for every namespace as soon as it is there, and listens while there is something to hear.
async fn supervise(shared: Arc<Coordination>) {
    for name in &shared.config.spawn_ahead {
        shared.coordinator(name);
    }
    let inner = &shared.flow.inner;
    let mut known = inner.namespaces_at_last().await;
    let mut line = JoinSet::new();
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
            line.shutdown().await;
        } else if line.is_empty() {
            line.spawn(listener::run(shared.clone()));
        }
        if known.changed().await.is_err() {
            return;
        }
    }
}
