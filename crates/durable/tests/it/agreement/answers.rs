//! Answers in a form in which both stores must give the same: without times and in an order only where the contract
//! gives one.

use std::collections::BTreeMap;

use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceInfo, OrchestrationItem, PruneResult, QueueDepths, SystemMetrics,
    WorkItem,
};
use duroxide::{Event, SystemStats};

use super::payload::timeless;

/// What a fetched turn shows.
#[derive(Debug, PartialEq)]
pub(super) struct SeenTurn {
    pub(super) instance: String,
    name: String,
    pub(super) execution: u64,
    version: String,
    history: Vec<Event>,
    messages: Vec<WorkItem>,
    keys: BTreeMap<String, (String, u64)>,
    unreadable: bool,
    attempt: u32,
}

impl SeenTurn {
    /// `delayed`: messages come in order of their due times here and of their arrival there, which is the same unless
    /// one was delayed.
    pub(super) fn new(item: OrchestrationItem, attempt: u32, delayed: impl Fn(&str) -> bool) -> SeenTurn {
        let mut messages: Vec<WorkItem> = item.messages.into_iter().map(timeless).collect();
        if delayed(&item.instance) {
            messages.sort_by_cached_key(|item| format!("{item:?}"));
        }
        SeenTurn {
            messages,
            name: item.orchestration_name,
            execution: item.execution_id,
            version: item.version,
            history: item.history,
            keys: item.kv_snapshot.into_iter().map(|(key, at)| (key, (at.value, at.last_updated_at_ms))).collect(),
            unreadable: item.history_error.is_some(),
            instance: item.instance,
            attempt,
        }
    }
}

pub(super) fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values
}

pub(super) fn instance(info: InstanceInfo) -> impl PartialEq + std::fmt::Debug {
    (
        (info.instance_id, info.orchestration_name, info.orchestration_version),
        (info.current_execution_id, info.status, info.output, info.parent_instance_id),
    )
}

pub(super) fn execution(info: ExecutionInfo) -> impl PartialEq + std::fmt::Debug {
    (info.execution_id, info.status, info.output, info.completed_at.is_some(), info.event_count)
}

/// Bytes of histories are each store's own affair.
pub(super) fn stats(stats: Option<SystemStats>) -> impl PartialEq + std::fmt::Debug {
    stats.map(|stats| {
        assert_eq!(stats.history_event_count > 0, stats.history_size_bytes > 0);
        SystemStats { history_size_bytes: 0, ..stats }
    })
}

pub(super) fn metrics(of: SystemMetrics) -> [u64; 6] {
    let instances = [of.total_instances, of.running_instances, of.completed_instances, of.failed_instances];
    let [total, running, completed, failed] = instances;
    [total, running, completed, failed, of.total_executions, of.total_events]
}

pub(super) fn depths(of: QueueDepths) -> [usize; 3] {
    [of.orchestrator_queue, of.worker_queue, of.timer_queue]
}

pub(super) fn deleted(of: DeleteInstanceResult) -> [u64; 4] {
    [of.instances_deleted, of.executions_deleted, of.events_deleted, of.queue_messages_deleted]
}

pub(super) fn pruned(of: PruneResult) -> [u64; 3] {
    [of.instances_processed, of.executions_deleted, of.events_deleted]
}
