//! Who is told of which tasks.

use std::future::Future;
use std::pin::Pin;

use super::event::TaskReadyEvent;

/// What an event handler may answer beside that all is well.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Does something about tasks that have steps to be claimed. A closure `|event| async { … }` is one, by [`EventRouter::new`] and [`RoutingRule::new`].
pub trait EventHandler: Send + Sync + 'static {
    /// Does it. Events of one namespace come one after the other; while this takes its time they wait, and beyond the channel's bound they are dropped and counted.
    ///
    /// # Errors
    /// Whatever went wrong; the log tells it, and it is counted.
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

/// Which namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespacePattern {
    /// That one.
    Exact(String),
    /// Those that begin so.
    Prefix(String),
    /// All of them.
    Any,
}

impl NamespacePattern {
    /// `*` is all, `shop*` those that begin so, anything else that one.
    pub fn new(pattern: &str) -> NamespacePattern {
        match pattern.strip_suffix('*') {
            Some("") => NamespacePattern::Any,
            Some(prefix) => NamespacePattern::Prefix(prefix.to_owned()),
            None => NamespacePattern::Exact(pattern.to_owned()),
        }
    }

    /// Whether a namespace is among them.
    pub fn matches(&self, namespace: &str) -> bool {
        match self {
            NamespacePattern::Exact(name) => name == namespace,
            NamespacePattern::Prefix(prefix) => namespace.starts_with(prefix.as_str()),
            NamespacePattern::Any => true,
        }
    }
}

/// Which events a handler gets.
pub struct RoutingRule {
    /// Of these namespaces,
    pub pattern: NamespacePattern,
    /// and of tasks of this priority or a higher one.
    pub priority_threshold: Option<i16>,
    /// Who gets them.
    pub handler: Box<dyn EventHandler>,
}

impl RoutingRule {
    /// A rule for the namespaces of a pattern, see [`NamespacePattern::new`].
    pub fn new(pattern: &str, priority_threshold: Option<i16>, handler: impl EventHandler) -> RoutingRule {
        RoutingRule { pattern: NamespacePattern::new(pattern), priority_threshold, handler: Box::new(handler) }
    }

    fn matches(&self, event: &TaskReadyEvent) -> bool {
        self.pattern.matches(&event.namespace)
            && self.priority_threshold.is_none_or(|threshold| event.priority >= threshold)
    }
}

/// Hands every event to the first rule that matches, or else to the default handler.
pub struct EventRouter {
    rules: Vec<RoutingRule>,
    default_handler: Box<dyn EventHandler>,
}

impl EventRouter {
    /// One without rules.
    pub fn new(default_handler: impl EventHandler) -> EventRouter {
        EventRouter { rules: Vec::new(), default_handler: Box::new(default_handler) }
    }

    /// With one rule more, after those before it.
    #[must_use]
    pub fn rule(mut self, rule: RoutingRule) -> EventRouter {
        self.rules.push(rule);
        self
    }

    /// The rules, in order.
    pub(super) fn rules(&self) -> &[RoutingRule] {
        &self.rules
    }

    /// Hands an event to its handler.
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
    use std::sync::{Arc, Mutex};

    use uuid::Uuid;

    use super::super::event::EventSource;
    use super::*;

    /// The first rule that matches by namespace and priority gets the event, and the default handler the rest.
    #[tokio::test]
    async fn the_first_rule_that_matches_gets_the_event() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let tells = |name: &'static str| {
            let told = told.clone();
            move |event: TaskReadyEvent| {
                told.lock().unwrap().push((name, event.namespace));
                async { Ok::<(), Failed>(()) }
            }
        };
        let router = EventRouter::new(tells("default"))
            .rule(RoutingRule::new("shop", Some(5), tells("urgent")))
            .rule(RoutingRule::new("shop*", None, tells("shops")));
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
        let who: Vec<_> = told.lock().unwrap().iter().map(|(name, _)| *name).collect();
        assert_eq!(who, ["urgent", "shops", "shops", "default"]);
        assert!(NamespacePattern::new("*").matches("anything"));
    }
}
