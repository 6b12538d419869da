//! The shared state of the tokio tasks of an orchestrator.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::breaker::{BreakerState, CircuitBreaker};
use super::config::OrchestrationConfig;
use super::coordinator::{NamespaceCoordinator, Setting, start_worker};
use super::event::TaskReadyEvent;
use super::router::EventRouter;
use crate::flow::Flow;

/// The most coordinators: each is a tokio task and a channel.
const COORDINATORS_MAX: usize = 10_000;

pub(crate) struct Coordination {
    pub(super) flow: Flow,
    pub(super) config: OrchestrationConfig,
    pub(super) router: Option<Arc<EventRouter>>,
    coordinators: Mutex<HashMap<String, Arc<NamespaceCoordinator>>>,
    pub(super) breaker: Mutex<CircuitBreaker>,
    /// Whether announcements are to be received, and whether the listener is connected.
    pub(super) listens: AtomicBool,
    pub(super) connected: AtomicBool,
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
            connected: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            config,
        }
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.connected.load(Relaxed)
    }

    pub(super) fn breaker_state(&self) -> BreakerState {
        self.breaker.lock().state()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<NamespaceCoordinator>>> {
        self.coordinators.lock()
    }

    pub(super) fn find(&self, namespace: &str) -> Option<Arc<NamespaceCoordinator>> {
        self.all().get(namespace).cloned()
    }

    pub(super) fn coordinators(&self) -> Vec<Arc<NamespaceCoordinator>> {
        self.all().values().cloned().collect()
    }

    /// The coordinator of a namespace; it is started if there is none. `None`: there are too many, its workers could
    /// not be started, which is logged, or the orchestrator has stopped.
    pub(super) fn coordinator(&self, namespace: &str) -> Option<Arc<NamespaceCoordinator>> {
        let mut all = self.all();
        if let Some(coordinator) = all.get(namespace) {
            return Some(coordinator.clone());
        }
        if self.stopped.load(Relaxed) {
            return None;
        }
        if all.len() >= COORDINATORS_MAX {
            tracing::warn!(namespace, "too many coordinators (limit {COORDINATORS_MAX}): this namespace gets none");
            return None;
        }
        let worker = match start_worker(&self.flow, namespace, &self.config.pools) {
            Ok(worker) => worker,
            Err(error) => {
                tracing::warn!(
                    namespace,
                    error = reveille_pg::causes(&error),
                    "starting the workers of a namespace failed"
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

    /// Passes an event to the coordinator of its namespace.
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

    /// Stops all coordinators concurrently; no more are started.
    pub(super) async fn stop_all(&self) {
        self.mark_stopped();
        let all: Vec<_> = self.all().drain().map(|(_, coordinator)| coordinator).collect();
        futures_util::future::join_all(all.iter().map(|coordinator| coordinator.stop(self.config.grace))).await;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Prevents new coordinators.
    pub(super) fn mark_stopped(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// Prevents new coordinators, and drops the existing ones.
    pub(super) fn close(&self) {
        self.mark_stopped();
        self.all().clear();
    }
}
