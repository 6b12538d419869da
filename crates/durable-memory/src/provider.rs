//! The provider itself: duroxide's calls on the stored state, and the waiting.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::clock::{Clock, Time};
use crate::inbox::Pins;
use crate::instance::Instance;
use crate::state::{OutgoingMessage, PollResult, State};
use crate::turn::Turn;
use crate::work::{Activity, ClaimRequest};

#[cfg(test)]
mod tests;

/// What a fetch does when there is nothing to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Polling {
    /// It returns at once.
    Short,
    /// It waits for work, up to the time that the runtime allows.
    Long,
}

/// A complete provider whose store is this process's memory. Clones share the store.
#[derive(Clone)]
pub struct MemoryProvider(Arc<Inner>);

struct Inner {
    polling: Polling,
    clock: Clock,
    state: Mutex<State>,
    /// Notified when an instance may be due earlier than its waiters expect.
    turns: Notify,
    /// The same for work items.
    work: Notify,
}

impl MemoryProvider {
    /// An empty store on the machine's clock.
    pub fn new(polling: Polling) -> Self {
        Self::with_clock(polling, Clock::running())
    }

    /// An empty store on a clock that the caller can move.
    pub fn with_clock(polling: Polling, clock: Clock) -> Self {
        let state = Mutex::default();
        Self(Arc::new(Inner { polling, clock, state, turns: Notify::new(), work: Notify::new() }))
    }

    /// The clock of due times and leases.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Replaces every stored event of an instance by `text`, as a user with access to a database could.
    pub fn overwrite_history(&self, instance: &str, text: &str) {
        self.write(|state, _| {
            let histories = state.instances.get_mut(instance).map(|instance| instance.histories.values_mut());
            histories.into_iter().flatten().for_each(|history| history.overwrite(text));
        });
    }

    /// The highest count of claims among the messages that wait for an instance; zero if none waits.
    pub fn max_attempts(&self, instance: &str) -> u32 {
        self.read(|state| state.instances.get(instance).map_or(0, |instance| instance.inbox.max_attempts()))
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.0.state.lock())
    }

    pub(crate) fn write<T>(&self, write: impl FnOnce(&mut State, Time) -> T) -> T {
        let mut state = self.0.state.lock();
        // Under the lock, so that due times follow the order of the calls.
        let now = self.0.clock.now();
        write(&mut state, now)
    }

    /// Polls now, after every wake-up and at every due time, until there is an item or `patience` ends. At least once.
    ///
    /// # Cancel safety
    /// What is found is returned without another await, so a dropped future holds nothing.
    async fn wait<T>(
        &self,
        changes: &Notify,
        patience: Duration,
        mut poll: impl FnMut(&mut State, Time) -> PollResult<T>,
    ) -> Option<T> {
        let deadline = match self.0.polling {
            Polling::Short => None,
            Polling::Long => Instant::now().checked_add(patience),
        };
        loop {
            // Registered before the poll: a wake-up between the poll and the sleep ends the sleep.
            let changed = changes.notified();
            let moved = self.0.clock.changes().notified();
            let next = match self.write(&mut poll) {
                PollResult::Claimed(found) => return Some(found),
                PollResult::Empty(next) => next,
            };
            let deadline = deadline.filter(|deadline| *deadline > Instant::now())?;
            let due = next.and_then(|due| self.0.clock.reaches(due)).unwrap_or(deadline);
            tokio::select! {
                () = changed => {}
                () = moved => {}
                () = sleep_until(due.min(deadline)) => {}
            }
        }
    }

    fn instance<T>(&self, id: &str, read: impl FnOnce(&Instance) -> T) -> Option<T> {
        self.read(|state| state.instances.get(id).map(read))
    }

    /// The events of one execution, the latest if `None`.
    pub(crate) fn history(
        &self,
        operation: &str,
        instance: &str,
        execution: Option<u64>,
    ) -> Result<Vec<Event>, ProviderError> {
        let read = |instance: &Instance| instance.read(execution.unwrap_or(instance.latest()));
        self.instance(instance, read).unwrap_or_else(|| Ok(Vec::new())).map_err(refused(operation))
    }
}

/// No error of memory goes away by itself.
pub(crate) fn refused(operation: &str) -> impl FnOnce(String) -> ProviderError {
    move |why| ProviderError::permanent(operation, why)
}

