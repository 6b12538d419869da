//! Waiting for an instance, woken and not polled.

use std::time::Duration;

use duroxide::{Client, OrchestrationStatus};
use pg::{Schema, Sql};
use sqlx::{PgConnection, Row};
use std::sync::Arc;
use tokio::time::Instant;
use wake::{Channel, Claim, Look, Looked, Topic};

use crate::error::{Error, Result};
use crate::provider::PostgresProvider;
use crate::text::stored;

/// The longest wait: a year, far from where arithmetic on times ends.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

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
        Watch {
            channel,
            watch: schema.sql(include_str!("../sql/watch.sql")),
            sweep: schema.sql(include_str!("../sql/sweep_watch.sql")),
        }
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

    async fn look(&self, conn: &mut PgConnection, look: &Look<String, Until>) -> pg::Result<Looked<()>> {
        let row = sqlx::query(&self.watch).bind(&look.key).fetch_optional(conn).await?;
        let mut looked = Looked::new(None);
        let Some(row) = row else { return Ok(looked) };
        let (ended, version): (bool, i64) = (row.try_get(0)?, row.try_get(1)?);
        for (place, seat) in look.seats.iter().enumerate() {
            let over = match *seat.args {
                Until::Ended => ended,
                Until::StatusAfter(seen) => ended || version > seen,
            };
            if over {
                looked.give(place, (), None);
            }
        }
        Ok(looked)
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[()]) -> pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, conn: &mut PgConnection, instances: &[String]) -> pg::Result<Vec<usize>> {
        let places: Vec<i32> = sqlx::query_scalar(&self.sweep).bind(instances).fetch_all(conn).await?;
        Ok(places.into_iter().filter_map(|place| usize::try_from(place).ok()).collect())
    }

    fn sight(&self, args: &Until) -> Option<Box<str>> {
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
    /// If the database cannot be reached within the timeout.
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
    /// If the database cannot be reached within the timeout.
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
        let status = Client::new(Arc::new(self.clone())).get_orchestration_status(instance).await;
        status.map(Some).map_err(|error| Error::Invalid { what: "status", reason: error.to_string() })
    }
}
