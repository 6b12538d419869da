//! Leases: making them last, and giving them back.

use std::time::Duration;

use reveille_pg::retry::{Policy, retry};
use sqlx::Row;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::consume::pop::LONGEST;
use crate::error::Result;
use crate::queues::Queues;

/// A lease that was made to last longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extended {
    /// Until when, by the database's clock; of several partitions the first to end.
    pub until: OffsetDateTime,
    /// How many partitions it has.
    pub partitions: usize,
}

impl Queues {
    /// Makes a lease last for so long from now; `None`: for as long as its queue says, and a minute at least. It never becomes shorter. `None`: the lease is over.
    ///
    /// # Errors
    /// The database's.
    pub async fn extend(&self, lease: Uuid, by: Option<Duration>) -> Result<Option<Extended>> {
        let inner = &self.inner;
        let ms = by.map(|by| by.min(LONGEST).as_millis() as i64);
        let policy = Policy::default();
        let rows = retry(&policy, "extend a lease", async |_| {
            let mut session = inner.db.session().await?;
            let rows = sqlx::query(&inner.sql.extend_lease).bind(lease).bind(ms).fetch_all(&mut *session).await?;
            session.finish().await?;
            Ok(rows)
        });
        let rows = rows.await?;
        let mut until: Option<OffsetDateTime> = None;
        for row in &rows {
            let end: OffsetDateTime = row.try_get(1)?;
            until = Some(until.map_or(end, |until| until.min(end)));
        }
        Ok(until.map(|until| Extended { until, partitions: rows.len() }))
    }
}
