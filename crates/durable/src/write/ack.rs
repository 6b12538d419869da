//! Acks, abandons and renewals of leases.
//!
//! An error from an ack makes the runtime *fail the user's workflow*. So an ack returns no transient error: it retries
//! until its outcome is known, or until its lease has certainly expired. After that, whatever the runtime does with the
//! same token is rejected as well.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{ExecutionMetadata, ProviderError, ScheduledActivityIdentifier, WorkItem};
use duroxide::{Event, EventKind};
use reveille_pg::LogLimit;
use reveille_pg::retry::Policy;
use reveille_wake::Writer;
use sqlx::postgres::PgRow;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::abandon::{Abandon, AbandonOutcome, AbandonedLease};
use super::activities::ScheduledActivity;
use super::commit::{AckOutcome, CommitWrite, FinishedActivity};
use super::finished_turn::{Cancellation, EventBatch, FinishedTurn, KeyChanges};
use super::message::{Message, millis};
use crate::claim::packed_version;
use crate::observe::Failure;
use crate::provider::PostgresProvider;
use crate::queries::column;
use crate::read::{ExecutionKey, Head, write_events};
use crate::text::{escape, unescape};
use crate::token::{ActivityToken, TurnToken};

/// Limits the log line of acks that wait for the database: they fail together, each every two seconds.
static LOG_LIMIT: LogLimit = LogLimit::new(Duration::from_secs(1));

/// What a turn changed, as the runtime passes it to the ack.
pub(crate) struct TurnChanges {
    pub(crate) execution: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) activities: Vec<WorkItem>,
    pub(crate) messages: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}

impl PostgresProvider {
    pub(crate) async fn ack_turn(&self, lock_token: &str, changes: TurnChanges) -> Result<(), Failure> {
        const OPERATION: &str = "ack_orchestration_item";
        let reject = |why: &str| Err(Failure::own(ProviderError::permanent(OPERATION, why)));
        let Some(token) = TurnToken::parse(lock_token) else { return reject("Invalid lock token") };
        let turn = Arc::new(FinishedTurn::new(OPERATION, token.clone(), &changes).map_err(Failure::own)?);
        let acked = self.until_known(OPERATION, CommitWrite::Turn(turn.clone()), token.fence).await;
        let inner = &self.inner;
        if acked.is_err() {
            inner.histories.forget(&token.instance);
        }
        inner.leases.ended(token.fence);
        match acked? {
            AckOutcome::Applied { generation, .. } => {
                // A turn that began no execution does not change the generation. If it has changed since the claim, the
                // next claim notices.
                let generation =
                    generation.or_else(|| inner.histories.head(&token.instance).map(|cached| cached.generation));
                if let Some((events, generation)) = turn.events.as_ref().zip(generation) {
                    let head = Head { execution: turn.execution, generation, last: events.last };
                    inner.histories.append(&token.instance, head, &changes.events, events.json.len());
                }
                Ok(())
            }
            AckOutcome::Gone => reject("Invalid lock token: the turn was acked before, or its instance claimed again"),
            AckOutcome::Expired => reject("the lock has expired"),
            AckOutcome::Duplicate => reject("duplicate event id: the history has an event with such an id"),
        }
    }

