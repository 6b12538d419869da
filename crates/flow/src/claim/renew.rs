//! Heartbeats: extending leases and saving checkpoints.

use std::time::Duration;

use futures_util::future::try_join_all;
use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, WakeUp, WriteBatch};
use serde_json::value::RawValue;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::claim::check_lease;
use crate::claim::token::Token;
use crate::complete::Refused;
use crate::error::Result;
use crate::flow::Flow;

/// A heartbeat for a step.
#[derive(Debug)]
pub struct Renewal {
    /// The claim.
    pub token: Token,
    /// How long the lease lasts from now.
    pub lease: Duration,
    /// The progress of the step: if the worker dies, the next attempt resumes from it.
    pub checkpoint: Option<Box<RawValue>>,
}

impl Flow {
    /// Extends leases and saves checkpoints. One answer per renewal, in order: a worker whose renewal is refused has
    /// lost the step and should stop.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for an invalid lease; otherwise a database error.
    pub async fn heartbeat(&self, alive: Vec<Renewal>) -> Result<Vec<std::result::Result<(), Refused>>> {
        alive.iter().try_for_each(|alive| check_lease(alive.lease))?;
        for Renewal { token, lease, .. } in &alive {
            self.inner.providers.held.extend(token, *lease);
        }
        let renewed = try_join_all(alive.into_iter().map(|alive| self.inner.renewals.submit(alive))).await?;
        // An orchestrator must be awake when an attempt reaches its timeout.
        let timeout = renewed.iter().filter_map(|renewed| *renewed.as_ref().ok()?).min();
        self.inner.wake.wake_up(
            &timeout.map(|timeout| self.inner.leases_channel.wake_up().after(timeout)).into_iter().collect::<Vec<_>>(),
        );
        Ok(renewed.into_iter().map(|renewed| renewed.map(drop)).collect())
    }
}

/// Writes heartbeats.
pub(crate) struct Renewals {
    renew: Sql,
}

impl Renewals {
    pub(crate) fn new(schema: &Schema) -> Renewals {
        Renewals { renew: schema.sql(reveille_pg::statement!("renew_steps")) }
    }
}

impl BatchedWrite for Renewals {
    type Write = Renewal;
    type Key = (Uuid, i32);
    /// The time until the attempt reaches its timeout, if the lease lasts until then.
    type Outcome = std::result::Result<Option<Duration>, Refused>;
    /// A repeated heartbeat is applied again.
    const RECORDS_OUTCOMES: bool = false;

    fn key(&self, alive: &Renewal) -> (Uuid, i32) {
        (alive.token.task, alive.token.ordinal)
    }

    fn bytes(&self, alive: &Renewal) -> usize {
        100 + alive.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.get().len())
    }

    fn wake_ups(&self, _: &Renewal, _: Option<&Self::Outcome>) -> Vec<WakeUp> {
        Vec::new()
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Renewal>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let writes = &batch.writes;
        let checkpoints = writes.iter().any(|alive| alive.checkpoint.is_some());
        let checkpoint = |alive: &&Renewal| alive.checkpoint.as_ref().map(|checkpoint| checkpoint.get().to_owned());
        let query = batch
            .query(&self.renew)
            .bind(writes.iter().map(|alive| alive.token.task).collect::<Vec<_>>())
            .bind(writes.iter().map(|alive| alive.token.ordinal).collect::<Vec<_>>())
            .bind(writes.iter().map(|alive| alive.token.fence).collect::<Vec<_>>())
            .bind(writes.iter().map(|alive| alive.lease.as_millis() as i64).collect::<Vec<_>>())
            .bind(checkpoints.then(|| writes.iter().map(checkpoint).collect::<Vec<_>>()));
        batch.result(self, &query.fetch_one(conn).await?)
    }

    fn decode(&self, _: &Renewal, text: &str) -> Option<Self::Outcome> {
        match text.split_once(' ') {
            None if text == "lost" => Some(Err(Refused::Lost)),
            None if text == "renewed" => Some(Ok(None)),
            Some(("renewed", ms)) => Some(Ok(Some(Duration::from_millis(ms.parse().ok()?)))),
            _ => None,
        }
    }
}
