//! Fetching: waiting for work, or not.

use std::time::Duration;

use duroxide::providers::{DispatcherCapabilityFilter, ProviderError, SessionFetchConfig, TagFilter, WorkItem};
use pg::retry::Backoff;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use wake::{Claim, Claimed, Consumer};

use crate::observe::Failure;
use crate::provider::PostgresProvider;
use crate::token::WorkToken;
use crate::turn::{Turn, TurnKey};
use crate::work::{WorkKey, sessionful};

/// Pauses between attempts of a fetch that does not wait for work, while the database is away.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_LONGEST: Duration = Duration::from_secs(1);
/// How long a fetch that does not wait for work waits for the database to answer, at least.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

impl PostgresProvider {
    pub(crate) async fn fetch_turn(
        &self,
        lease: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<Turn>, Failure> {
        let deadline = self.deadline(poll_timeout);
        let Some(key) = TurnKey::new(lease, filter) else { return self.wait_for_nothing(deadline).await };
        let claimed = self.fetch("fetch_orchestration_item", &self.inner.turns, key, || (), deadline).await?;
        Ok(claimed.and_then(|claimed| claimed.accept().pop()))
    }

    pub(crate) async fn fetch_work(
        &self,
        lease: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Option<(WorkItem, WorkToken, u32)>, Failure> {
        const OPERATION: &str = "fetch_work_item";
        let deadline = self.deadline(poll_timeout);
        let Some(key) = WorkKey::new(lease, tags) else { return self.wait_for_nothing(deadline).await };
        loop {
            let claimed =
                self.fetch(OPERATION, &self.inner.work, key.clone(), || sessionful(session), deadline).await?;
            let Some(activity) = claimed.and_then(|claimed| claimed.accept().pop()) else { return Ok(None) };
            if let Some(item) = activity.item {
                return Ok(Some((item, activity.token, activity.attempt)));
            }
            // Nobody can execute it, now or later: it goes, and the queue behind it moves on.
            tracing::error!(instance_id = %activity.token.instance, "an activity cannot be read and is dropped");
            self.ack_work(&activity.token.to_string(), None).await?;
        }
    }

    /// Until when a fetch waits.
    fn deadline(&self, poll_timeout: Duration) -> Instant {
        Instant::now() + poll_timeout.min(self.inner.config.max_wait_time)
    }

    /// A filter that accepts nothing waits like any other.
    async fn wait_for_nothing<T>(&self, deadline: Instant) -> Result<Option<T>, Failure> {
        if self.inner.config.enabled {
            sleep_until(deadline).await;
        }
        Ok(None)
    }

    /// Claims one item by the deadline. With long polling it waits for it; without, it looks once, but a database that is away is waited for all
    /// the same: an error would make the runtime back off for seconds.
    async fn fetch<C: Claim>(
        &self,
        operation: &'static str,
        consumer: &Consumer<C>,
        key: C::Key,
        args: impl Fn() -> C::Args,
        deadline: Instant,
    ) -> Result<Option<Claimed<C>>, Failure> {
        let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
        loop {
            let claimed = match self.inner.config.enabled {
                true => consumer.claim(key.clone(), 1, args(), deadline).await,
                false => {
                    let patience = deadline.max(Instant::now() + LOOK_PATIENCE);
                    match timeout_at(patience, consumer.claim_now(key.clone(), 1, args())).await {
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
            if matches!(error, wake::Error::Closed { .. }) {
                return Err(Failure::own(ProviderError::permanent(operation, "the provider is closed")));
            }
            if !error.is_transient() || Instant::now() >= deadline {
                return Err(Failure::engine(operation, &error));
            }
            sleep(backoff.pause().min(deadline.saturating_duration_since(Instant::now()))).await;
        }
    }
}
