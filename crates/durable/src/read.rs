//! Reading: histories, custom status, keys and values, sizes.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide::providers::ProviderError;
use duroxide::{Event, EventKind, SystemStats};
use sqlx::postgres::PgRow;

use crate::ack::batch;
use crate::error::{Error, Result};
use crate::history::{Head, Remembered};
use crate::provider::PostgresProvider;
use crate::queries::column;
use crate::stored::Execution;
use crate::text::{restored, stored};
use crate::write::{Found, Wanted};

/// An instance's latest execution; nothing, if there is none.
#[derive(Debug, Default)]
pub(crate) struct Latest {
    pub(crate) history: Arc<Vec<Event>>,
    /// `None`: it has none, or was not asked for.
    pub(crate) custom_status: Option<String>,
    pub(crate) custom_status_version: u64,
    /// There is no instance, but a history: it was only appended, or acked without ever naming its orchestration.
    orphan: bool,
}

impl PostgresProvider {
    async fn look_up(&self, wanted: Wanted) -> Result<Found> {
        let instance = wanted.instance.clone();
        let found = self.inner.look_ups.submit(wanted).await?;
        found.ok_or_else(|| Error::unreadable(instance, "the answer of the database cannot be read"))
    }

    /// The latest execution, with its custom status if that has a version above `status_after`. Only events that are not remembered are shipped.
    pub(crate) async fn latest(&self, instance: &str, status_after: Option<i64>) -> Result<Latest> {
        let name = stored(instance);
        let (known, remembered) = self.inner.histories.recall(&name).unzip();
        let wanted = Wanted { instance: name.clone().into_owned(), events: Some(known), status_after };
        let found = self.look_up(wanted).await?;
        let Some(now) = found.head() else {
            return Ok(Latest { orphan: found.orphan, ..Latest::default() });
        };
        // What is remembered counts as long as nothing but appends happened; then only what came after it was shipped.
        let remembered = remembered
            .zip(known)
            .filter(|(_, known)| now.execution == known.execution && now.generation == known.generation);
        let rows = found.rows.unwrap_or_default();
        let known = remembered.map(|(remembered, _)| remembered).unwrap_or_default();
        let of = Execution { instance, execution: now.execution as u64 };
        let whole = known.extend(&of, &rows).map_err(|reason| Error::unreadable(instance, reason))?;
        if !rows.is_empty() {
            self.inner.histories.put(&name, Head { last: whole.last, ..now }, &whole);
        }
        Ok(Latest {
            history: whole.events,
            custom_status: found.custom.map(restored),
            custom_status_version: found.version.map_or(0, |version| version as u64),
            orphan: false,
        })
    }

    /// The history of the latest execution.
    pub(crate) async fn read_latest(
        &self,
        operation: &'static str,
        instance: &str,
    ) -> Result<Vec<Event>, ProviderError> {
        let latest = self.latest(instance, None).await.map_err(|error| error.of(operation))?;
        match latest.orphan {
            true => self.read_rows(operation, instance, None).await,
            false => Ok(Arc::unwrap_or_clone(latest.history)),
        }
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
        let appended = self
            .change(OPERATION, &self.inner.queries.append, |query| {
                query.bind(name.clone()).bind(execution as i64).bind(first).bind(last).bind(count).bind(json.clone())
            })
            .await?;
        match appended {
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
        let found = self.look_up(wanted).await.map_err(|error| error.of("get_custom_status"))?;
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
