//! The orchestrators of a process as the API shows them: health and configuration.

use std::fmt;

use serde::Serialize;

use super::coordination::Coordination;
use super::health::HealthStatus;
use super::router::{NamespacePattern, RoutingRule};
use crate::flow::Flow;

/// An orchestrator of this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Orchestration {
    /// Its health.
    pub health: HealthStatus,
    /// The namespaces with a coordinator, ordered by name.
    pub coordinators: Vec<String>,
    /// The routing rules; the first that matches applies. Handlers are functions of the program that runs the
    /// orchestrator, so rules are configured there.
    pub routing_rules: Vec<RoutingRuleView>,
    /// Whether events without a matching rule go to a default handler.
    pub routes_events: bool,
    /// Events of one task within this many milliseconds are merged.
    pub deduplication_window_ms: u64,
    /// The most events that wait for one coordinator; others are dropped and counted.
    pub channel_capacity: usize,
    /// Whether there is a fallback poller.
    pub fallback_enabled: bool,
    /// The interval of the fallback poller, in milliseconds.
    pub fallback_interval_ms: u64,
}

/// A rule of an event router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "http", schema(as = RoutingRule))]
pub struct RoutingRuleView {
    /// The namespaces: a name, a prefix followed by `*`, or `*` for all.
    pub namespaces: String,
    /// The lowest priority of tasks; null: all priorities.
    pub priority_threshold: Option<i16>,
}

impl fmt::Display for NamespacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NamespacePattern::Exact(name) => f.write_str(name),
            NamespacePattern::Prefix(prefix) => write!(f, "{prefix}*"),
            NamespacePattern::Any => f.write_str("*"),
        }
    }
}

impl Coordination {
    fn view(&self) -> Orchestration {
        let mut coordinators: Vec<String> = self.coordinators().iter().map(|one| one.namespace().to_owned()).collect();
        coordinators.sort_unstable();
        let rule = |rule: &RoutingRule| RoutingRuleView {
            namespaces: rule.pattern.to_string(),
            priority_threshold: rule.priority_threshold,
        };
        let ms = |duration: std::time::Duration| duration.as_millis() as u64;
        Orchestration {
            health: self.check(),
            coordinators,
            routing_rules: self.router.iter().flat_map(|router| router.rules()).map(rule).collect(),
            routes_events: self.router.is_some(),
            deduplication_window_ms: ms(self.config.deduplication_window),
            channel_capacity: self.config.channel_capacity,
            fallback_enabled: self.config.fallback_enabled,
            fallback_interval_ms: ms(self.config.fallback_interval),
        }
    }
}

impl Flow {
    /// The running orchestrators of this process; a server has one. Sends no query.
    pub fn orchestrations(&self) -> Vec<Orchestration> {
        self.inner.task_events.running().iter().map(|one| one.view()).collect()
    }
}