    pub(crate) async fn ack_activity(&self, token: &str, completion: Option<&WorkItem>) -> Result<(), Failure> {
        const OPERATION: &str = "ack_work_item";
        let reject = |why: &str| Err(Failure::own(ProviderError::permanent(OPERATION, why)));
        let Some(token) = ActivityToken::parse(token) else { return reject("Invalid lock token") };
        let completion = match completion {
            Some(item @ (WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. })) => {
                Some(Message::new(OPERATION, item, Some(Duration::ZERO)).map_err(Failure::own)?)
            }
            Some(_) => return reject("invalid completion: must be ActivityCompleted or ActivityFailed"),
            None => None,
        };
        let activity = Arc::new(FinishedActivity { token: token.clone(), completion });
        let acked = self.until_known(OPERATION, CommitWrite::Activity(activity), token.fence).await;
        self.inner.leases.ended(token.fence);
        match acked? {
            AckOutcome::Applied { .. } => Ok(()),
            AckOutcome::Expired => reject("the lock has expired"),
            AckOutcome::Gone | AckOutcome::Duplicate => {
                reject("the activity was cancelled, acked before, or claimed again after its lease expired")
            }
        }
    }

    pub(crate) async fn abandon_turn(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        uncounted: bool,
    ) -> Result<(), ProviderError> {
        let lease =
            TurnToken::parse(lock_token).map(|token| (token.fence, AbandonedLease::turn(token, delay, uncounted)));
        self.abandon("abandon_orchestration_item", &self.inner.turn_abandons, lease).await
    }

    pub(crate) async fn abandon_activity(
        &self,
        token: &str,
        delay: Option<Duration>,
        uncounted: bool,
    ) -> Result<(), ProviderError> {
        let lease =
            ActivityToken::parse(token).map(|token| (token.fence, AbandonedLease::activity(token, delay, uncounted)));
        self.abandon("abandon_work_item", &self.inner.activity_abandons, lease).await
    }

    /// Abandons a lease; `None`: the token is invalid.
    async fn abandon(
        &self,
        operation: &'static str,
        writer: &Writer<Abandon>,
        lease: Option<(Uuid, AbandonedLease)>,
    ) -> Result<(), ProviderError> {
        let rejected = || ProviderError::permanent(operation, "Invalid lock token, or already acked");
        let (fence, lease) = lease.ok_or_else(rejected)?;
        let submitted = writer.submit(lease).await;
        self.inner.count_write();
        self.inner.leases.ended(fence);
        match submitted.map_err(|error| crate::error::engine(operation, &error))? {
            AbandonOutcome::Released => Ok(()),
            AbandonOutcome::Gone => Err(rejected()),
        }
    }

    pub(crate) async fn renew_turn(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        const OPERATION: &str = "renew_orchestration_item_lock";
        let rejected = || ProviderError::permanent(OPERATION, "the lock token is invalid, expired or acked");
        let token = TurnToken::parse(token).ok_or_else(rejected)?;
        let rows = self
            .rows(OPERATION, &self.inner.queries.renew_instance, |query| {
                query.bind(token.instance.clone()).bind(token.fence).bind(millis(extend_for))
            })
            .await?;
        self.renewed(OPERATION, &rows, token.fence, extend_for, rejected)
    }

    pub(crate) async fn renew_activity(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        const OPERATION: &str = "renew_work_item_lock";
        let rejected = || ProviderError::permanent(OPERATION, "the activity was cancelled or its lock has expired");
        let token = ActivityToken::parse(token).ok_or_else(rejected)?;
        let rows = self
            .rows(OPERATION, &self.inner.queries.renew_work, |query| {
                query.bind(token.instance.clone()).bind(token.id).bind(token.fence).bind(millis(extend_for))
            })
            .await?;
        self.renewed(OPERATION, &rows, token.fence, extend_for, rejected)
    }

    fn renewed(
        &self,
        operation: &'static str,
        rows: &[PgRow],
        fence: Uuid,
        lease: Duration,
        rejected: impl Fn() -> ProviderError,
    ) -> Result<(), ProviderError> {
        let renewed = rows.first().map_or(Ok(0), |row| column::<i64>(operation, row, 0))?;
        if renewed == 0 {
            return Err(rejected());
        }
        self.inner.leases.granted(fence, lease, Instant::now());
        Ok(())
    }

    /// Sends the write until its outcome is known, or its lease has certainly expired.
    ///
    /// A write with an unknown outcome is sent again: if the first one was applied, the token is gone, and the runtime
    /// can do nothing with it either.
    async fn until_known(
        &self,
        operation: &'static str,
        write: CommitWrite,
        fence: Uuid,
    ) -> Result<AckOutcome, Failure> {
        self.inner.count_write();
        let expired = || self.inner.leases.has_certainly_expired(fence);
        let acked = retry_until(operation, expired, || self.inner.commits.submit(write.clone())).await;
        if acked.is_ok() {
            self.inner.count_write();
        }
        acked.map_err(|error| {
            let mut failure = Failure::engine(operation, &error);
            // Permanent for the runtime even if it is transient: nothing can be done with this token any more.
            failure.error.retryable = false;
            failure
        })
    }
}

/// Retries transient errors until the lease has `expired`, with pauses, because an attempt may fail at once.
async fn retry_until<T, F: Future<Output = reveille_wake::Result<T>>>(
    operation: &'static str,
    expired: impl Fn() -> bool,
    attempt: impl Fn() -> F,
) -> reveille_wake::Result<T> {
    let mut backoff = Policy::default().backoff();
    loop {
        match attempt().await {
            Err(error) if error.is_transient() && !expired() => {
                if let Some(suppressed) = LOG_LIMIT.permit() {
                    let error = reveille_pg::causes(&error);
                    tracing::warn!(operation, %error, suppressed, "ack failed; retrying until its lease expires");
                }
                sleep(backoff.pause()).await;
            }
            result => return result,
        }
    }
}

