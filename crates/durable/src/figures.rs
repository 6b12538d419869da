//! What operators watch of orchestrations: how many there are by status, what waits to be worked on, and for how long.
//!
//! It is read by a process that need not run any of them, such as the server, and only when something has happened since: see
//! [`wake::Snapshot`]. So this listens to the channels on which runtimes tell each other of work.

use std::sync::Arc;
use std::time::Duration;

use pg::{Database, Schema, Sql};
use sqlx::Row;
use sqlx::postgres::PgRow;
use wake::{Aged, Payload, READ_WITHIN, Snapshot, Wake};

/// Messages and activities that are counted; more are reported as so many.
const COUNTED_MAX: i64 = 10_000;
/// Instances are counted one by one while their table is no larger than this, some tens of thousands: a thousand pages are read.
/// Beyond that they are estimated, because there is no index on their status: it would make every change of it more expensive.
const COUNTED_BYTES_MAX: i64 = 8 << 20;

/// How orchestrations stand, and what waits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// Instances by status, as duroxide names it. Of a large table this is the planner's estimate.
    pub instances: Vec<(String, u64)>,
    /// Messages to instances that are due, those of turns under way included.
    pub messages: u64,
    /// For how long the oldest of them had been due when this was read.
    pub oldest_message: Option<Duration>,
    /// Turns under way.
    pub turns: u64,
    /// Activities that wait for a worker.
    pub activities_waiting: u64,
    /// For how long the oldest of them had been due when this was read.
    pub oldest_activity: Option<Duration>,
    /// Activities that a worker has.
    pub activities_running: u64,
}

impl Figures {
    fn of(rows: &[PgRow]) -> pg::Result<Figures> {
        let mut figures = Figures::default();
        for row in rows {
            let amount = row.try_get::<i64, _>("amount")?.max(0) as u64;
            let seconds: Option<f64> = row.try_get("oldest")?;
            let oldest = seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
            match row.try_get::<&str, _>("kind")? {
                "o" => {
                    let status: Option<String> = row.try_get("state")?;
                    figures.instances.push((status.unwrap_or_default(), amount));
                }
                "m" => (figures.messages, figures.oldest_message) = (amount, oldest),
                "t" => figures.turns = amount,
                "a" => (figures.activities_waiting, figures.oldest_activity) = (amount, oldest),
                _ => figures.activities_running = amount,
            }
        }
        Ok(figures)
    }
}

/// Watches the orchestrations of a schema. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Watch(Arc<Inner>);

struct Inner {
    db: Database,
    wake: Wake,
    sql: Sql,
    last: Snapshot<Figures>,
}

impl Watch {
    /// Watches a schema that is up to date, or will be when it is asked. Returns at once.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(db: &Database, schema: &Schema, options: wake::Options) -> Watch {
        let wake = Wake::start(db, schema, options);
        // What is heard there counts as activity; no waiter here needs it.
        wake.channel("orch_work", Payload::Due);
        wake.channel("worker_work", Payload::Empty);
        let sql = schema.sql(pg::statement!("figures"));
        Watch(Arc::new(Inner { db: db.clone(), wake, sql, last: Snapshot::default() }))
    }

    /// How orchestrations stand. Read again only if something has happened since; `None` if it could not be read yet.
    ///
    /// # Cancel safety
    /// A reading that has begun goes on.
    pub async fn figures(&self) -> Option<Aged<Figures>> {
        let inner = self.0.clone();
        let activity = inner.wake.activity();
        let read = || async move {
            let query = sqlx::query(&inner.sql).bind(COUNTED_MAX).bind(COUNTED_BYTES_MAX);
            Figures::of(&inner.db.observer().ask_within(READ_WITHIN, query).await?)
        };
        self.0.last.get(activity, read).await
    }

    /// How many readings have failed.
    pub fn failed_figures(&self) -> u64 {
        self.0.last.failures()
    }
}
