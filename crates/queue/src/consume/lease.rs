//! Extending leases.

use std::time::Duration;

use reveille_pg::retry::{Policy, retry};
use sqlx::Row;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::consume::pop::LONGEST;
use crate::error::Result;
use crate::queues::Queues;

/// An extended lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extended {
    /// Its end, by the database's clock; of several partitions the earliest.
    pub until: OffsetDateTime,
    /// The number of its partitions.
    pub partitions: usize,
}

impl Queues {
    /// Extends a lease to `by` from now; `None`: to the lease time of its queue, at least a minute. It never becomes
    /// shorter. Returns `None` if the lease is over.
    ///
    /// # Errors
    /// Those of the database.
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
