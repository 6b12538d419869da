//! Fetches: waiting for work with long polling, or returning at once without.

use std::time::Duration;

use duroxide::providers::{DispatcherCapabilityFilter, ProviderError, SessionFetchConfig, TagFilter, WorkItem};
use reveille_pg::retry::Backoff;
use reveille_wake::{Claim, Claimed, Consumer};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::activity::{ActivityKey, session_owner};
use super::turn::{Turn, TurnKey};
use crate::observe::Failure;
use crate::provider::PostgresProvider;
use crate::token::ActivityToken;

/// Pauses between attempts of a fetch without long polling, while the database is unavailable.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_LONGEST: Duration = Duration::from_secs(1);
/// The least time that a fetch without long polling waits for the answer of the database.
const POLL_TIMEOUT_MIN: Duration = Duration::from_secs(2);

impl PostgresProvider {
    pub(crate) async fn fetch_turn(
        &self,
        lease: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<Turn>, Failure> {
        let deadline = self.deadline(poll_timeout);
        let Some(key) = TurnKey::new(lease, filter) else { return self.sleep_until_deadline(deadline).await };
        let claimed = self.fetch("fetch_orchestration_item", &self.inner.turns, key, || (), deadline).await?;
        Ok(claimed.and_then(|claimed| claimed.accept().pop()))
    }

    pub(crate) async fn fetch_activity(
        &self,
        lease: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Option<(WorkItem, ActivityToken, u32)>, Failure> {
        const OPERATION: &str = "fetch_work_item";
        let deadline = self.deadline(poll_timeout);
        let Some(key) = ActivityKey::new(lease, tags) else { return self.sleep_until_deadline(deadline).await };
        loop {
            let claimed =
                self.fetch(OPERATION, &self.inner.activities, key.clone(), || session_owner(session), deadline).await?;
            let Some(activity) = claimed.and_then(|claimed| claimed.accept().pop()) else { return Ok(None) };
            if let Some(item) = activity.item {
                if let WorkItem::ActivityExecute { instance, execution_id, .. } = &item {
                    self.inner.claimed_activities.claimed(instance, *execution_id as i64);
                }
                return Ok(Some((item, activity.token, activity.attempt)));
            }
            // It can never be executed, so it is removed, and the queue behind it moves on.
            tracing::error!(instance_id = %activity.token.instance, "dropped an activity that cannot be decoded");
            self.ack_activity(&activity.token.to_string(), None).await?;
        }
    }

    /// Until when a fetch waits.
    fn deadline(&self, poll_timeout: Duration) -> Instant {
        Instant::now() + poll_timeout.min(self.inner.config.max_wait_time)
    }

    /// A fetch with a filter that accepts nothing waits like any other.
    async fn sleep_until_deadline<T>(&self, deadline: Instant) -> Result<Option<T>, Failure> {
        if self.inner.config.enabled {
            sleep_until(deadline).await;
        }
        Ok(None)
    }

    /// Claims one item by the deadline. If there is none, but acks of this process were under way when the fetch began,
    /// it polls once more after their commits.
    async fn fetch<C: Claim>(
        &self,
        operation: &'static str,
        consumer: &Consumer<C>,
        key: C::Key,
        args: impl Fn() -> C::Args,
        deadline: Instant,
    ) -> Result<Option<Claimed<C>>, Failure> {
        let acks = self.inner.pipeline.under_way();
        let claimed = self.fetch_by(operation, consumer, &key, &args, deadline).await?;
        let Some(acks) = acks.filter(|_| claimed.is_none()) else { return Ok(claimed) };
        self.inner.pipeline.ended(acks).await;
        self.fetch_by(operation, consumer, &key, &args, Instant::now()).await
    }

    /// With long polling it waits for an item; without, it polls once. Both retry while the database is unavailable: an
    /// error would make the runtime back off for seconds.
    async fn fetch_by<C: Claim>(
        &self,
        operation: &'static str,
        consumer: &Consumer<C>,
        key: &C::Key,
        args: impl Fn() -> C::Args,
        deadline: Instant,
    ) -> Result<Option<Claimed<C>>, Failure> {
        let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
        loop {
            let claimed = match self.inner.config.enabled {
                true => consumer.claim(key.clone(), 1, args(), deadline).await,
                false => {
                    let answer_by = deadline.max(Instant::now() + POLL_TIMEOUT_MIN);
                    match timeout_at(answer_by, consumer.claim_now(key.clone(), 1, args())).await {
                        Ok(claimed) => claimed,
                        Err(_) => {
                            let late = ProviderError::retryable(operation, "the database did not answer in time");
                            return Err(Failure::late(late));
                        }
                    }
                }
            };
            let error = match claimed {
                Ok(claimed) => return Ok(claimed),
                Err(error) => error,
            };
            if matches!(error, reveille_wake::Error::Closed { .. }) {
                return Err(Failure::own(ProviderError::permanent(operation, "the provider is closed")));
            }
            if !error.is_transient() || Instant::now() >= deadline {
                return Err(Failure::engine(operation, &error));
            }
            sleep(backoff.pause().min(deadline.saturating_duration_since(Instant::now()))).await;
        }
    }
}
