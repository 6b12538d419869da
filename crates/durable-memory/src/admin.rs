//! The administrative side: lists, figures, deletion.
//!
//! These may look at everything that is stored; none of them is on the path of a turn or an activity.

use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, ProviderAdmin, ProviderError, PruneOptions,
    PruneResult, QueueDepths, SystemMetrics,
};
use duroxide::{Event, INITIAL_EXECUTION_ID};

use crate::history::History;
use crate::instance::{Instance, RUNNING};
use crate::provider::{MemoryProvider, refused};

impl MemoryProvider {
    /// Instances that exist for clients and satisfy `filter`, the newest first.
    fn list(&self, filter: impl Fn(&Instance) -> bool) -> Vec<String> {
        self.read(|state| {
            let ids = state.oldest_first().into_iter().rev().filter(|id| filter(&state.instances[id]));
            ids.map(|id| id.to_string()).collect()
        })
    }
}

fn not_found(operation: &str, instance: &str) -> ProviderError {
    ProviderError::permanent(operation, format!("instance {instance} not found"))
}

#[async_trait::async_trait]
impl ProviderAdmin for MemoryProvider {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        Ok(self.list(|_| true))
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        Ok(self.list(|instance| instance.current().is_some_and(|current| current.status == status)))
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        let ids = |instance: &Instance| instance.executions.keys().copied().collect();
        Ok(self.read(|state| state.instances.get(instance).map(ids).unwrap_or_default()))
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.history("read_history_with_execution_id", instance, Some(execution_id))
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.history("read_history", instance, None)
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        Ok(self.read(|state| state.instances.get(instance).map_or(INITIAL_EXECUTION_ID, Instance::latest)))
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        let info = self.read(|state| state.instances.get(instance).and_then(|found| found.info(instance)));
        info.ok_or_else(|| not_found("get_instance_info", instance))
    }

    async fn get_execution_info(&self, instance: &str, execution_id: u64) -> Result<ExecutionInfo, ProviderError> {
        let info = |instance: &Instance| {
            let execution = instance.executions.get(&execution_id)?;
            Some(ExecutionInfo {
                execution_id,
                status: execution.status.clone(),
                output: execution.output.clone(),
                started_at: execution.started.millis(),
                completed_at: execution.completed.map(|completed| completed.millis()),
                event_count: instance.histories.get(&execution_id).map_or(0, History::len),
            })
        };
        self.read(|state| state.instances.get(instance).and_then(info)).ok_or_else(|| {
            let why = format!("execution {execution_id} of instance {instance} not found");
            ProviderError::permanent("get_execution_info", why)
        })
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        Ok(self.read(|state| {
            let mut metrics = SystemMetrics::default();
            for instance in state.instances.values() {
                metrics.total_executions += instance.executions.len() as u64;
                metrics.total_events += instance.events();
                metrics.total_instances += u64::from(instance.profile.is_some());
                match instance.current().map(|current| current.status.as_str()) {
                    Some(RUNNING) => metrics.running_instances += 1,
                    Some("Completed") => metrics.completed_instances += 1,
                    Some("Failed") => metrics.failed_instances += 1,
                    _ => {}
                }
            }
            metrics
        }))
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        Ok(self.write(|state, now| QueueDepths {
            orchestrator_queue: state.instances.values().map(|instance| instance.inbox.free(now)).sum(),
            worker_queue: state.work.free(now),
            // Timers are messages for an orchestration.
            timer_queue: 0,
        }))
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>, ProviderError> {
        Ok(self.read(|state| {
            let children = state.children.get(instance_id).into_iter().flatten();
            children.map(|child| child.to_string()).collect()
        }))
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>, ProviderError> {
        let parent = |instance: &Instance| instance.profile.as_ref().map(|profile| profile.parent.clone());
        self.read(|state| state.instances.get(instance_id).and_then(parent))
            .ok_or_else(|| not_found("get_parent_id", instance_id))
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.write(|state, _| state.delete(ids, force)).map_err(refused("delete_instances_atomic"))
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Result<DeleteInstanceResult, ProviderError> {
        Ok(self.write(|state, _| state.delete_matching(&filter)))
    }

    async fn prune_executions(&self, instance_id: &str, options: PruneOptions) -> Result<PruneResult, ProviderError> {
        self.write(|state, _| state.prune(instance_id, &options))
            .ok_or_else(|| not_found("prune_executions", instance_id))
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        Ok(self.write(|state, _| state.prune_matching(&filter, &options)))
    }
}
