//! Routing events of ready tasks to handlers.

use std::future::Future;
use std::pin::Pin;

use super::event::TaskReadyEvent;

/// The error of an event handler.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Handles events of tasks with claimable steps. [`EventRouter::new`] and [`RoutingRule::new`] accept a closure
/// `|event| async { … }`.
pub trait EventHandler: Send + Sync + 'static {
    /// Handles an event. The events of a namespace are handled one after the other; others wait, and beyond the bound
    /// of the channel they are dropped and counted.
    ///
    /// # Errors
    /// Any error; it is logged and counted.
    fn handle(&self, event: TaskReadyEvent) -> Pin<Box<dyn Future<Output = Result<(), Failed>> + Send + '_>>;
}

impl<F, W> EventHandler for F
where
    F: Fn(TaskReadyEvent) -> W + Send + Sync + 'static,
    W: Future<Output = Result<(), Failed>> + Send + 'static,
{
    fn handle(&self, event: TaskReadyEvent) -> Pin<Box<dyn Future<Output = Result<(), Failed>> + Send + '_>> {
        Box::pin(self(event))
    }
}

/// Selects namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespacePattern {
    /// The namespace with this name.
    Exact(String),
    /// Namespaces whose names have this prefix.
    Prefix(String),
    /// All namespaces.
    Any,
}

impl NamespacePattern {
    /// Parses a pattern: `*` selects all namespaces, `shop*` those with the prefix `shop`, anything else one name.
    pub fn new(pattern: &str) -> NamespacePattern {
        match pattern.strip_suffix('*') {
            Some("") => NamespacePattern::Any,
            Some(prefix) => NamespacePattern::Prefix(prefix.to_owned()),
            None => NamespacePattern::Exact(pattern.to_owned()),
        }
    }

    /// Whether it selects a namespace.
    pub fn matches(&self, namespace: &str) -> bool {
        match self {
            NamespacePattern::Exact(name) => name == namespace,
            NamespacePattern::Prefix(prefix) => namespace.starts_with(prefix.as_str()),
            NamespacePattern::Any => true,
        }
    }
}

/// Selects the events of a handler.
pub struct RoutingRule {
    /// Events of these namespaces.
    pub pattern: NamespacePattern,
    /// Events of tasks with at least this priority; `None`: of all.
    pub priority_threshold: Option<i16>,
    /// The handler.
    pub handler: Box<dyn EventHandler>,
}

impl RoutingRule {
    /// A rule for the namespaces that match a pattern: see [`NamespacePattern::new`].
    pub fn new(pattern: &str, priority_threshold: Option<i16>, handler: impl EventHandler) -> RoutingRule {
        RoutingRule { pattern: NamespacePattern::new(pattern), priority_threshold, handler: Box::new(handler) }
    }

    fn matches(&self, event: &TaskReadyEvent) -> bool {
        self.pattern.matches(&event.namespace)
            && self.priority_threshold.is_none_or(|threshold| event.priority >= threshold)
    }
}

/// Passes every event to the first rule that matches, or to the default handler.
pub struct EventRouter {
    rules: Vec<RoutingRule>,
    default_handler: Box<dyn EventHandler>,
}

impl EventRouter {
    /// A router without rules.
    pub fn new(default_handler: impl EventHandler) -> EventRouter {
        EventRouter { rules: Vec::new(), default_handler: Box::new(default_handler) }
    }

    /// Adds a rule after the others.
    #[must_use]
    pub fn rule(mut self, rule: RoutingRule) -> EventRouter {
        self.rules.push(rule);
        self
    }

    /// The rules, in order.
    pub(super) fn rules(&self) -> &[RoutingRule] {
        &self.rules
    }

    /// Passes an event to its handler.
    ///
    /// # Errors
    /// The handler's.
    pub async fn route(&self, event: TaskReadyEvent) -> Result<(), Failed> {
        let rule = self.rules.iter().find(|rule| rule.matches(&event));
        rule.map_or(&self.default_handler, |rule| &rule.handler).handle(event).await
    }
}

impl std::fmt::Debug for RoutingRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RoutingRule { pattern, priority_threshold, .. } = self;
        f.debug_struct("RoutingRule")
            .field("pattern", pattern)
            .field("priority_threshold", priority_threshold)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for EventRouter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventRouter").field("rules", &self.rules).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use uuid::Uuid;

    use super::super::event::EventSource;
    use super::*;

    /// The first rule that matches namespace and priority gets the event, and the default handler all others.
    #[tokio::test]
    async fn the_first_rule_that_matches_gets_the_event() {
        let received = Arc::new(Mutex::new(Vec::new()));
        let records = |name: &'static str| {
            let received = received.clone();
            move |event: TaskReadyEvent| {
                received.lock().push((name, event.namespace));
                async { Ok::<(), Failed>(()) }
            }
        };
        let router = EventRouter::new(records("default"))
            .rule(RoutingRule::new("shop", Some(5), records("urgent")))
            .rule(RoutingRule::new("shop*", None, records("shops")));
        for (namespace, priority) in [("shop", 5), ("shop", 4), ("shop-2", 9), ("bank", 9)] {
            let event = TaskReadyEvent {
                task_uuid: Uuid::nil(),
                namespace: namespace.to_owned(),
                priority,
                ready_steps: 1,
                updated_at_us: 0,
                source: EventSource::InProcess,
            };
            router.route(event).await.unwrap();
        }
        let handlers: Vec<_> = received.lock().iter().map(|(name, _)| *name).collect();
        assert_eq!(handlers, ["urgent", "shops", "shops", "default"]);
        assert!(NamespacePattern::new("*").matches("anything"));
    }
}
