//! Workers that say that they are still alive, and how far they have come.

use std::time::Duration;

use serde_json::value::RawValue;
use sqlx::Row;

use crate::claim::check_lease;
use crate::error::Result;
use crate::flow::Flow;
use crate::settle::Refused;
use crate::token::Token;

/// A worker that is still at a step.
#[derive(Debug)]
pub struct Alive {
    /// Of which claim.
    pub token: Token,
    /// For how long from now.
    pub lease: Duration,
    /// How far it has come: whoever goes on, should it die, begins there.
    pub checkpoint: Option<Box<RawValue>>,
}

impl Flow {
    /// Makes leases last, and keeps checkpoints. Each has an honest answer of its own, in order: whoever is refused has lost the step, and should stop.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a lease that cannot be meant; else the database's.
    pub async fn heartbeat(&self, alive: &[Alive]) -> Result<Vec<std::result::Result<(), Refused>>> {
        alive.iter().try_for_each(|alive| check_lease(alive.lease))?;
        let checkpoints = alive.iter().any(|alive| alive.checkpoint.is_some());
        let checkpoint = |alive: &Alive| alive.checkpoint.as_ref().map(|checkpoint| checkpoint.get().to_owned());
        let query = || {
            sqlx::query(&self.inner.sql.renew_steps)
                .bind(alive.iter().map(|alive| alive.token.task).collect::<Vec<_>>())
                .bind(alive.iter().map(|alive| alive.token.ordinal).collect::<Vec<_>>())
                .bind(alive.iter().map(|alive| alive.token.fence).collect::<Vec<_>>())
                .bind(alive.iter().map(|alive| alive.lease.as_millis() as i64).collect::<Vec<_>>())
                .bind(checkpoints.then(|| alive.iter().map(checkpoint).collect::<Vec<_>>()))
        };
        let rows = self.inner.db.ask("renew leases", query).await?;
        let outcomes: Vec<String> = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?;
        Ok(outcomes.iter().map(|outcome| if outcome == "o" { Ok(()) } else { Err(Refused::Lost) }).collect())
    }
}
