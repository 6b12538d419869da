//! Deletes instances some time after they ended: [`Options::retention`](crate::Options::retention).
//!
//! The history of an instance is the application's data, so nothing is deleted by default. The task does not poll: it
//! sleeps until the instance that ended first is due. An instance that ends later is due later, so nothing has to wake
//! the task. Instances are deleted in small transactions with all their descendants, as by `delete_instance_bulk`;
//! several processes may do so at once.

use std::sync::{Arc, Weak};
use std::time::Duration;

use duroxide::providers::ProviderError;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::provider::{Inner, PostgresProvider};
use crate::queries::column;

/// The most instances without a parent that one transaction deletes, with all their descendants.
const TREES_MAX: i64 = 50;
/// The shortest sleep, also for a shorter retention.
const SLEEP_MIN: Duration = Duration::from_secs(1);
/// The longest sleep, because timers have a limited range.
const SLEEP_MAX: Duration = Duration::from_secs(86_400);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(60);

/// The task that deletes. Dropping this ends it.
pub(crate) struct Retention(AbortHandle);

impl Drop for Retention {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Retention {
    /// Starts to delete instances that ended longer ago than `keep`.
    pub(crate) fn start(inner: &Arc<Inner>, keep: Duration) -> Retention {
        Retention(tokio::spawn(run(Arc::downgrade(inner), keep)).abort_handle())
    }
}

async fn run(inner: Weak<Inner>, keep: Duration) {
    loop {
        let Some(inner) = inner.upgrade() else { return };
        let next = PostgresProvider { inner }.expire(keep).await;
        let pause = next.unwrap_or_else(|error| {
            tracing::warn!(%error, "could not delete expired instances; will retry");
            PAUSE
        });
        sleep(pause.clamp(SLEEP_MIN, SLEEP_MAX)).await;
    }
}

impl PostgresProvider {
    /// Deletes expired instances, and returns in how long the next one expires.
    async fn expire(&self, keep: Duration) -> Result<Duration, ProviderError> {
        const OPERATION: &str = "expire_instances";
        let queries = &self.inner.queries;
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let mut total = 0;
        loop {
            let rows = self.rows(OPERATION, &queries.expired_trees, |query| query.bind(keep).bind(TREES_MAX)).await?;
            let ids = rows.iter().map(|row| column(OPERATION, row, 0)).collect::<Result<Vec<String>, _>>()?;
            if ids.is_empty() {
                break;
            }
            let deleted = self.delete(ids, false, None).await?.instances_deleted;
            total += deleted;
            // Another process has deleted the same ones and continues with the rest.
            if deleted == 0 {
                break;
            }
        }
        if total > 0 {
            tracing::info!(instances = total, "deleted expired instances");
        }
        let row = self.row(OPERATION, &queries.next_expiry, |query| query.bind(keep)).await?;
        let row = row.ok_or_else(|| ProviderError::retryable(OPERATION, "the database returned no row"))?;
        Ok(Duration::try_from_secs_f64(column::<f64>(OPERATION, &row, 0)? / 1_000.0).unwrap_or(SLEEP_MAX))
    }
}
