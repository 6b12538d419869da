//! A provider that takes its time to find nothing.
//!
//! Two of duroxide's validation functions race with themselves on a busy machine:
//!
//! - `test_multi_threaded_lock_expiration_recovery` allows 0.1 s for the first fetch, or its lease has not ended when the
//!   last fetch comes; and 0.2 s, or another fetch gets the instance first.
//! - `test_continue_as_new_unregistered_backoff` takes an empty fetch as proof that a runtime has put the turn back
//!   with a delay; the runtime may only just be fetching it, and drops that fetch when it is stopped, which gives the
//!   turn back.
//!
//! [`Patient`] wraps the providers of a factory. Fetches of a turn that do not wait run one after the other, and one
//! that finds nothing is repeated for half a second. Everything else passes through unchanged.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide::provider_validation::ProviderFactory;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};
use tokio::sync::Mutex;

/// How often an empty fetch is repeated, and the pause before each. Together less than the backoff of two seconds that
/// one of the functions inspects, and much less than the factory's `lock_timeout`, within which the other function must
/// find nothing: give it two seconds.
const REPEATS: u32 = 2;
const PAUSE: Duration = Duration::from_millis(250);

/// A factory of patient providers.
pub struct Patient<F>(pub F);

#[async_trait]
impl<F: ProviderFactory> ProviderFactory for Patient<F> {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(PatientProvider { inner: self.0.create_provider().await, fetching: Mutex::new(()) })
    }

    fn lock_timeout(&self) -> Duration {
        self.0.lock_timeout()
    }

    fn short_poll_threshold(&self) -> Duration {
        self.0.short_poll_threshold()
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        self.0.corrupt_instance_history(instance).await;
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        self.0.get_max_attempt_count(instance).await
    }
}

struct PatientProvider {
    inner: Arc<dyn Provider>,
    /// Held during a fetch that does not wait.
    fetching: Mutex<()>,
}

#[async_trait]
impl Provider for PatientProvider {
    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        if !poll_timeout.is_zero() {
            return self.inner.fetch_orchestration_item(lock_timeout, poll_timeout, filter).await;
        }
        let mut repeats = 0;
        loop {
            let fetched = {
                let _one_at_a_time = self.fetching.lock().await;
                self.inner.fetch_orchestration_item(lock_timeout, poll_timeout, filter).await?
            };
            if fetched.is_some() || repeats == REPEATS {
                return Ok(fetched);
            }
            repeats += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn version(&self) -> &str {
        self.inner.version()
    }

    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError> {
        let (inner, token) = (&self.inner, lock_token);
        inner
            .ack_orchestration_item(
                token,
                execution_id,
                history_delta,
                worker_items,
                orchestrator_items,
                metadata,
                cancelled,
            )
            .await
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.inner.abandon_orchestration_item(lock_token, delay, ignore_attempt).await
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.inner.read(instance).await
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Result<Vec<Event>, ProviderError> {
        self.inner.read_with_execution(instance, execution_id).await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        self.inner.append_with_execution(instance, execution_id, new_events).await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.inner.enqueue_for_worker(item).await
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        self.inner.fetch_work_item(lock_timeout, poll_timeout, session, tag_filter).await
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        self.inner.ack_work_item(token, completion).await
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        self.inner.renew_work_item_lock(token, extend_for).await
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        self.inner.renew_session_lock(owner_ids, extend_for, idle_timeout).await
    }

    async fn cleanup_orphaned_sessions(&self, idle_timeout: Duration) -> Result<usize, ProviderError> {
        self.inner.cleanup_orphaned_sessions(idle_timeout).await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.inner.abandon_work_item(token, delay, ignore_attempt).await
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        self.inner.renew_orchestration_item_lock(token, extend_for).await
    }

    async fn enqueue_for_orchestrator(&self, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
        self.inner.enqueue_for_orchestrator(item, delay).await
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        self.inner.as_management_capability()
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        self.inner.get_custom_status(instance, last_seen_version).await
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        self.inner.get_kv_value(instance, key).await
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        self.inner.get_kv_all_values(instance).await
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        self.inner.get_instance_stats(instance).await
    }
}
