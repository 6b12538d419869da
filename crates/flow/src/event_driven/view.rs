//! What can be read about the orchestrators of a process from outside: their health in detail, and how they are set up.

use std::fmt;

use serde::Serialize;

use super::coordination::Coordination;
use super::health::HealthStatus;
use super::router::{NamespacePattern, RoutingRule};
use crate::flow::Flow;

/// An orchestrator of this process: how it is doing, and how it is set up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Orchestration {
    /// How it is doing, check by check.
    pub health: HealthStatus,
    /// The namespaces that have a coordinator, by name.
    pub coordinators: Vec<String>,
    /// Which events of ready tasks go to which handler: the first rule that matches counts. Handlers are functions of the program that runs the orchestrator, so rules are set there.
    pub routing_rules: Vec<RoutingRuleView>,
    /// Whether events that no rule matches go to a default handler.
    pub routes_events: bool,
    /// Events of one task within so many milliseconds are one.
    pub deduplication_window_ms: u64,
    /// Events that wait for one coordinator at most; beyond it they are dropped and counted.
    pub channel_capacity: usize,
    /// Whether there is a fallback poller.
    pub fallback_enabled: bool,
    /// How often it may ask, in milliseconds.
    pub fallback_interval_ms: u64,
}

/// A rule of an event router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "http", schema(as = RoutingRule))]
pub struct RoutingRuleView {
    /// Of which namespaces: a name, a beginning with `*` behind it, or `*` for all.
    pub namespaces: String,
    /// Of tasks of this priority or a higher one; null: of all.
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
    /// The orchestrators of this process that run: a server has one. Asks the database nothing.
    pub fn orchestrations(&self) -> Vec<Orchestration> {
        self.inner.news.running().iter().map(|one| one.view()).collect()
    }
}
