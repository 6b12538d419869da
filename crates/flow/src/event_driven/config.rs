//! How an orchestrator is set up.

use std::time::Duration;

use super::router::{EventRouter, NamespacePattern};
use crate::worker::Handlers;

/// Everything that can be set. `OrchestrationConfig::default()` is what to start with: no workers, nothing routed.
#[derive(Debug)]
pub struct OrchestrationConfig {
    /// Workers that coordinators run: the first whose pattern matches a namespace is that namespace's.
    pub pools: Vec<WorkerPool>,
    /// Namespaces whose coordinators are started ahead, before the namespaces are there.
    pub spawn_ahead: Vec<String>,
    /// Who is told of ready tasks. `None`: nobody, and nothing is read for it.
    pub router: Option<EventRouter>,
    /// Events that wait for one coordinator at most; beyond it they are dropped and counted.
    pub channel_capacity: usize,
    /// Events of one task within this time are one.
    pub deduplication_window: Duration,
    /// Whether there is a fallback poller at all. Namespaces say for themselves whether it looks for theirs.
    pub fallback_enabled: bool,
    /// How often it may ask.
    pub fallback_interval: Duration,
    /// How long steps must have been ready, and unclaimed.
    pub fallback_after: Duration,
    /// So many failures in a row stop it,
    pub fallback_failures_max: u32,
    /// for so long.
    pub fallback_pause: Duration,
    /// An event that takes longer to arrive is a reason to worry.
    pub notification_lag_max: Duration,
    /// How long handlers may go on when a coordinator stops.
    pub grace: Duration,
}

impl Default for OrchestrationConfig {
    fn default() -> Self {
        OrchestrationConfig {
            pools: Vec::new(),
            spawn_ahead: Vec::new(),
            router: None,
            channel_capacity: 1_000,
            deduplication_window: Duration::from_millis(100),
            fallback_enabled: true,
            fallback_interval: Duration::from_secs(30),
            fallback_after: Duration::from_secs(5),
            fallback_failures_max: 5,
            fallback_pause: Duration::from_secs(60),
            notification_lag_max: Duration::from_secs(1),
            grace: Duration::from_secs(10),
        }
    }
}

/// The workers of the namespaces of a pattern: one in each, from the moment the namespace is there.
#[derive(Debug, Clone)]
pub struct WorkerPool {
    /// In which namespaces.
    pub namespaces: NamespacePattern,
    /// What the history calls its workers; the namespace is added.
    pub name: String,
    /// What carries out the steps.
    pub handlers: Handlers,
    /// Handlers at work at a time, in each namespace.
    pub concurrency: usize,
}

impl WorkerPool {
    /// A pool for the namespaces of a pattern, see [`NamespacePattern::new`], with 32 handlers at a time.
    pub fn new(pattern: &str, name: impl Into<String>, handlers: Handlers) -> WorkerPool {
        WorkerPool { namespaces: NamespacePattern::new(pattern), name: name.into(), handlers, concurrency: 32 }
    }
}
