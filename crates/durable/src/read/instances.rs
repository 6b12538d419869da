//! Reads the state of instances, for many readers by one statement.
//!
//! A client that waits for a result reads every few milliseconds: most calls of a busy system are these. A reader says
//! what it has cached and gets what is new: usually nothing, for the price of one index lookup.

use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, WakeUp, WriteBatch};
use serde::Deserialize;
use sqlx::PgConnection;

use super::history::Head;

/// Reads instances in batches. Uses the batching of writes, but writes nothing.
pub(crate) struct ReadInstances {
    sql: Sql,
}

/// What to read of one instance.
#[derive(Debug, Clone)]
pub(crate) struct InstanceQuery {
    /// Escaped.
    pub(crate) instance: String,
    /// `Some`: the events after what is cached, or all of them. `None`: no events.
    pub(crate) events: Option<Option<Head>>,
    /// The custom status, if its version is higher.
    pub(crate) status_after: Option<i64>,
}

/// The state of one instance.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct InstanceState {
    /// `None`: there is no instance; then all other fields are empty.
    pub(crate) execution: Option<i64>,
    pub(crate) generation: Option<i64>,
    /// There is no instance, but a history.
    #[serde(default)]
    pub(crate) orphan: bool,
    /// The last event among the rows; `None` if there are none.
    pub(crate) last_event: Option<i64>,
    /// Rows of events: those after the cached ones if these are still valid, else all.
    pub(crate) event_rows: Option<Vec<String>>,
    pub(crate) custom_status_version: Option<i64>,
    /// The custom status, if it is newer than the one the reader has seen and has not been removed.
    pub(crate) custom_status: Option<String>,
}

impl InstanceState {
    /// The position of the current execution; `None` if there is no instance.
    pub(crate) fn head(&self) -> Option<Head> {
        Some(Head { execution: self.execution?, generation: self.generation?, last: self.last_event.unwrap_or(0) })
    }
}

impl ReadInstances {
    pub(crate) fn new(schema: &Schema) -> ReadInstances {
        ReadInstances { sql: schema.sql(reveille_pg::statement!("read_instances")) }
    }
}

impl BatchedWrite for ReadInstances {
    type Write = InstanceQuery;
    type Key = ();
    type Outcome = InstanceState;
    const RECORDS_OUTCOMES: bool = false;

    fn key(&self, _: &InstanceQuery) {}

    fn wake_ups(&self, _: &InstanceQuery, _: Option<&InstanceState>) -> Vec<WakeUp> {
        Vec::new()
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, InstanceQuery>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let queries = &batch.writes;
        let cached = || queries.iter().map(|query| query.events.flatten());
        let query = sqlx::query(&self.sql)
            .bind(queries.iter().map(|query| query.instance.as_str()).collect::<Vec<_>>())
            .bind(queries.iter().map(|query| query.events.is_some()).collect::<Vec<_>>())
            .bind(cached().map(|head| head.map(|head| head.execution)).collect::<Vec<_>>())
            .bind(cached().map(|head| head.map(|head| head.generation)).collect::<Vec<_>>())
            .bind(cached().map(|head| head.map(|head| head.last)).collect::<Vec<_>>())
            .bind(queries.iter().map(|query| query.status_after).collect::<Vec<_>>());
        batch.result(self, &query.fetch_one(conn).await?)
    }

    fn decode(&self, _: &InstanceQuery, text: &str) -> Option<InstanceState> {
        serde_json::from_str(text).ok()
    }
}
