//! Acks, abandons and renewals of leases.
//!
//! An error from an ack makes the runtime *fail the user's workflow*. So an ack returns no transient error: it retries
//! until its outcome is known, or until its lease has certainly expired. After that, whatever the runtime does with the
//! same token is rejected as well.

use std::future::Ready;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{ProviderError, WorkItem};
use reveille_pg::LogLimit;
use reveille_pg::retry::Policy;
use reveille_wake::{Error, Writer};
use sqlx::postgres::PgRow;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::abandon::{Abandon, AbandonOutcome, AbandonedLease};
use super::commit::{AckOutcome, CommitWrite, FinishedActivity};
use super::finished_turn::{FinishedTurn, TurnChanges};
use super::message::{Message, millis};
use super::pipeline::BYTES_MAX;
use crate::claim::LeasedItem;
use crate::observe::{self, Failure, Operation};
use crate::provider::PostgresProvider;
use crate::queries::column;
use crate::token::{ActivityToken, TurnToken};

/// Limits the log line of acks that wait for the database: they fail together, each every two seconds.
static LOG_LIMIT: LogLimit = LogLimit::new(Duration::from_secs(1));

impl PostgresProvider {
    pub(crate) async fn ack_turn(&self, lock_token: &str, changes: TurnChanges) -> Result<(), Failure> {
        const OPERATION: Operation = Operation::AckOrch;
        let Some(token) = TurnToken::parse(lock_token) else { return Err(OPERATION.reject("Invalid lock token")) };
        let turn = Arc::new(FinishedTurn::new(OPERATION.method(), token, changes).map_err(Failure::own)?);
        let cancelled = &turn.cancellations;
        if !cancelled.is_empty() {
            self.inner.leases.cancelled(|item| cancelled.iter().any(|cancelled| cancelled.is(item)));
        }
        self.ack(OPERATION, turn.token.fence, CommitWrite::Turn(turn.clone()), |item| turn.may_be_pipelined(item)).await
    }

