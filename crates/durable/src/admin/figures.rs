//! Figures for operators: instances by status, queue sizes, and the age of the oldest entries.
//!
//! They are read by a process that need not run orchestrations, such as the server, and only if something has happened
//! since the last time: see [`reveille_wake::Snapshot`]. So this listens to the channels on which runtimes announce work.

use std::sync::Arc;
use std::time::Duration;

use reveille_pg::{Database, Schema, Sql};
use reveille_wake::{Aged, Payload, READ_WITHIN, Snapshot, Wake};
use sqlx::Row;
use sqlx::postgres::PgRow;

/// Messages and activities are counted up to this number.
const COUNTED_MAX: i64 = 10_000;
/// Instances are counted up to this size of their table: some tens of thousands, on a thousand pages. Beyond it they are
/// estimated: an index on the status would make every change of it more expensive.
const COUNTED_BYTES_MAX: i64 = 8 << 20;

/// Instances by status, and the sizes of the queues.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// Instances by status, as duroxide names it. For a large table this is the estimate of the planner.
    pub instances: Vec<(String, u64)>,
    /// Due messages to instances, including those of running turns.
    pub messages: u64,
    /// For how long the oldest of them had been due at the time of reading.
    pub oldest_message: Option<Duration>,
    /// Running turns.
    pub turns: u64,
    /// Activities that wait for a worker.
    pub activities_waiting: u64,
    /// For how long the oldest of them had been due at the time of reading.
    pub oldest_activity: Option<Duration>,
    /// Activities that a worker executes.
    pub activities_running: u64,
}

impl Figures {
    fn of(rows: &[PgRow]) -> reveille_pg::Result<Figures> {
        let mut figures = Figures::default();
        for row in rows {
            let amount = row.try_get::<i64, _>("amount")?.max(0) as u64;
            let seconds: Option<f64> = row.try_get("oldest_seconds")?;
            let oldest = seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
            match row.try_get::<&str, _>("kind")? {
                "instances" => figures.instances.push((row.try_get("status")?, amount)),
                "due_messages" => (figures.messages, figures.oldest_message) = (amount, oldest),
                "running_turns" => figures.turns = amount,
                "waiting_activities" => (figures.activities_waiting, figures.oldest_activity) = (amount, oldest),
                "running_activities" => figures.activities_running = amount,
                kind => {
                    let source = format!("unknown kind {kind:?}").into();
                    return Err(sqlx::Error::ColumnDecode { index: "kind".into(), source }.into());
                }
            }
        }
        Ok(figures)
    }
}

/// Watches the orchestrations of a schema. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Watch(Arc<Inner>);

struct Inner {
    db: Database,
    wake: Wake,
    sql: Sql,
    last: Snapshot<Figures>,
}

impl Watch {
    /// Watches a schema. Returns at once; the schema must be migrated before the first reading.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(db: &Database, schema: &Schema, options: reveille_wake::Options) -> Watch {
        let wake = Wake::start(db, schema, options);
        // Notifications on these channels count as activity; no waiter needs them.
        wake.channel("orch_work", Payload::Due);
        wake.channel("worker_work", Payload::Empty);
        let sql = schema.sql(reveille_pg::statement!("figures"));
        Watch(Arc::new(Inner { db: db.clone(), wake, sql, last: Snapshot::default() }))
    }

    /// The figures, read again only if something has happened since; `None` if they could not be read yet.
    ///
    /// # Cancel safety
    /// A reading that has begun continues.
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
