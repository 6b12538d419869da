//! Waiting for an instance, woken and not polled.

use std::time::Duration;

use duroxide::{EventKind, OrchestrationStatus};
use pg::{Schema, Sql};
use sqlx::{PgConnection, Row};
use tokio::time::{Instant, timeout_at};
use wake::{Channel, Claim, PollRequest, PollResult, Topic};

use crate::error::{Error, Result};
use crate::provider::PostgresProvider;
use crate::read::Latest;
use crate::text::stored;

/// The longest wait: a year, far from where arithmetic on times ends.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);
/// How long reading the status may take where the wait has used its time up: what ends in the last moment is worth it.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// What somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    Ended,
    /// Or its custom status has a higher version.
    StatusAfter(i64),
}

/// Watching instances, through the same engine that waits for work: those who watch one instance are a group, and its ring is an ack that ends it
/// or changes its status.
pub(crate) struct Watch {
    channel: Channel,
    watch: Sql,
    sweep: Sql,
}

impl Watch {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> Watch {
        Watch { channel, watch: schema.sql(pg::statement!("watch")), sweep: schema.sql(pg::statement!("sweep_watch")) }
    }
}

impl Claim for Watch {
    /// The instance, as it is stored.
    type Key = String;
    type Args = Until;
    /// That it has happened. Nothing is taken, so there is nothing to give back.
    type Item = ();

    fn topics(&self, instance: &String) -> Vec<Topic> {
        vec![self.channel.topic_of(instance)]
    }

    async fn poll(&self, conn: &mut PgConnection, poll: &PollRequest<String, Until>) -> pg::Result<PollResult<()>> {
        let row = sqlx::query(&self.watch).bind(&poll.key).fetch_optional(conn).await?;
        let mut polled = PollResult::new(None);
        let Some(row) = row else { return Ok(polled) };
        let (ended, version): (bool, i64) = (row.try_get(0)?, row.try_get(1)?);
        for (place, waiter) in poll.waiters.iter().enumerate() {
            let over = match *waiter.args {
                Until::Ended => ended,
                Until::StatusAfter(seen) => ended || version > seen,
            };
            if over {
                // Nothing is taken by being told: it is there for the next one at once.
                polled.give(place, (), Some(Duration::ZERO));
            }
        }
        Ok(polled)
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[()]) -> pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, conn: &mut PgConnection, instances: &[String]) -> pg::Result<Vec<usize>> {
        let places: Vec<i32> = sqlx::query_scalar(&self.sweep).bind(instances).fetch_all(conn).await?;
        Ok(places.into_iter().filter_map(|place| usize::try_from(place).ok()).collect())
    }

    fn visibility_key(&self, args: &Until) -> Option<Box<str>> {
        match args {
            Until::Ended => None,
            Until::StatusAfter(seen) => Some(seen.to_string().into()),
        }
    }
}

impl PostgresProvider {
    /// Waits until an orchestration has completed or failed, and answers how. `None`: not within `timeout`.
    ///
    /// In place of `Client::wait_for_orchestration`, which asks every few milliseconds: this asks when the instance has ended, wherever
    /// that happened. An instance that nobody has started yet is waited for as well.
    ///
    /// # Errors
    /// If the database cannot be reached within the timeout, or within a second if that is longer; [`Error::Unreadable`].
    ///
    /// # Cancel safety
    /// Nothing is taken: dropping the future changes nothing.
    pub async fn wait_for_completion(&self, instance: &str, timeout: Duration) -> Result<Option<OrchestrationStatus>> {
        self.wait_until(instance, Until::Ended, timeout).await
    }

    /// Waits until the custom status of an orchestration has a higher version than `last_seen_version`, or it has ended; answers its status.
    /// `None`: not within `timeout`.
    ///
    /// # Errors
    /// If the database cannot be reached within the timeout, or within a second if that is longer; [`Error::Unreadable`].
    ///
    /// # Cancel safety
    /// Nothing is taken: dropping the future changes nothing.
    pub async fn wait_for_status_change(
        &self,
        instance: &str,
        last_seen_version: u64,
        timeout: Duration,
    ) -> Result<Option<OrchestrationStatus>> {
        let seen = i64::try_from(last_seen_version).unwrap_or(i64::MAX);
        self.wait_until(instance, Until::StatusAfter(seen), timeout).await
    }

    async fn wait_until(&self, instance: &str, until: Until, timeout: Duration) -> Result<Option<OrchestrationStatus>> {
        let deadline = Instant::now() + timeout.min(LONGEST);
        let seen = self.inner.watch.claim(stored(instance).into_owned(), 1, until, deadline).await?;
        let Some(seen) = seen else { return Ok(None) };
        seen.accept();
        let read_by = deadline.max(Instant::now() + READ_WITHIN);
        let latest = timeout_at(read_by, self.latest(instance, Some(0))).await;
        Ok(Some(status(latest.map_err(|_| Error::Late { instance: instance.to_owned() })??)))
    }
}

/// The status as `Client::get_orchestration_status` tells it. Not asked of the client: it takes a custom status that could not be read for none,
/// and whoever waits for the next version would wait for the first again.
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