    pub(crate) async fn ack_activity(&self, token: &str, completion: Option<&WorkItem>) -> Result<(), Failure> {
        const OPERATION: Operation = Operation::AckWorker;
        let Some(token) = ActivityToken::parse(token) else { return Err(OPERATION.reject("Invalid lock token")) };
        let completion = match completion {
            Some(item @ (WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. })) => {
                let message = Message::new(OPERATION.method(), item, Some(Duration::ZERO));
                Some(message.map_err(Failure::own)?)
            }
            Some(_) => {
                return Err(OPERATION.reject("invalid completion: must be ActivityCompleted or ActivityFailed"));
            }
            None => None,
        };
        let fence = token.fence;
        let activity = Arc::new(FinishedActivity { token, completion });
        self.ack(OPERATION, fence, CommitWrite::Activity(activity), |_| true).await
    }

    /// Acks a lease: pipelined if its item `allows` it, otherwise once the outcome is known.
    async fn ack(
        &self,
        operation: Operation,
        fence: Uuid,
        write: CommitWrite,
        allows: impl FnOnce(&LeasedItem) -> bool,
    ) -> Result<(), Failure> {
        let since = std::time::Instant::now();
        let inner = &self.inner;
        inner.claimed_activities.forget();
        inner.count_write();
        if write.bytes() <= BYTES_MAX
            && let Some(pending) = inner.pipeline.begin(write.instance())
            && inner.leases.begin_ack(fence, allows)
        {
            // In the batch before this returns, so that acks are committed in the order of the calls.
            let first = inner.commits.submit_now(write.clone());
            let me = self.clone();
            tokio::spawn(async move {
                let acked = me.until_known(operation, &write, fence, first).await;
                let still_leased = matches!(&acked, Ok(AckOutcome::Duplicate) | Err(Error::Refused { .. }));
                let acked = acked_or_rejected(operation, acked);
                operation.record(since, &acked);
                if let Err(failure) = acked {
                    observe::lost_ack(operation, write.instance(), &failure);
                }
                if still_leased {
                    me.release(&write).await;
                }
                drop(pending);
            });
            return Ok(());
        }
        self.after_pipelined(fence, write.instance()).await;
        let acked = self.until_known(operation, &write, fence, None::<Ready<_>>).await;
        let acked = acked_or_rejected(operation, acked);
        operation.record(since, &acked);
        acked
    }

    /// Releases the lease of an ack that was refused, so that its item is claimed again at once. That is its second
    /// attempt, whose ack is not pipelined, so the runtime learns why it fails.
    async fn release(&self, write: &CommitWrite) {
        let inner = &self.inner;
        let released = match write {
            CommitWrite::Turn(turn) => {
                inner.turn_abandons.submit(AbandonedLease::turn(turn.token.clone(), None, false)).await
            }
            CommitWrite::Activity(activity) => {
                inner.activity_abandons.submit(AbandonedLease::activity(activity.token.clone(), None, false)).await
            }
            CommitWrite::Message(_) => return,
        };
        if let Err(error) = released {
            tracing::debug!(%error, "cannot release the lease of a refused ack; it expires");
        }
    }

    /// Waits for the pipelined ack of a lease, if there is one: what follows is then answered by the database.
    async fn after_pipelined(&self, fence: Uuid, instance: &str) {
        if self.inner.leases.is_acking(fence) {
            self.inner.pipeline.ended_of(instance).await;
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
        self.after_pipelined(fence, lease.instance()).await;
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
        self.after_pipelined(token.fence, &token.instance).await;
        let sent = Instant::now();
        let rows = self
            .rows_at_once(OPERATION, &self.inner.queries.renew_instance, |query| {
                query.bind(token.instance.clone()).bind(token.fence).bind(millis(extend_for))
            })
            .await?;
        self.renewed(OPERATION, &rows, (token.fence, extend_for, sent), rejected)
    }

    pub(crate) async fn renew_activity(&self, token: &str, extend_for: Duration) -> Result<(), ProviderError> {
        const OPERATION: &str = "renew_work_item_lock";
        let rejected = || ProviderError::permanent(OPERATION, "the activity was cancelled or its lock has expired");
        let token = ActivityToken::parse(token).ok_or_else(rejected)?;
        self.after_pipelined(token.fence, &token.instance).await;
        let sent = Instant::now();
        let rows = self
            .rows_at_once(OPERATION, &self.inner.queries.renew_work, |query| {
                query.bind(token.instance.clone()).bind(token.id).bind(token.fence).bind(millis(extend_for))
            })
            .await?;
        self.renewed(OPERATION, &rows, (token.fence, extend_for, sent), rejected)
    }

    fn renewed(
        &self,
        operation: &'static str,
        rows: &[PgRow],
        (fence, lease, sent): (Uuid, Duration, Instant),
        rejected: impl Fn() -> ProviderError,
    ) -> Result<(), ProviderError> {
        let renewed = rows.first().map_or(Ok(0), |row| column::<i64>(operation, row, 0))?;
        if renewed == 0 {
            return Err(rejected());
        }
        self.inner.leases.renewed(fence, lease, sent);
        Ok(())
    }

    /// Sends the write until its outcome is known, or its lease has certainly expired; `first` is an attempt that has
    /// begun.
    ///
    /// A write with an unknown outcome is sent again: if the first one was applied, the token is gone, and the runtime
    /// can do nothing with it either.
    async fn until_known(
        &self,
        operation: Operation,
        write: &CommitWrite,
        fence: Uuid,
        mut first: Option<impl Future<Output = reveille_wake::Result<AckOutcome>>>,
    ) -> reveille_wake::Result<AckOutcome> {
        let inner = &self.inner;
        let expired = || inner.leases.has_certainly_expired(fence);
        let attempt = || {
            let first = first.take();
            async {
                match first {
                    Some(first) => first.await,
                    None => inner.commits.submit(write.clone()).await,
                }
            }
        };
        let acked = retry_until(operation.method(), expired, attempt).await;
        match (&acked, write) {
            (Ok(_), _) => inner.count_write(),
            (Err(_), CommitWrite::Turn(turn)) => inner.histories.forget(&turn.token.instance),
            _ => {}
        }
        inner.leases.ended(fence);
        acked
    }
}

/// What the runtime gets for an ack.
fn acked_or_rejected(operation: Operation, acked: reveille_wake::Result<AckOutcome>) -> Result<(), Failure> {
    let outcome = acked.map_err(|error| {
        let mut failure = Failure::engine(operation.method(), &error);
        // Permanent for the runtime even if it is transient: nothing can be done with this token any more.
        failure.error.retryable = false;
        failure
    })?;
    Err(operation.reject(match (outcome, operation) {
        (AckOutcome::Applied { .. }, _) => return Ok(()),
        (AckOutcome::Expired, _) => "the lock has expired",
        (AckOutcome::Duplicate, _) => "duplicate event id: the history has an event with such an id",
        (AckOutcome::Gone, Operation::AckOrch) => {
            "Invalid lock token: the turn was acked before, or its instance claimed again"
        }
        (AckOutcome::Gone, _) => "the activity was cancelled, acked before, or claimed again after its lease expired",
    }))
}

/// Retries transient errors until the lease has `expired`, with pauses, because an attempt may fail at once.
async fn retry_until<T, F: Future<Output = reveille_wake::Result<T>>>(
    operation: &'static str,
    expired: impl Fn() -> bool,
    mut attempt: impl FnMut() -> F,
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
}