impl fmt::Debug for MemoryProvider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemoryProvider").field("polling", &self.0.polling).finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl Provider for MemoryProvider {
    fn name(&self) -> &str {
        "memory"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        let pins = match filter {
            None => Pins::All,
            // The contract has one range; what supports nothing gets nothing.
            Some(filter) => filter.supported_duroxide_versions.first().map_or(Pins::None, Pins::Within),
        };
        let poll = |state: &mut State, now| state.claim_turn(now, lock_timeout, pins);
        Ok(self.wait(&self.0.turns, poll_timeout, poll).await)
    }

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
        let schedules = !worker_items.is_empty();
        let turn = Turn {
            execution: execution_id,
            events: history_delta,
            work: worker_items,
            messages: orchestrator_items,
            metadata,
            cancelled: cancelled_activities,
        };
        let committed = self.write(|state, now| state.commit_turn(now, lock_token, turn));
        self.0.turns.notify_waiters();
        if schedules {
            self.0.work.notify_waiters();
        }
        committed.map_err(refused("ack_orchestration_item"))
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let abandoned = self.write(|state, now| state.abandon_turn(now, lock_token, delay, ignore_attempt));
        self.0.turns.notify_waiters();
        abandoned.map_err(refused("abandon_orchestration_item"))
    }

    async fn renew_orchestration_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        let renewed = self.write(|state, now| state.renew_turn(now, token, extend_for));
        // The lease may end earlier than it did.
        self.0.turns.notify_waiters();
        renewed.map_err(refused("renew_orchestration_item_lock"))
    }

    async fn enqueue_for_orchestrator(&self, item: WorkItem, delay: Option<Duration>) -> Result<(), ProviderError> {
        let letter = OutgoingMessage::new(item).map_err(refused("enqueue_for_orchestrator"))?;
        self.write(|state, now| state.enqueue(letter, now.after(delay.unwrap_or_default())));
        self.0.turns.notify_waiters();
        Ok(())
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.history("read", instance, None)
    }

    async fn read_with_execution(&self, instance: &str, execution_id: u64) -> Result<Vec<Event>, ProviderError> {
        self.history("read_with_execution", instance, Some(execution_id))
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        let appended = self.write(|state, _| state.append(instance, execution_id, new_events));
        // The event that starts an instance lets its messages through.
        self.0.turns.notify_waiters();
        appended.map_err(refused("append_with_execution"))
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        let activity = Activity::new(item).map_err(refused("enqueue_for_worker"))?;
        self.write(|state, now| state.enqueue_work(now, activity));
        self.0.work.notify_waiters();
        Ok(())
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        let request = ClaimRequest { tags: tag_filter, session };
        let poll = |state: &mut State, now| state.claim_work(now, lock_timeout, &request);
        let found = self.wait(&self.0.work, poll_timeout, poll).await;
        if session.is_some() && found.is_some() {
            // The session's lock may end earlier than it did.
            self.0.work.notify_waiters();
        }
        Ok(found)
    }

    async fn ack_work_item(&self, token: &str, completion: Option<WorkItem>) -> Result<(), ProviderError> {
        let completed = self.write(|state, now| state.complete_work(now, token, completion));
        self.0.turns.notify_waiters();
        completed.map_err(refused("ack_work_item"))
    }

    async fn renew_work_item_lock(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        let renewed = self.write(|state, now| state.work.renew(now, token, extend_for));
        self.0.work.notify_waiters();
        renewed.map_err(refused("renew_work_item_lock"))
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let abandoned = self.write(|state, now| state.work.abandon(now, token, delay, ignore_attempt));
        self.0.work.notify_waiters();
        abandoned.map_err(refused("abandon_work_item"))
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        let renewed = self.write(|state, now| state.work.renew_sessions(owner_ids, now, extend_for, idle_timeout));
        self.0.work.notify_waiters();
        Ok(renewed)
    }

    async fn cleanup_orphaned_sessions(&self, _idle_timeout: Duration) -> Result<usize, ProviderError> {
        Ok(self.write(|state, now| state.work.sweep_sessions(now)))
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let changed = |instance: &Instance| {
            let profile = instance.profile.as_ref()?;
            let version = profile.custom_status_version;
            (version > last_seen_version).then(|| (profile.custom_status.clone(), version))
        };
        Ok(self.instance(instance, changed).flatten())
    }

    async fn get_kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        Ok(self.instance(instance, |instance| instance.kv.get(key).map(str::to_owned)).flatten())
    }

    async fn get_kv_all_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        Ok(self.instance(instance, |instance| instance.kv.all()).unwrap_or_default())
    }

    async fn get_instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        let stats = self.instance(instance, Instance::stats);
        stats.unwrap_or(Ok(None)).map_err(refused("get_instance_stats"))
    }
}
