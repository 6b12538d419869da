//! Reading what lies before the bounds of lanes beside the looks of who is busy: see [`ScanBounds::defer_full_scans`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reveille_pg::{Database, Schema, Sql};
use reveille_wake::ScanBounds;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::claim::unanswered::locked;

/// How long it may take.
const TAKES_MAX: Duration = Duration::from_secs(30);

/// Lanes that are remembered of a source, those in which something was found last: each is looked up by every claim.
const LANES_MAX: usize = 1_000;
/// For how long a lane is remembered in which nothing is found any more. Until then what an old transaction keeps of it is not read.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Reads what lies before bounds.
pub(crate) struct BelowBounds {
    db: Database,
    bounds: Arc<ScanBounds<i64>>,
    sql: Sql,
    /// What is under way: one at most, which ends with this.
    tasks: Mutex<JoinSet<()>>,
}

impl BelowBounds {
    pub(crate) fn new(db: Database, schema: &Schema, bounds: Arc<ScanBounds<i64>>) -> BelowBounds {
        let sql = schema.sql(reveille_pg::statement!("below_scan_bounds"));
        BelowBounds { db, bounds, sql, tasks: Mutex::default() }
    }

    /// Begins with it, for those of these lanes whose turn it is. Whatever is found there the next look reads.
    pub(crate) fn read(&self, lanes: &[i64], now: Instant) {
        let behind = self.bounds.defer_full_scans(lanes, now);
        if behind.is_empty() {
            return;
        }
        let mut tasks = locked(&self.tasks);
        while tasks.try_join_next().is_some() {}
        if !tasks.is_empty() {
            // Whoever comes while others are read for reads everything itself.
            return behind.iter().for_each(|(lane, _)| self.bounds.full_scan_failed(lane));
        }
        let (db, bounds, sql) = (self.db.clone(), self.bounds.clone(), self.sql.clone());
        tasks.spawn(async move {
            let (lanes, bounds_us): (Vec<i64>, Vec<i64>) = behind.into_iter().unzip();
            let found = async {
                let mut session = db.session().await?;
                let began = Instant::now();
                let query = sqlx::query_as(&sql).bind(&lanes).bind(&bounds_us);
                let found: HashMap<i64, i64> = query.fetch_all(&mut *session).await?.into_iter().collect();
                session.finish().await?;
                Ok((found, began.elapsed()))
            };
            match reveille_pg::within(TAKES_MAX, found).await {
                Ok((found, took)) => {
                    let now = Instant::now();
                    lanes.iter().for_each(|lane| bounds.full_scan_found(lane, found.get(lane).copied(), took, now));
                }
                Err(error) => {
                    lanes.iter().for_each(|lane| bounds.full_scan_failed(lane));
                    tracing::warn!(
                        error = reveille_pg::causes(&error),
                        "steps that were passed over could not be looked for"
                    );
                }
            }
        });
    }
}

/// The lanes in which something was found lately, [`LANES_MAX`] at most, in order.
pub(crate) fn lately_found(lanes: HashMap<i64, Instant>, now: Instant) -> Vec<(i64, Instant)> {
    let mut lanes: Vec<_> = lanes.into_iter().filter(|(_, found_at)| *found_at + REMEMBERED > now).collect();
    lanes.sort_unstable_by_key(|(_, found_at)| std::cmp::Reverse(*found_at));
    lanes.truncate(LANES_MAX);
    lanes.sort_unstable();
    lanes
}

#[cfg(test)]
mod tests {
    use reveille_pg::testing::TestDb;
    use serde_json::json;

    use super::*;
    use crate::{Flow, Options, Submission};

    /// A step that lies before its lane's floor is found beside the looks, and the next look reads from there. A floor that nothing lies before stays.
    #[tokio::test]
    async fn what_lies_before_a_floor_is_found() {
        let db = TestDb::new().await;
        let flow = Flow::open(db.database().clone(), db.schema().clone(), Options::default()).await.expect("a flow");
        flow.register("{name: t, namespace_name: n, steps: [{name: a}]}").await.expect("a template");
        flow.submit(Submission::new("n", "t", "1.0.0", json!({}))).await.expect("a task");
        let due = db.schema().sql("select queue_id, (extract(epoch from due_at) * 1000000)::bigint from {schema}.step");
        let (lane, due_us): (i64, i64) = sqlx::query_as(&due).fetch_one(db.database().pool()).await.expect("a step");

        // Whoever reads everything has to wade for seconds, and what was claimed last is an hour later.
        let (empty, claimed_us) = (lane + 1, due_us + 3_600_000_000);
        let bounds = Arc::new(ScanBounds::new());
        let mut now = Instant::now();
        for lane in [lane, empty].repeat(2) {
            let everything = bounds.begin_unbounded(now);
            now += Duration::from_secs(10);
            bounds.end(&lane, everything, Some(claimed_us), None, now);
        }
        now += Duration::from_secs(10);
        let behind = BelowBounds::new(db.database().clone(), db.schema(), bounds.clone());
        behind.read(&[lane, empty], now);
        let mut under_way = std::mem::take(&mut *locked(&behind.tasks));
        under_way.join_next().await.expect("it is read").expect("nobody panics");

        let bound = |lane| bounds.begin_busy(&lane, now + Duration::from_secs(1), now).bound_us;
        assert_eq!(bound(lane), Some(due_us));
        assert!(bound(empty).is_some_and(|bound_us| bound_us > due_us));
    }
}
