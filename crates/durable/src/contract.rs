//! duroxide's `Provider`: adds metrics and spans to the methods of `claim`, `write` and `read`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};

use crate::observe::Operation;
use crate::provider::PostgresProvider;
use crate::token::{ActivityToken, TurnToken};
use crate::write::{TurnChanges, receiver};

/// The instance of a token, for a span; `None` if the token is invalid.
fn turn_instance(token: &str) -> Option<String> {
    TurnToken::parse(token).map(|token| token.instance)
}

fn activity_instance(token: &str) -> Option<String> {
    ActivityToken::parse(token).map(|token| token.instance)
}

type Fetched<T> = Result<Option<(T, String, u32)>, ProviderError>;

#[async_trait]
impl Provider for PostgresProvider {
    fn name(&self) -> &str {
        "reveille-postgres"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    #[tracing::instrument(level = "debug", skip_all, fields(instance_id))]
    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Fetched<OrchestrationItem> {
        let since = Instant::now();
        let fetched = self.fetch_turn(lock_timeout, poll_timeout, filter).await;
        Operation::Fetch.record(since, &fetched);
        let fetched = fetched.map_err(|failure| failure.error)?;
        Ok(fetched.map(|turn| {
            tracing::Span::current().record("instance_id", &turn.item.instance);
            tracing::debug!(instance_id = %turn.item.instance, attempt = turn.attempt, "fetched orchestration item");
            (turn.item, turn.token.to_string(), turn.attempt)
        }))
    }

    #[tracing::instrument(level = "debug", skip_all, fields(instance_id = turn_instance(lock_token), execution_id = execution_id))]
    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError> {
        let changes = TurnChanges {
            execution: execution_id,
            events: history_delta,
            activities: worker_items,
            messages: orchestrator_items,
            metadata,
            cancelled: cancelled_activities,
        };
        self.ack_turn(lock_token, changes).await.map_err(|failure| failure.error)
    }

    #[tracing::instrument(level = "debug", skip_all, fields(instance_id = turn_instance(lock_token)))]
    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.abandon_turn(lock_token, delay, ignore_attempt).await
    }

    #[tracing::instrument(level = "debug", skip_all, fields(instance_id = instance))]
    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        if let Some(history) = self.history_of_claimed(instance) {
            return Ok(history);
        }
        self.read_latest("read", instance).await
    }

    #[tracing::instrument(level = "debug", skip_all, fields(instance_id = instance, execution_id = execution_id))]
    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Result<Vec<Event>, ProviderError> {
        self.read_execution("read_with_execution", instance, execution_id).await
    }

    #[tracing::instrument(level = "debug", skip_all, fields(instance_id = instance, execution_id = execution_id))]
    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        self.append(instance, execution_id, &new_events).await
    }

    #[tracing::instrument(level = "debug", skip_all, fields(instance_id = receiver(&item)))]
    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.enqueue_activity(&item).await
    }

    #[tracing::instrument(level = "debug", skip_all, fields(instance_id))]
    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Fetched<WorkItem> {
        let since = Instant::now();
        let fetched = self.fetch_activity(lock_timeout, poll_timeout, session, tag_filter).await;
        Operation::Dequeue.record(since, &fetched);
        let fetched = fetched.map_err(|failure| failure.error)?;
        Ok(fetched.map(|(item, token, attempt)| {
            tracing::Span::current().record("instance_id", &token.instance);
            tracing::debug!(instance_id = %token.instance, attempt, "fetched work item");
            (item, token.to_string(), attempt)
        }))
    }

    #[tracing::instrument(level = "debug", skip_all, fields(instance_id = activity_instance(token)))]
    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        self.ack_activity(token, completion.as_ref()).await.map_err(|failure| failure.error)
    }

    #[tracing::instrument(level = "debug", skip_all, fields(instance_id = activity_instance(token)))]
    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        self.renew_activity(token, extend_for).await
    }

    #[tracing::instrument(level = "debug", skip_all)]
    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        self.renew_sessions(owner_ids, extend_for, idle_timeout).await
    }

    #[tracing::instrument(level = "debug", skip_all)]
    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
        self.clean_sessions().await
    }

    #[tracing::instrument(level = "debug", skip_all, fields(instance_id = activity_instance(token)))]
    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.abandon_activity(token, delay, ignore_attempt).await
    }

    #[tracing::instrument(level = "debug", skip_all, fields(instance_id = turn_instance(token)))]
    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        self.renew_turn(token, extend_for).await
    }

    #[tracing::instrument(level = "debug", skip_all, fields(instance_id = receiver(&item)))]
    async fn enqueue_for_orchestrator(&self, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
        let since = Instant::now();
        let sent = self.enqueue_message(&item, delay).await;
        Operation::Enqueue.record(since, &sent);
        sent.map_err(|failure| failure.error)
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        self.custom_status(instance, last_seen_version).await
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        self.kv_value(instance, key).await
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        self.kv_values(instance).await
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        self.instance_stats(instance).await
    }
}