impl FinishedTurn {
    /// # Errors
    /// If something cannot be stored.
    fn new(operation: &'static str, token: TurnToken, changes: &TurnChanges) -> Result<FinishedTurn, ProviderError> {
        let text = |text: &Option<String>| text.as_deref().map(|text| escape(text).into_owned());
        let metadata = &changes.metadata;
        let cancelled: HashSet<(&str, u64, u64)> = changes
            .cancelled
            .iter()
            .map(|activity| (activity.instance.as_str(), activity.execution_id, activity.activity_id))
            .collect();
        let is_cancelled = |item: &WorkItem| match item {
            WorkItem::ActivityExecute { instance, execution_id, id, .. } => {
                cancelled.contains(&(instance.as_str(), *execution_id, *id))
            }
            _ => false,
        };
        let custom_status = changes.events.iter().rev().find_map(|event| match &event.kind {
            EventKind::CustomStatusUpdated { status } => Some(text(status)),
            _ => None,
        });
        let activities = changes.activities.iter().filter(|item| !is_cancelled(item));
        let instance = unescape(token.instance.clone());
        let execution = ExecutionKey { instance: &instance, execution: changes.execution };
        Ok(FinishedTurn {
            token,
            execution: changes.execution as i64,
            events: event_batch(operation, &execution, &changes.events)?,
            name: text(&metadata.orchestration_name),
            version: text(&metadata.orchestration_version),
            parent: text(&metadata.parent_instance_id),
            pinned_version: metadata.pinned_duroxide_version.as_ref().map(packed_version),
            status: text(&metadata.status),
            output: text(&metadata.output),
            custom_status,
            activities: activities.map(|item| ScheduledActivity::new(operation, item)).collect::<Result<_, _>>()?,
            cancellations: changes
                .cancelled
                .iter()
                .map(|cancelled| Cancellation {
                    instance: escape(&cancelled.instance).into_owned(),
                    execution: cancelled.execution_id as i64,
                    activity: cancelled.activity_id as i64,
                })
                .collect(),
            messages: changes
                .messages
                .iter()
                .map(|item| Message::new(operation, item, None))
                .collect::<Result<_, _>>()?,
            keys: KeyChanges::of(&changes.events),
            sent: false.into(),
        })
    }
}

/// Events as one row of the history; `None` for no events.
///
/// # Errors
/// If an id is missing or the ids are not in order: the runtime sets them.
pub(crate) fn event_batch(
    operation: &'static str,
    execution: &ExecutionKey<'_>,
    events: &[Event],
) -> Result<Option<EventBatch>, ProviderError> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(None) };
    if first.event_id == 0 {
        return Err(ProviderError::permanent(operation, "invalid event id: must not be 0"));
    }
    if !events.is_sorted_by(|one, next| one.event_id < next.event_id) {
        return Err(ProviderError::permanent(operation, "invalid event ids: must be strictly increasing"));
    }
    let json = write_events(events, execution)
        .map_err(|error| ProviderError::permanent(operation, format!("an event cannot be encoded as JSON: {error}")))?;
    Ok(Some(EventBatch { first: first.event_id as i64, last: last.event_id as i64, count: events.len() as i32, json }))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    /// An ack whose attempts fail at once is retried until its lease expires, with pauses in between.
    #[tokio::test(start_paused = true)]
    async fn a_failing_ack_is_retried_with_pauses_until_its_lease_expires() {
        const LEASE: Duration = Duration::from_secs(60);
        let (since, attempts) = (Instant::now(), Cell::new(0));
        let attempt = async || {
            attempts.set(attempts.get() + 1);
            assert!(attempts.get() < 1_000, "no pauses");
            Err::<(), _>(reveille_wake::Error::Full { consumer: "commit".into(), limit: 1 })
        };
        let result = retry_until("op", || since.elapsed() >= LEASE, attempt).await;
        assert!(result.is_err_and(|error| error.is_transient()));
        assert!(since.elapsed() >= LEASE && attempts.get() > 10, "{} attempts", attempts.get());
    }

    /// A permanent error is returned at once.
    #[tokio::test(start_paused = true)]
    async fn a_rejected_ack_is_not_retried() {
        let attempts = Cell::new(0);
        let attempt = async || {
            attempts.set(attempts.get() + 1);
            Err::<(), _>(reveille_wake::Error::Closed { what: "commit".into() })
        };
        assert!(retry_until("op", || false, attempt).await.is_err());
        assert_eq!(attempts.get(), 1);
    }

    fn event(id: u64) -> Event {
        Event::with_event_id(id, "i", 1, None, EventKind::KeyValuesCleared)
    }

    /// Event ids must be set and strictly increasing.
    #[test]
    fn event_ids_must_be_in_order() {
        let of = ExecutionKey { instance: "i", execution: 1 };
        assert_eq!(event_batch("op", &of, &[]).expect("none"), None);
        let batch = event_batch("op", &of, &[event(2), event(5)]).expect("in order").expect("some");
        assert_eq!((batch.first, batch.last, batch.count), (2, 5, 2));
        assert_eq!(crate::read::read_events(&batch.json, &of).expect("events").len(), 2);
        for wrong in [[0, 1], [3, 3], [4, 2]] {
            let events = wrong.map(event);
            assert!(!event_batch("op", &of, &events).expect_err("out of order").is_retryable());
        }
    }
}
