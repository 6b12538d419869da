//! What the tasks of one orchestrator have in common.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::breaker::{BreakerState, CircuitBreaker};
use super::config::OrchestrationConfig;
use super::coordinator::{NamespaceCoordinator, Setting, start_worker};
use super::event::TaskReadyEvent;
use super::router::EventRouter;
use crate::flow::Flow;

/// Coordinators at most: each is a task and a channel.
const COORDINATORS_MAX: usize = 10_000;

pub(crate) struct Coordination {
    pub(super) flow: Flow,
    pub(super) config: OrchestrationConfig,
    pub(super) router: Option<Arc<EventRouter>>,
    coordinators: Mutex<HashMap<String, Arc<NamespaceCoordinator>>>,
    pub(super) breaker: Mutex<CircuitBreaker>,
    /// Whether it wants to hear what is announced, and whether it does.
    pub(super) listens: AtomicBool,
    pub(super) hears: AtomicBool,
    stopped: AtomicBool,
}

impl Coordination {
    pub(super) fn new(flow: &Flow, mut config: OrchestrationConfig) -> Coordination {
        Coordination {
            flow: flow.clone(),
            router: config.router.take().map(Arc::new),
            coordinators: Mutex::default(),
            breaker: Mutex::new(CircuitBreaker::new(config.fallback_failures_max, config.fallback_pause)),
            listens: AtomicBool::new(false),
            hears: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            config,
        }
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.hears.load(Relaxed)
    }

    pub(super) fn breaker_state(&self) -> BreakerState {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner).state()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<NamespaceCoordinator>>> {
        self.coordinators.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, namespace: &str) -> Option<Arc<NamespaceCoordinator>> {
        self.all().get(namespace).cloned()
    }

    pub(super) fn coordinators(&self) -> Vec<Arc<NamespaceCoordinator>> {
        self.all().values().cloned().collect()
    }

    /// The coordinator of a namespace; it is started if there is none. `None`: there are too many, its workers could not be started, or everything has stopped; the log tells.
    pub(super) fn coordinator(&self, namespace: &str) -> Option<Arc<NamespaceCoordinator>> {
        let mut all = self.all();
        if let Some(coordinator) = all.get(namespace) {
            return Some(coordinator.clone());
        }
        if self.stopped.load(Relaxed) {
            return None;
        }
        if all.len() >= COORDINATORS_MAX {
            tracing::warn!(namespace, "there are {COORDINATORS_MAX} coordinators: this namespace gets none");
            return None;
        }
        let worker = match start_worker(&self.flow, namespace, &self.config.pools) {
            Ok(worker) => worker,
            Err(error) => {
                tracing::warn!(
                    namespace,
                    error = reveille_pg::causes(&error),
                    "the workers of a namespace could not be started"
                );
                return None;
            }
        };
        let setting = Setting {
            flow: self.flow.clone(),
            router: self.router.clone(),
            capacity: self.config.channel_capacity,
            window: self.config.deduplication_window,
        };
        let coordinator = NamespaceCoordinator::start(namespace, setting, worker);
        all.insert(namespace.to_owned(), coordinator.clone());
        Some(coordinator)
    }

    /// An event for the coordinator of its namespace.
    pub(crate) fn offer(&self, event: TaskReadyEvent, at: Option<Instant>) {
        match self.coordinator(&event.namespace) {
            Some(coordinator) => coordinator.offer(event, at),
            None => self.flow.inner.meter.failed.add(1),
        }
    }

    /// Stops the coordinator of a namespace.
    pub(super) async fn stop(&self, namespace: &str) {
        let coordinator = self.all().remove(namespace);
        if let Some(coordinator) = coordinator {
            coordinator.stop(self.config.grace).await;
        }
    }

    /// Stops all of them, side by side; none is started any more.
    pub(super) async fn stop_all(&self) {
        self.refuse();
        let all: Vec<_> = self.all().drain().map(|(_, coordinator)| coordinator).collect();
        futures_util::future::join_all(all.iter().map(|coordinator| coordinator.stop(self.config.grace))).await;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// None is started any more, and nothing else.
    pub(super) fn refuse(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// None is started any more.
    pub(super) fn close(&self) {
        self.refuse();
        self.all().clear();
    }
}
