//! Full scans of step queues in the background, for claims that are too busy to make them: see
//! [`ScanBounds::defer_full_scans`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reveille_pg::{Database, Schema, Sql};
use reveille_wake::ScanBounds;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long a scan may take.
const SCAN_MAX: Duration = Duration::from_secs(30);

/// The most queues that are remembered per group, those with the latest steps first. Every claim reads each of them.
const QUEUES_MAX: usize = 1_000;
/// How long a queue is remembered after its last step was found. While it is remembered, claims do not read the dead
/// tuples in it that an old transaction keeps.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Scans what lies below the scan lower bounds.
pub(crate) struct FullScans {
    db: Database,
    bounds: Arc<ScanBounds<i64>>,
    sql: Sql,
    /// The running scan, at most one. Dropping this aborts it.
    tasks: Mutex<JoinSet<()>>,
}

impl FullScans {
    pub(crate) fn new(db: Database, schema: &Schema, bounds: Arc<ScanBounds<i64>>) -> FullScans {
        let sql = schema.sql(reveille_pg::statement!("below_scan_bounds"));
        FullScans { db, bounds, sql, tasks: Mutex::default() }
    }

    /// Starts a scan of those queues whose full scan is due. The next poll reads what it finds.
    pub(crate) fn start(&self, queues: &[i64], now: Instant) {
        let deferred = self.bounds.defer_full_scans(queues, now);
        if deferred.is_empty() {
            return;
        }
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        if !tasks.is_empty() {
            // A scan is running: the next poll scans these queues itself.
            return deferred.iter().for_each(|(queue, _)| self.bounds.full_scan_failed(queue));
        }
        let (db, bounds, sql) = (self.db.clone(), self.bounds.clone(), self.sql.clone());
        tasks.spawn(async move {
            let (queues, bounds_us): (Vec<i64>, Vec<i64>) = deferred.into_iter().unzip();
            let found = async {
                let mut session = db.session().await?;
                let began = Instant::now();
                let query = sqlx::query_as(&sql).bind(&queues).bind(&bounds_us);
                let found: HashMap<i64, i64> = query.fetch_all(&mut *session).await?.into_iter().collect();
                session.finish().await?;
                Ok((found, began.elapsed()))
            };
            match reveille_pg::within(SCAN_MAX, found).await {
                Ok((found, took)) => {
                    let now = Instant::now();
                    queues.iter().for_each(|queue| bounds.full_scan_found(queue, found.get(queue).copied(), took, now));
                }
                Err(error) => {
                    queues.iter().for_each(|queue| bounds.full_scan_failed(queue));
                    tracing::warn!(error = reveille_pg::causes(&error), "scanning below the scan lower bound failed");
                }
            }
        });
    }
}

/// The queues in which steps were found lately, at most [`QUEUES_MAX`], in order.
pub(crate) fn lately_found(queues: HashMap<i64, Instant>, now: Instant) -> Vec<(i64, Instant)> {
    let mut queues: Vec<_> = queues.into_iter().filter(|(_, found_at)| *found_at + REMEMBERED > now).collect();
    queues.sort_unstable_by_key(|(_, found_at)| std::cmp::Reverse(*found_at));
    queues.truncate(QUEUES_MAX);
    queues.sort_unstable();
    queues
}

#[cfg(test)]
mod tests {
    use reveille_pg::testing::TestDb;
    use serde_json::json;

    use super::*;
    use crate::{Flow, Options, Submission};

    /// The background scan finds a step below its queue's bound, and the next poll begins there. Where it finds
    /// nothing, the bound stays.
    #[tokio::test]
    async fn steps_below_the_bound_are_found() {
        let db = TestDb::new().await;
        let flow = Flow::open(db.database().clone(), db.schema().clone(), Options::default()).await.expect("a flow");
        flow.register("{name: t, namespace_name: n, steps: [{name: a}]}").await.expect("a template");
        flow.submit(Submission::new("n", "t", "1.0.0", json!({}))).await.expect("a task");
        let due = db.schema().sql("select queue_id, (extract(epoch from due_at) * 1000000)::bigint from {schema}.step");
        let (queue, due_us): (i64, i64) = sqlx::query_as(&due).fetch_one(db.database().pool()).await.expect("a step");

        // Full scans took seconds, and the step that was claimed last was due an hour later.
        let (empty, claimed_us) = (queue + 1, due_us + 3_600_000_000);
        let bounds = Arc::new(ScanBounds::new());
        let mut now = Instant::now();
        for queue in [queue, empty].repeat(2) {
            let scan = bounds.begin_unbounded(now);
            now += Duration::from_secs(10);
            bounds.end(&queue, scan, Some(claimed_us), None, now);
        }
        now += Duration::from_secs(10);
        let scans = FullScans::new(db.database().clone(), db.schema(), bounds.clone());
        scans.start(&[queue, empty], now);
        let mut running = std::mem::take(&mut *scans.tasks.lock());
        running.join_next().await.expect("a scan is running").expect("it does not panic");

        let bound = |queue| bounds.begin_busy(&queue, now + Duration::from_secs(1), now).bound_us;
        assert_eq!(bound(queue), Some(due_us));
        assert!(bound(empty).is_some_and(|bound_us| bound_us > due_us));
    }
}
