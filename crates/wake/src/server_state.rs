//! What slows a database down from outside, for monitoring.

use std::time::Duration;

use sqlx::Row as _;

use crate::snapshot::{Aged, READ_WITHIN};
use crate::{Snapshot, Wake};

/// The state of the database server, as far as it concerns this schema.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ServerState {
    /// The age of the oldest transaction with a snapshot: vacuum removes nothing that is newer.
    pub oldest_transaction: Option<Duration>,
    /// Live rows of the schema's tables, estimated.
    pub live_rows: u64,
    /// Dead rows of the schema's tables, estimated.
    pub dead_rows: u64,
    /// The used share of the notification queue, from 0 to 1. If it is full, every commit that notifies fails.
    pub notification_queue: f64,
}

/// Reads the state of the server, again only after activity. Cheap to clone.
#[derive(Clone)]
pub struct ServerWatch {
    wake: Wake,
    last: Snapshot<ServerState>,
}

impl ServerWatch {
    /// Watches the server of an engine.
    pub fn new(wake: &Wake) -> ServerWatch {
        ServerWatch { wake: wake.clone(), last: Snapshot::default() }
    }

    /// The state, read again only if something has happened since; `None` if it could not be read yet.
    ///
    /// # Cancel safety
    /// A query that has begun continues.
    pub async fn state(&self) -> Option<Aged<ServerState>> {
        let wake = self.wake.clone();
        let read = || async move {
            let query = sqlx::query(reveille_pg::statement!("server_state")).bind(wake.dispatcher.schema.name());
            let rows = wake.db.observer().ask_within(READ_WITHIN, query).await?;
            let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
            let count = |name| row.try_get::<i64, _>(name).map(|count| count.max(0) as u64);
            let oldest: Option<f64> = row.try_get("oldest_transaction")?;
            Ok(ServerState {
                oldest_transaction: oldest.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
                live_rows: count("live")?,
                dead_rows: count("dead")?,
                notification_queue: row.try_get("notification_queue")?,
            })
        };
        self.last.get(self.wake.activity(), read).await
    }
}
