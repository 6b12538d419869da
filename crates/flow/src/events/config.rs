//! The configuration of an orchestrator.

use std::time::Duration;

use super::router::{EventRouter, NamespacePattern};
use crate::worker::Handlers;

/// The configuration. Start with `OrchestrationConfig::default()`: no workers and no router.
#[derive(Debug)]
pub struct OrchestrationConfig {
    /// The workers that coordinators run: a namespace gets the first pool whose pattern matches.
    pub pools: Vec<WorkerPool>,
    /// Namespaces whose coordinators are started before the namespaces exist.
    pub spawn_early: Vec<String>,
    /// Receives events of ready tasks. `None`: events are not routed, and nothing is queried for them.
    pub router: Option<EventRouter>,
    /// The most events that wait for one coordinator; others are dropped and counted.
    pub channel_capacity: usize,
    /// Events of one task within this time are merged.
    pub deduplication_window: Duration,
    /// Whether there is a fallback poller. Each namespace has a setting, too.
    pub fallback_enabled: bool,
    /// The interval of the fallback poller.
    pub fallback_interval: Duration,
    /// How long steps must have been ready and unclaimed for the fallback poller.
    pub fallback_after: Duration,
    /// The number of consecutive failures after which the fallback poller pauses.
    pub fallback_failures_max: u32,
    /// How long the fallback poller pauses after failures.
    pub fallback_pause: Duration,
    /// The health check fails if an event takes longer than this to arrive.
    pub notification_lag_max: Duration,
    /// How long handlers may continue when a coordinator stops.
    pub grace: Duration,
}

impl Default for OrchestrationConfig {
    fn default() -> Self {
        OrchestrationConfig {
            pools: Vec::new(),
            spawn_early: Vec::new(),
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

/// Workers for all namespaces that match a pattern: one in each, as soon as the namespace exists.
#[derive(Debug, Clone)]
pub struct WorkerPool {
    /// The namespaces.
    pub namespaces: NamespacePattern,
    /// The name of the workers in the history; the namespace is appended.
    pub name: String,
    /// The handlers.
    pub handlers: Handlers,
    /// The most concurrent handlers in each namespace.
    pub concurrency: usize,
}

impl WorkerPool {
    /// A pool for the namespaces that match a pattern, see [`NamespacePattern::new`], with 32 concurrent handlers.
    pub fn new(pattern: &str, name: impl Into<String>, handlers: Handlers) -> WorkerPool {
        WorkerPool { namespaces: NamespacePattern::new(pattern), name: name.into(), handlers, concurrency: 32 }
    }
}
