//! Reads: histories, custom status, keys and values, sizes.

mod claimed;
mod event_json;
mod history;
mod instances;
mod wait;

use std::collections::HashMap;
use std::sync::Arc;

use duroxide::providers::ProviderError;
use duroxide::{Event, EventKind, SystemStats};
use sqlx::postgres::PgRow;

pub(crate) use claimed::ClaimedActivities;
pub(crate) use event_json::{ExecutionKey, write_events};
pub(crate) use history::{EventList, Head, HistoryCache};
pub(crate) use instances::{InstanceQuery, ReadInstances};
pub(crate) use wait::Watch;

#[cfg(test)]
pub(crate) use event_json::read_events;

use crate::error::{Error, Result};
use crate::provider::PostgresProvider;
use crate::queries::column;
use crate::text::{escape, unescape};
use crate::write::{EventBatch, event_batch};

/// The latest execution of an instance; empty if there is none.
#[derive(Debug, Default)]
pub(crate) struct Latest {
    pub(crate) history: Arc<Vec<Event>>,
    /// `None`: there is none, or it was not requested.
    pub(crate) custom_status: Option<String>,
    pub(crate) custom_status_version: u64,
    /// There is no instance, but a history: events were only appended, or no ack has named the orchestration.
    orphan: bool,
}

impl PostgresProvider {
    /// The latest execution, with its custom status if that has a version above `status_after`. Only events that are not
    /// cached are transferred.
    pub(crate) async fn latest(&self, instance: &str, status_after: Option<i64>) -> Result<Latest> {
        let name = escape(instance);
        self.inner.pipeline.ended_of(&name).await;
        let (cached_head, cached_events) = self.inner.histories.get_any(&name).unzip();
        let query = InstanceQuery { instance: name.clone().into_owned(), events: Some(cached_head), status_after };
        let state = self.inner.instance_reads.submit(query).await?;
        let Some(head) = state.head() else {
            return Ok(Latest { orphan: state.orphan, ..Latest::default() });
        };
        // The cached events are valid if the execution and the generation are the same; only the events after them were
        // transferred then.
        let cached_events = cached_events
            .zip(cached_head)
            .filter(|(_, cached)| head.execution == cached.execution && head.generation == cached.generation)
            .map(|(events, _)| events)
            .unwrap_or_default();
        let rows = state.event_rows.unwrap_or_default();
        let of = ExecutionKey { instance, execution: head.execution as u64 };
        let history = cached_events.extend(&of, &rows).map_err(|reason| Error::unreadable(instance, reason))?;
        if !rows.is_empty() {
            self.inner.histories.put(&name, Head { last: history.last, ..head }, &history);
        }
        Ok(Latest {
            history: history.events,
            custom_status: state.custom_status.map(unescape),
            custom_status_version: state.custom_status_version.map_or(0, |version| version as u64),
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

    /// The history of an execution, not from the cache; `None`: of the latest.
    async fn read_rows(
        &self,
        operation: &'static str,
        instance: &str,
        execution: Option<i64>,
    ) -> Result<Vec<Event>, ProviderError> {
        let name = escape(instance);
        let rows = self
            .rows(operation, &self.inner.queries.read_execution, |query| {
                query.bind(name.clone().into_owned()).bind(execution)
            })
            .await?;
        let texts: Vec<String> = rows.iter().map(|row| column(operation, row, 0)).collect::<Result<_, _>>()?;
        let latest: i64 = rows.first().map_or(Ok(1), |row| column(operation, row, 1))?;
        let of = ExecutionKey { instance, execution: latest as u64 };
        let history =
            EventList::default().extend(&of, &texts).map_err(|error| ProviderError::permanent(operation, error))?;
        Ok(history.events.to_vec())
    }

    pub(crate) async fn append(&self, instance: &str, execution: u64, events: &[Event]) -> Result<(), ProviderError> {
        const OPERATION: &str = "append_with_execution";
        let Some(batch) = event_batch(OPERATION, &ExecutionKey { instance, execution }, events)? else {
            return Ok(());
        };
        let EventBatch { first, last, count, json } = batch;
        let name = escape(instance).into_owned();
        let appended = self
            .change(OPERATION, &self.inner.queries.append, |query| {
                query.bind(name.clone()).bind(execution as i64).bind(first).bind(last).bind(count).bind(json.clone())
            })
            .await?;
        match appended {
            Some(_) => Ok(()),
            None => {
                Err(ProviderError::permanent(OPERATION, "duplicate event id: the history has an event with such an id"))
            }
        }
    }

    pub(crate) async fn custom_status(
        &self,
        instance: &str,
        last_seen: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let last_seen = i64::try_from(last_seen).unwrap_or(i64::MAX);
        let name = escape(instance).into_owned();
        self.inner.pipeline.ended_of(&name).await;
        let query = InstanceQuery { instance: name, events: None, status_after: Some(last_seen) };
        let state = self.inner.instance_reads.submit(query).await;
        let state = state.map_err(|error| crate::error::engine("get_custom_status", &error))?;
        Ok(state
            .custom_status_version
            .filter(|version| *version > last_seen)
            .map(|version| (state.custom_status.map(unescape), version as u64)))
    }

    pub(crate) async fn kv_value(&self, instance: &str, key: &str) -> Result<Option<String>, ProviderError> {
        const OPERATION: &str = "get_kv_value";
        let row = self
            .row(OPERATION, &self.inner.queries.kv_value, |query| {
                query.bind(escape(instance).into_owned()).bind(escape(key).into_owned())
            })
            .await?;
        let value: Option<String> = row.map_or(Ok(None), |row| column(OPERATION, &row, 0))?;
        Ok(value.map(unescape))
    }

    pub(crate) async fn kv_values(&self, instance: &str) -> Result<HashMap<String, String>, ProviderError> {
        const OPERATION: &str = "get_kv_all_values";
        let rows = self
            .rows(OPERATION, &self.inner.queries.kv_values, |query| query.bind(escape(instance).into_owned()))
            .await?;
        let pair = |row: &PgRow| Ok((unescape(column(OPERATION, row, 0)?), unescape(column(OPERATION, row, 1)?)));
        rows.iter().map(pair).collect()
    }

    pub(crate) async fn instance_stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        const OPERATION: &str = "get_instance_stats";
        let row = self
            .row(OPERATION, &self.inner.queries.instance_stats, |query| query.bind(escape(instance).into_owned()))
            .await?;
        let Some(row) = row else { return Ok(None) };
        let first: Option<String> = column(OPERATION, &row, 2)?;
        let first = EventList::default()
            .extend(&ExecutionKey { instance, execution: 1 }, first.as_slice())
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
