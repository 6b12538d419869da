//! Work items and calls as the tests write them.

use std::time::Duration;

use duroxide::providers::{ExecutionMetadata, OrchestrationItem, Provider, SessionFetchConfig, TagFilter, WorkItem};
use duroxide::{Event, EventKind, INITIAL_EVENT_ID, INITIAL_EXECUTION_ID};
use reveille_durable_memory::MemoryProvider;

/// A lease that no test outlasts by accident.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

pub(crate) fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Greet".to_owned(),
        input: String::new(),
        version: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: INITIAL_EXECUTION_ID,
    }
}

pub(crate) fn raised(instance: &str, data: &str) -> WorkItem {
    WorkItem::ExternalRaised { instance: instance.to_owned(), name: "signal".to_owned(), data: data.to_owned() }
}

pub(crate) fn mail(instance: &str, data: &str) -> WorkItem {
    WorkItem::QueueMessage { instance: instance.to_owned(), name: "mailbox".to_owned(), data: data.to_owned() }
}

pub(crate) fn activity(id: u64, session: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: "busy".to_owned(),
        execution_id: INITIAL_EXECUTION_ID,
        id,
        name: "Work".to_owned(),
        input: String::new(),
        session_id: session.map(str::to_owned),
        tag: None,
    }
}

pub(crate) fn owner(id: &str, lock_timeout: Duration) -> SessionFetchConfig {
    SessionFetchConfig { owner_id: id.to_owned(), lock_timeout }
}

pub(crate) fn activity_id(item: &WorkItem) -> u64 {
    match item {
        WorkItem::ActivityExecute { id, .. } => *id,
        other => panic!("not an activity to execute: {other:?}"),
    }
}

/// A turn with its token; `None` if there is none after `patience`.
pub(crate) async fn fetch(provider: &MemoryProvider, patience: Duration) -> Option<(OrchestrationItem, String, u32)> {
    provider.fetch_orchestration_item(LEASE, patience, None).await.expect("memory does not fail")
}

/// A work item with its token; `None` if there is none after `patience`.
pub(crate) async fn fetch_work(
    provider: &MemoryProvider,
    patience: Duration,
    session: Option<&SessionFetchConfig>,
) -> Option<(WorkItem, String, u32)> {
    provider.fetch_work_item(LEASE, patience, session, &TagFilter::DefaultOnly).await.expect("memory does not fail")
}

pub(crate) async fn send(provider: &MemoryProvider, item: WorkItem) {
    provider.enqueue_for_orchestrator(item, None).await.expect("a message for an orchestration");
}

pub(crate) async fn send_later(provider: &MemoryProvider, item: WorkItem, delay: Duration) {
    provider.enqueue_for_orchestrator(item, Some(delay)).await.expect("a message for an orchestration");
}

/// Brings an instance into being by a first turn that does nothing else.
pub(crate) async fn begin(provider: &MemoryProvider, instance: &str) {
    send(provider, start(instance)).await;
    let (item, token, _) = fetch(provider, Duration::ZERO).await.expect("a start is due");
    assert_eq!(item.instance, instance, "nothing else is due");
    let kind = EventKind::OrchestrationStarted {
        name: "Greet".to_owned(),
        version: "1.0.0".to_owned(),
        input: String::new(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    };
    let started = Event::with_event_id(INITIAL_EVENT_ID, instance, INITIAL_EXECUTION_ID, None, kind);
    let metadata = ExecutionMetadata {
        orchestration_name: Some("Greet".to_owned()),
        orchestration_version: Some("1.0.0".to_owned()),
        ..ExecutionMetadata::default()
    };
    let turn = (vec![started], Vec::new(), Vec::new(), metadata, Vec::new());
    provider
        .ack_orchestration_item(&token, INITIAL_EXECUTION_ID, turn.0, turn.1, turn.2, turn.3, turn.4)
        .await
        .expect("the lease is fresh");
}
