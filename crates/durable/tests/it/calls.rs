//! Calls of the provider as a runtime makes them, one at a time.

use std::time::Duration;

use duroxide::providers::{ExecutionMetadata, OrchestrationItem, Provider, ProviderError, TagFilter, WorkItem};
use duroxide::{Event, EventKind, INITIAL_EVENT_ID, INITIAL_EXECUTION_ID};
use reveille_durable::PostgresProvider;

use crate::fixture::PATIENCE;

/// What a fetch answers.
pub(crate) type Fetched<T> = (T, String, u32);

pub(crate) fn start(instance: &str, input: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Greet".to_owned(),
        input: input.to_owned(),
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

pub(crate) fn activity(instance: &str, id: u64) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id: INITIAL_EXECUTION_ID,
        id,
        name: "Work".to_owned(),
        input: String::new(),
        session_id: None,
        tag: None,
    }
}

/// The message that an activity has ended.
pub(crate) fn completion(instance: &str, id: u64, result: &str) -> WorkItem {
    let (instance, result) = (instance.to_owned(), result.to_owned());
    WorkItem::ActivityCompleted { instance, execution_id: INITIAL_EXECUTION_ID, id, result }
}

/// What a turn did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done {
    pub(crate) events: Vec<Event>,
    pub(crate) work: Vec<WorkItem>,
    pub(crate) messages: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
}

impl Done {
    /// A first turn: the instance exists from now on.
    pub(crate) fn first(instance: &str, input: &str) -> Done {
        let kind = EventKind::OrchestrationStarted {
            name: "Greet".to_owned(),
            version: "1.0.0".to_owned(),
            input: input.to_owned(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: None,
        };
        let metadata = ExecutionMetadata {
            orchestration_name: Some("Greet".to_owned()),
            orchestration_version: Some("1.0.0".to_owned()),
            ..ExecutionMetadata::default()
        };
        Done { events: vec![event(instance, INITIAL_EVENT_ID, kind)], metadata, ..Done::default() }
    }

    /// A later turn that only writes down what was raised.
    pub(crate) fn heard(instance: &str, id: u64, data: &str) -> Done {
        let kind = EventKind::ExternalEvent { name: "signal".to_owned(), data: data.to_owned() };
        Done { events: vec![event(instance, id, kind)], ..Done::default() }
    }

    /// A last turn.
    pub(crate) fn completed(instance: &str, id: u64, output: &str) -> Done {
        let kind = EventKind::OrchestrationCompleted { output: output.to_owned() };
        let metadata = ExecutionMetadata {
            status: Some("Completed".to_owned()),
            output: Some(output.to_owned()),
            ..ExecutionMetadata::default()
        };
        Done { events: vec![event(instance, id, kind)], metadata, ..Done::default() }
    }
}

fn event(instance: &str, id: u64, kind: EventKind) -> Event {
    Event::with_event_id(id, instance, INITIAL_EXECUTION_ID, None, kind)
}

pub(crate) async fn send(provider: &PostgresProvider, item: WorkItem) {
    provider.enqueue_for_orchestrator(item, None).await.expect("sent, if late");
}

pub(crate) async fn send_work(provider: &PostgresProvider, item: WorkItem) {
    provider.enqueue_for_worker(item).await.expect("sent, if late");
}

/// The next turn, which must come.
pub(crate) async fn fetch(provider: &PostgresProvider, lease: Duration) -> Fetched<OrchestrationItem> {
    let fetched = provider.fetch_orchestration_item(lease, PATIENCE, None).await.expect("a fetch");
    fetched.unwrap_or_else(|| panic!("no turn within {PATIENCE:?}"))
}

/// The next activity, which must come.
pub(crate) async fn fetch_work(provider: &PostgresProvider, lease: Duration) -> Fetched<WorkItem> {
    let fetched = provider.fetch_work_item(lease, PATIENCE, None, &TagFilter::DefaultOnly).await.expect("a fetch");
    fetched.unwrap_or_else(|| panic!("no activity within {PATIENCE:?}"))
}

pub(crate) async fn ack(provider: &PostgresProvider, token: &str, done: Done) -> Result<(), ProviderError> {
    let Done { events, work, messages, metadata } = done;
    provider.ack_orchestration_item(token, INITIAL_EXECUTION_ID, events, work, messages, metadata, Vec::new()).await
}

/// Brings an instance into being by a first turn that does nothing else, and waits for its commit. Nothing else may be
/// due.
pub(crate) async fn begin(provider: &PostgresProvider, instance: &str, lease: Duration) {
    send(provider, start(instance, "")).await;
    let (item, token, _) = fetch(provider, lease).await;
    assert_eq!(item.instance, instance, "nothing else is due");
    ack(provider, &token, Done::first(instance, "")).await.expect("the lease is fresh");
    provider.flush().await;
}

/// The instance of an activity, and which one it is.
pub(crate) fn identity(item: &WorkItem) -> (&str, u64) {
    match item {
        WorkItem::ActivityExecute { instance, id, .. } => (instance, *id),
        other => panic!("no activity to execute: {other:?}"),
    }
}
