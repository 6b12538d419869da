//! Work items and events as a runtime would make them, from what a step says.

use duroxide::providers::WorkItem;
use duroxide::{AppErrorKind, ErrorDetails, Event, EventKind, INITIAL_EXECUTION_ID};

use super::step::{Kind, Route, SESSIONS, TAGS};

/// The orchestration that all instances run.
pub(super) const NAME: &str = "Greet";
pub(super) const VERSION: &str = "1.0.0";

/// A message; `data` makes it different from all others.
pub(super) fn message(kind: Kind, to: &str, data: &str, fire_at_ms: u64) -> WorkItem {
    let (instance, parent_instance, data) = (to.to_owned(), to.to_owned(), data.to_owned());
    let (execution_id, id) = (INITIAL_EXECUTION_ID, 2);
    match kind {
        Kind::Start => WorkItem::StartOrchestration {
            instance,
            orchestration: NAME.to_owned(),
            input: data,
            version: None,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id,
        },
        Kind::ContinueAsNew => WorkItem::ContinueAsNew {
            instance,
            orchestration: NAME.to_owned(),
            input: data,
            version: Some(VERSION.to_owned()),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: Vec::new(),
            initial_custom_status: None,
        },
        Kind::Completed => WorkItem::ActivityCompleted { instance, execution_id, id, result: data },
        Kind::Failed => WorkItem::ActivityFailed { instance, execution_id, id, details: failure(data) },
        Kind::Timer => WorkItem::TimerFired { instance, execution_id, id, fire_at_ms },
        Kind::Raised => WorkItem::ExternalRaised { instance, name: "signal".to_owned(), data },
        Kind::ChildCompleted => WorkItem::SubOrchCompleted {
            parent_instance,
            parent_execution_id: execution_id,
            parent_id: id,
            result: data,
        },
        Kind::ChildFailed => WorkItem::SubOrchFailed {
            parent_instance,
            parent_execution_id: execution_id,
            parent_id: id,
            details: failure(data),
        },
        Kind::Cancel => WorkItem::CancelInstance { instance, reason: data },
        Kind::Queue => WorkItem::QueueMessage { instance, name: "mailbox".to_owned(), data },
        Kind::Activity => activity(to, execution_id, id, &data, Route { tag: None, session: None }),
    }
}

pub(super) fn activity(of: &str, execution_id: u64, id: u64, input: &str, route: Route) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: of.to_owned(),
        execution_id,
        id,
        name: "Work".to_owned(),
        input: input.to_owned(),
        session_id: route.session.map(|session| SESSIONS[session].to_owned()),
        tag: route.tag.map(|tag| TAGS[tag].to_owned()),
    }
}

fn failure(message: String) -> ErrorDetails {
    ErrorDetails::Application { kind: AppErrorKind::ActivityFailed, message, retryable: false }
}

/// The same item in both stores: when a timer fires is a time of each store's own.
pub(super) fn timeless(mut item: WorkItem) -> WorkItem {
    if let WorkItem::TimerFired { fire_at_ms, .. } = &mut item {
        *fire_at_ms = 0;
    }
    item
}

/// The input of an activity, which makes it different from all others.
pub(super) fn input(item: &WorkItem) -> &str {
    match item {
        WorkItem::ActivityExecute { input, .. } => input,
        other => panic!("no activity to execute: {other:?}"),
    }
}

/// The first event of an execution.
pub(super) fn started(input: &str, carried: usize) -> EventKind {
    let carried: Vec<_> = (0..carried).map(|nth| ("mailbox".to_owned(), nth.to_string())).collect();
    EventKind::OrchestrationStarted {
        name: NAME.to_owned(),
        version: VERSION.to_owned(),
        input: input.to_owned(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: (!carried.is_empty()).then_some(carried),
        initial_custom_status: None,
    }
}

pub(super) fn raised(data: String) -> EventKind {
    EventKind::ExternalEvent { name: "signal".to_owned(), data }
}

/// Events numbered from `first`.
pub(super) fn numbered(instance: &str, execution: u64, first: u64, kinds: Vec<EventKind>) -> Vec<Event> {
    (first..).zip(kinds).map(|(id, kind)| Event::with_event_id(id, instance, execution, None, kind)).collect()
}
