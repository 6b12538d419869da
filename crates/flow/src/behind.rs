//! Reading what lies before the floors of lanes beside the looks of who is busy: see [`Floors::leave_behind`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pg::{Database, Schema, Sql};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wake::Floors;

use crate::lost::locked;

/// How long it may take.
const TAKES_MAX: Duration = Duration::from_secs(30);

/// Reads what lies before floors.
pub(crate) struct Behind {
    db: Database,
    floors: Arc<Floors<i32>>,
    sql: Sql,
    /// What is under way: one at most, which ends with this.
    tasks: Mutex<JoinSet<()>>,
}

impl Behind {
    pub(crate) fn new(db: Database, schema: &Schema, floors: Arc<Floors<i32>>) -> Behind {
        let sql = schema.sql(include_str!("../sql/behind_floors.sql"));
        Behind { db, floors, sql, tasks: Mutex::default() }
    }

    /// Begins with it, for those of these lanes whose turn it is. Whatever is found there the next look reads.
    pub(crate) fn read(&self, lanes: &[i32], now: Instant) {
        let behind = self.floors.leave_behind(lanes, now);
        if behind.is_empty() {
            return;
        }
        let mut tasks = locked(&self.tasks);
        while tasks.try_join_next().is_some() {}
        if !tasks.is_empty() {
            // Whoever comes while others are read for reads everything itself.
            return behind.iter().for_each(|(lane, _)| self.floors.not_read(lane));
        }
        let (db, floors, sql) = (self.db.clone(), self.floors.clone(), self.sql.clone());
        tasks.spawn(async move {
            let (lanes, floors_us): (Vec<i32>, Vec<i64>) = behind.into_iter().unzip();
            let found = async {
                let mut session = db.session().await?;
                let began = Instant::now();
                let query = sqlx::query_as(&sql).bind(&lanes).bind(&floors_us);
                let found: HashMap<i32, i64> = query.fetch_all(&mut *session).await?.into_iter().collect();
                session.finish().await?;
                Ok((found, began.elapsed()))
            };
            match pg::within(TAKES_MAX, found).await {
                Ok((found, took)) => {
                    let now = Instant::now();
                    lanes.iter().for_each(|lane| floors.found_behind(lane, found.get(lane).copied(), took, now));
                }
                Err(error) => {
                    lanes.iter().for_each(|lane| floors.not_read(lane));
                    tracing::warn!(error = pg::causes(&error), "steps that were passed over could not be looked for");
                }
            }
        });
    }
}
