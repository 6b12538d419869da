//! Reading where instances stand, for many readers by one statement.
//!
//! A client that waits for a result asks every few milliseconds: most calls of a busy system are these. A reader says what it knows, and is answered
//! what is new: nothing, as a rule, at the price of one index lookup.

use pg::{Schema, Sql};
use serde::Deserialize;
use sqlx::PgConnection;
use wake::{BatchResult, BatchedWrite, WakeUp, WriteBatch};

use crate::history::Head;

/// Looks instances up. It writes nothing.
pub(crate) struct LookUp {
    sql: Sql,
}

/// What a reader wants to know.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// As it is stored.
    pub(crate) instance: String,
    /// Events after what is remembered (`None`: all of them), or no events.
    pub(crate) events: Option<Option<Head>>,
    /// The custom status, if its version is higher.
    pub(crate) status_after: Option<i64>,
}

/// What there is.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Found {
    /// `None`: there is no instance; then there is nothing else.
    pub(crate) execution: Option<i64>,
    pub(crate) generation: Option<i64>,
    /// There is no instance, but a history.
    #[serde(default)]
    pub(crate) orphan: bool,
    /// The last event among the rows; `None` if there are none.
    pub(crate) last: Option<i64>,
    /// Rows of events: all after what the reader remembers if that still counts, else all.
    pub(crate) rows: Option<Vec<String>>,
    /// The version of the custom status.
    pub(crate) version: Option<i64>,
    /// The custom status, if it is newer than what the reader has seen and not removed.
    pub(crate) custom: Option<String>,
}

impl Found {
    /// Where the current execution stands; `None` if there is no instance.
    pub(crate) fn head(&self) -> Option<Head> {
        Some(Head { execution: self.execution?, generation: self.generation?, last: self.last.unwrap_or(0) })
    }
}

impl LookUp {
    pub(crate) fn new(schema: &Schema) -> LookUp {
        LookUp { sql: schema.sql(pg::statement!("look_up")) }
    }
}

impl BatchedWrite for LookUp {
    type Write = Wanted;
    type Key = ();
    type Outcome = Option<Found>;
    const RECORDS_OUTCOMES: bool = false;

    fn key(&self, _: &Wanted) {}

    fn wake_ups(&self, _: &Wanted, _: Option<&Option<Found>>) -> Vec<WakeUp> {
        Vec::new()
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Wanted>,
    ) -> pg::Result<BatchResult<Self::Outcome>> {
        let wanted = &batch.writes;
        let heads = || wanted.iter().map(|wanted| wanted.events.flatten());
        let query = sqlx::query(&self.sql)
            .bind(wanted.iter().map(|wanted| wanted.instance.as_str()).collect::<Vec<_>>())
            .bind(wanted.iter().map(|wanted| wanted.events.is_some()).collect::<Vec<_>>())
            .bind(heads().map(|head| head.map(|head| head.execution)).collect::<Vec<_>>())
            .bind(heads().map(|head| head.map(|head| head.generation)).collect::<Vec<_>>())
            .bind(heads().map(|head| head.map(|head| head.last)).collect::<Vec<_>>())
            .bind(wanted.iter().map(|wanted| wanted.status_after).collect::<Vec<_>>());
        batch.result(self, &query.fetch_one(conn).await?)
    }

    fn decode(&self, _: &Wanted, text: &str) -> Option<Option<Found>> {
        serde_json::from_str(text).ok()
    }
}
