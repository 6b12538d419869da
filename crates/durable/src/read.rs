//! Reading: histories, custom status, keys and values, sizes.

use std::collections::HashMap;

use duroxide::providers::ProviderError;
use duroxide::{Event, EventKind, SystemStats};
use pg::Sql;
use pg::retry::{Policy, retry};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};

use crate::ack::batch;
use crate::flight::{Found, Wanted};
use crate::history::{Head, Remembered};
use crate::provider::PostgresProvider;
use crate::stored::Execution;
use crate::text::{restored, stored};

impl PostgresProvider {
    /// Sends a question until it is answered. Asking twice is harmless.
    pub(crate) async fn rows<'q, F>(
        &self,
        operation: &'static str,
        sql: &Sql,
        bind: F,
    ) -> Result<Vec<PgRow>, ProviderError>
    where
        F: Fn(Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments>,
    {
        let policy = Policy::default();
        let asked = retry(&policy, operation, |_| async {
            let mut session = self.inner.db.session().await?;
            let rows = bind(sqlx::query(sql)).fetch_all(&mut *session).await?;
            session.finish().await?;
            Ok(rows)
        });
        asked.await.map_err(|error| crate::error::database(operation, &error))
    }

    /// As [`rows`](Self::rows), for a question with one answer.
    pub(crate) async fn row<'q, F>(
        &self,
        operation: &'static str,
        sql: &Sql,
        bind: F,
    ) -> Result<Option<PgRow>, ProviderError>
    where
        F: Fn(Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments>,
    {
        Ok(self.rows(operation, sql, bind).await?.into_iter().next())
    }

    async fn look_up(&self, operation: &'static str, wanted: Wanted) -> Result<Found, ProviderError> {
        let found =
            self.inner.look_ups.submit(wanted).await.map_err(|error| crate::error::engine(operation, &error))?;
        found.ok_or_else(|| ProviderError::permanent(operation, "the answer of the database cannot be read"))
    }

    /// The history of the latest execution. Only what is not remembered is shipped.
    pub(crate) async fn read_latest(
        &self,
        operation: &'static str,
        instance: &str,
    ) -> Result<Vec<Event>, ProviderError> {
        let name = stored(instance);
        let (known, remembered) = self.inner.histories.recall(&name).unzip();
        let wanted = Wanted { instance: name.clone().into_owned(), events: Some(known), status_after: None };
        let found = self.look_up(operation, wanted).await?;
        let Some(now) = found.head() else {
            // An execution may have begun by acks that never named its orchestration.
            return if found.orphan { self.read_rows(operation, instance, None).await } else { Ok(Vec::new()) };
        };
        // What is remembered counts as long as nothing but appends happened; then only what came after it was shipped.
        let remembered = remembered
            .zip(known)
            .filter(|(_, known)| now.execution == known.execution && now.generation == known.generation);
        let rows = found.rows.unwrap_or_default();
        let known = remembered.map(|(remembered, _)| remembered).unwrap_or_default();
        let of = Execution { instance, execution: now.execution as u64 };
        let whole = known.extend(&of, &rows);
        let whole = whole.map_err(|error| ProviderError::permanent(operation, error))?;
        if !rows.is_empty() {
            self.inner.histories.put(&name, Head { last: whole.last, ..now }, &whole);
        }
        Ok(whole.events.to_vec())
    }

    pub(crate) async fn read_execution(
        &self,
        operation: &'static str,
        instance: &str,
        execution: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.read_rows(operation, instance, Some(execution as i64)).await
    }

    /// The history of an execution as it is stored; `None`: of the latest.
    async fn read_rows(
        &self,
        operation: &'static str,
        instance: &str,
        execution: Option<i64>,
    ) -> Result<Vec<Event>, ProviderError> {
        let name = stored(instance);
        let rows = self
            .rows(operation, &self.inner.queries.read_execution, |query| {
                query.bind(name.clone().into_owned()).bind(execution)
            })
            .await?;
        let texts: Vec<String> = rows.iter().map(|row| column(operation, row, 0)).collect::<Result<_, _>>()?;
        let latest: i64 = rows.first().map_or(Ok(1), |row| column(operation, row, 1))?;
        let of = Execution { instance, execution: latest as u64 };
        let whole =
            Remembered::default().extend(&of, &texts).map_err(|error| ProviderError::permanent(operation, error))?;
        Ok(whole.events.to_vec())
    }

    pub(crate) async fn append(&self, instance: &str, execution: u64, events: &[Event]) -> Result<(), ProviderError> {
        const OPERATION: &str = "append_with_execution";
        let Some((first, last, count, json)) = batch(OPERATION, &Execution { instance, execution }, events)? else {
            return Ok(());
        };
        let name = stored(instance).into_owned();
        let mut session = self.inner.db.session().await.map_err(|error| crate::error::database(OPERATION, &error))?;
        // Not repeated: whether an append whose answer was lost has happened shows in the history, and this is not for the hot path.
        let appended = sqlx::query(&self.inner.queries.append)
            .bind(name)
            .bind(execution as i64)
            .bind(first)
            .bind(last)
            .bind(count)
            .bind(json)
            .fetch_optional(&mut *session)
            .await
            .map_err(pg::Error::from);
        let appended = match appended {
            Ok(row) => session.finish().await.map(|()| row),
            Err(error) => Err(error),
        };
        self.inner.writes();
        match appended.map_err(|error| crate::error::database(OPERATION, &error))? {
            Some(_) => Ok(()),
            None => Err(ProviderError::permanent(OPERATION, "the history has an event with such an id already")),
        }
    }

    pub(crate) async fn custom_status(
        &self,
        instance: &str,
        last_seen: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let last_seen = i64::try_from(last_seen).unwrap_or(i64::MAX);
        let wanted = Wanted { instance: stored(instance).into_owned(), events: None, status_after: Some(last_seen) };
        let found = self.look_up("get_custom_status", wanted).await?;
        Ok(found
            .version
            .filter(|version| *version > last_seen)
            .map(|version| (found.custom.map(restored), version as u64)))
    }

    pub(crate) async fn kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        const OPERATION: &str = "get_kv_value";
        let row = self
            .row(OPERATION, &self.inner.queries.kv_value, |query| {
                query.bind(stored(instance).into_owned()).bind(stored(key).into_owned())
            })
            .await?;
        let value: Option<String> = row.map_or(Ok(None), |row| column(OPERATION, &row, 0))?;
        Ok(value.map(restored))
    }

    pub(crate) async fn kv_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        const OPERATION: &str = "get_kv_all_values";
        let rows = self
            .rows(OPERATION, &self.inner.queries.kv_values, |query| query.bind(stored(instance).into_owned()))
            .await?;
        let pair = |row: &PgRow| Ok((restored(column(OPERATION, row, 0)?), restored(column(OPERATION, row, 1)?)));
        rows.iter().map(pair).collect()
    }

    pub(crate) async fn instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        const OPERATION: &str = "get_instance_stats";
        let row = self
            .row(OPERATION, &self.inner.queries.instance_stats, |query| query.bind(stored(instance).into_owned()))
            .await?;
        let Some(row) = row else { return Ok(None) };
        let first: Option<String> = column(OPERATION, &row, 2)?;
        let first = Remembered::default()
            .extend(&Execution { instance, execution: 1 }, first.as_slice())
            .map_err(|error| ProviderError::permanent(OPERATION, error))?;
        let carried = first.events.first().and_then(|event| match &event.kind {
            EventKind::OrchestrationStarted { carry_forward_events, .. } => carry_forward_events.as_ref(),
            _ => None,
        });
        let number = |at: usize| column::<i64>(OPERATION, &row, at).map(|number| number as u64);
        Ok(Some(SystemStats {
            history_event_count: number(0)?,
            history_size_bytes: number(1)?,
            queue_pending_count: carried.map_or(0, |carried| carried.len() as u64),
            kv_user_key_count: number(3)?,
            kv_total_value_bytes: number(4)?,
        }))
    }
}

/// A column of an answer.
pub(crate) fn column<'r, T>(operation: &'static str, row: &'r PgRow, at: usize) -> Result<T, ProviderError>
where
    T: sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
{
    row.try_get(at).map_err(|error| crate::error::database(operation, &error.into()))
}
