//! Waits for an instance to end or change, woken by its acks instead of polling.

use std::time::Duration;

use duroxide::{EventKind, OrchestrationStatus};
use reveille_pg::{Schema, Sql};
use reveille_wake::{Channel, Claim, PollRequest, PollResult, Topic};
use sqlx::{PgConnection, Row};
use tokio::time::{Instant, timeout_at};

use super::Latest;
use crate::error::{Error, Result};
use crate::provider::PostgresProvider;
use crate::text::escape;

/// The longest wait: a year, far below the range of the clock.
const WAIT_MAX: Duration = Duration::from_secs(365 * 86_400);
/// How long reading the status may take after the wait has used up its timeout.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// What a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The instance has completed or failed.
    Ended,
    /// It has ended, or its custom status has a higher version.
    StatusAfter(i64),
}

/// Watches instances with the same engine that waits for work: the waiters for one instance share a poll, and an ack that
/// ends the instance or changes its status wakes them.
pub(crate) struct Watch {
    channel: Channel,
    watch: Sql,
    sweep: Sql,
}

impl Watch {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> Watch {
        Watch {
            channel,
            watch: schema.sql(reveille_pg::statement!("watch")),
            sweep: schema.sql(reveille_pg::statement!("sweep_watch")),
        }
    }
}

impl Claim for Watch {
    /// The instance, escaped.
    type Key = String;
    type Args = Until;
    /// Nothing is claimed, so there is nothing to give back.
    type Item = ();

    fn topics(&self, instance: &String) -> Vec<Topic> {
        vec![self.channel.topic_of(instance)]
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<String, Until>,
    ) -> reveille_pg::Result<PollResult<()>> {
        let row = sqlx::query(&self.watch).bind(&poll.key).fetch_optional(conn).await?;
        let mut result = PollResult::new(None);
        let Some(row) = row else { return Ok(result) };
        let (ended, version): (bool, i64) = (row.try_get(0)?, row.try_get(1)?);
        for (position, waiter) in poll.waiters.iter().enumerate() {
            let is_done = match *waiter.args {
                Until::Ended => ended,
                Until::StatusAfter(seen) => ended || version > seen,
            };
            if is_done {
                // Nothing is claimed, so the next waiter gets the same result at once.
                result.give(position, (), Some(Duration::ZERO));
            }
        }
        Ok(result)
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[()]) -> reveille_pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, conn: &mut PgConnection, instances: &[String]) -> reveille_pg::Result<Vec<usize>> {
        let positions: Vec<i32> = sqlx::query_scalar(&self.sweep).bind(instances).fetch_all(conn).await?;
        Ok(positions.into_iter().filter_map(|position| usize::try_from(position).ok()).collect())
    }

    fn visibility_key(&self, args: &Until) -> Option<Box<str>> {
        match args {
            Until::Ended => None,
            Until::StatusAfter(seen) => Some(seen.to_string().into()),
        }
    }
}

impl PostgresProvider {
    /// Waits until an orchestration has completed or failed, and returns its status. `None`: not within `timeout`.
    ///
    /// Use it instead of `Client::wait_for_orchestration`, which polls every few milliseconds: this reads the status once,
    /// when the instance has ended, in whatever process. The instance need not have been started yet.
    ///
    /// # Errors
    /// If the database does not answer within the timeout, or within a second if that is longer; [`Error::Unreadable`].
    ///
    /// # Cancel safety
    /// Nothing is claimed: dropping the future changes nothing.
    pub async fn wait_for_completion(&self, instance: &str, timeout: Duration) -> Result<Option<OrchestrationStatus>> {
        self.wait_until(instance, Until::Ended, timeout).await
    }

    /// Waits until the custom status of an orchestration has a higher version than `last_seen_version`, or the
    /// orchestration has ended, and returns its status. `None`: not within `timeout`.
    ///
    /// # Errors
    /// If the database does not answer within the timeout, or within a second if that is longer; [`Error::Unreadable`].
    ///
    /// # Cancel safety
    /// Nothing is claimed: dropping the future changes nothing.
    pub async fn wait_for_status_change(
        &self,
        instance: &str,
        last_seen_version: u64,
        timeout: Duration,
    ) -> Result<Option<OrchestrationStatus>> {
        let seen = i64::try_from(last_seen_version).unwrap_or(i64::MAX);
        self.wait_until(instance, Until::StatusAfter(seen), timeout).await
    }

    /// Waits until an instance has ended. False: not within `timeout`.
    #[cfg(feature = "http")]
    pub(crate) async fn ended(&self, instance: &str, timeout: Duration) -> Result<bool> {
        let deadline = Instant::now() + timeout.min(WAIT_MAX);
        let ended = self.inner.watch.claim(escape(instance).into_owned(), 1, Until::Ended, deadline).await?;
        Ok(ended.map(reveille_wake::Claimed::accept).is_some())
    }

    async fn wait_until(&self, instance: &str, until: Until, timeout: Duration) -> Result<Option<OrchestrationStatus>> {
        let deadline = Instant::now() + timeout.min(WAIT_MAX);
        let changed = self.inner.watch.claim(escape(instance).into_owned(), 1, until, deadline).await?;
        let Some(changed) = changed else { return Ok(None) };
        changed.accept();
        let read_by = deadline.max(Instant::now() + READ_WITHIN);
        let latest = timeout_at(read_by, self.latest(instance, Some(0))).await;
        Ok(Some(status(latest.map_err(|_| Error::Late { instance: instance.to_owned() })??)))
    }
}

/// The status as `Client::get_orchestration_status` returns it. The client itself is not used: it treats a custom status
/// that cannot be read as none, and a caller that waits for the next version would wait for the first one again.
fn status(latest: Latest) -> OrchestrationStatus {
    let Latest { history, custom_status, custom_status_version, .. } = latest;
    for event in history.iter().rev() {
        match &event.kind {
            EventKind::OrchestrationCompleted { output } => {
                let output = output.clone();
                return OrchestrationStatus::Completed { output, custom_status, custom_status_version };
            }
            EventKind::OrchestrationFailed { details } => {
                let details = details.clone();
                return OrchestrationStatus::Failed { details, custom_status, custom_status_version };
            }
            _ => {}
        }
    }
    match history.iter().any(|event| matches!(event.kind, EventKind::OrchestrationStarted { .. })) {
        true => OrchestrationStatus::Running { custom_status, custom_status_version },
        false => OrchestrationStatus::NotFound,
    }
}
