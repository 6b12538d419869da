//! The invariants of every history.

use std::collections::HashSet;

use duroxide::providers::ProviderAdmin;
use duroxide::{Event, EventKind};
use reveille_durable::PostgresProvider;

/// What can be scheduled, and is referred to by what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Scheduled {
    Activity,
    Timer,
    Child,
    Event,
    Queue,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Outcome {
    Ended,
    Cancelled,
}

fn scheduling(kind: &EventKind) -> Option<Scheduled> {
    match kind {
        EventKind::ActivityScheduled { .. } => Some(Scheduled::Activity),
        EventKind::TimerCreated { .. } => Some(Scheduled::Timer),
        EventKind::SubOrchestrationScheduled { .. } => Some(Scheduled::Child),
        EventKind::ExternalSubscribed { .. } => Some(Scheduled::Event),
        EventKind::QueueSubscribed { .. } => Some(Scheduled::Queue),
        _ => None,
    }
}

fn outcome(kind: &EventKind) -> Option<(Scheduled, Outcome)> {
    match kind {
        EventKind::ActivityCompleted { .. } | EventKind::ActivityFailed { .. } => {
            Some((Scheduled::Activity, Outcome::Ended))
        }
        EventKind::ActivityCancelRequested { .. } => Some((Scheduled::Activity, Outcome::Cancelled)),
        EventKind::TimerFired { .. } => Some((Scheduled::Timer, Outcome::Ended)),
        EventKind::SubOrchestrationCompleted { .. } | EventKind::SubOrchestrationFailed { .. } => {
            Some((Scheduled::Child, Outcome::Ended))
        }
        EventKind::SubOrchestrationCancelRequested { .. } => Some((Scheduled::Child, Outcome::Cancelled)),
        EventKind::ExternalSubscribedCancelled { .. } => Some((Scheduled::Event, Outcome::Cancelled)),
        EventKind::QueueSubscriptionCancelled { .. } => Some((Scheduled::Queue, Outcome::Cancelled)),
        _ => None,
    }
}

/// Checks the history of one execution: ids from one without a gap, one beginning, at most one end and nothing behind
/// it but what is cancelled by it, and whatever completes something completes what was scheduled before, once.
pub(crate) fn check(instance: &str, execution: u64, history: &[Event]) {
    let of = format!("{instance}/{execution}: {history:#?}");
    let ids: Vec<u64> = history.iter().map(Event::event_id).collect();
    assert_eq!(ids, (1..=history.len() as u64).collect::<Vec<_>>(), "event ids of {of}");
    let begun = |event: &&Event| matches!(event.kind, EventKind::OrchestrationStarted { .. });
    assert!(history.first().as_ref().is_some_and(begun), "no beginning of {of}");
    assert_eq!(history.iter().filter(begun).count(), 1, "beginnings of {of}");
    let end = history.iter().position(Event::is_terminal).unwrap_or(history.len() - 1);
    let cancels = |event: &Event| outcome(&event.kind).is_some_and(|(_, outcome)| outcome == Outcome::Cancelled);
    assert!(history[end + 1..].iter().all(cancels), "events after the end of {of}");

    let mut outcomes = HashSet::new();
    for event in history {
        assert_eq!((event.instance_id.as_str(), event.execution_id), (instance, execution), "strange event in {of}");
        let Some((what, outcome)) = outcome(&event.kind) else { continue };
        let source = event.source_event_id().unwrap_or_else(|| panic!("{event:?} refers to nothing in {of}"));
        assert!((1..event.event_id()).contains(&source), "{event:?} refers to what did not precede it in {of}");
        let source_event = &history[source as usize - 1];
        assert_eq!(scheduling(&source_event.kind), Some(what), "{event:?} refers to {source_event:?} in {of}");
        assert!(outcomes.insert((source, outcome)), "{event:?} happened twice in {of}");
    }
}

/// Checks every execution of every instance, as a provider reads it. Returns the number of executions.
pub(crate) async fn check_all(provider: &PostgresProvider) -> usize {
    let mut checked = 0;
    for instance in provider.list_instances().await.expect("the instances") {
        for execution in provider.list_executions(&instance).await.expect("its executions") {
            let history = provider.read_history_with_execution_id(&instance, execution).await.expect("its history");
            check(&instance, execution, &history);
            checked += 1;
        }
    }
    checked
}
