//! Traces: notes of consumers about messages, found by the message or by a name.

use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;

use crate::admin::resources::{Listed, PAGE_BYTES_MAX, Page};
use crate::error::{Error, Result};
use crate::id::{Ids, PartitionId};
use crate::name::{QUEUE_MODE, check, check_text};
use crate::queues::Queues;

/// The most names of one trace: each is a row.
const NAMES_MAX: usize = 100;

/// A note to add to a message.
#[derive(Debug, Clone)]
pub struct NewTrace {
    /// The message: its transaction id,
    pub transaction_id: String,
    /// and its partition.
    pub partition_id: PartitionId,
    /// The consumer group; `None`: [`QUEUE_MODE`](crate::QUEUE_MODE).
    pub group: Option<String>,
    /// The names to find it by.
    pub names: Vec<String>,
    /// The type of the event.
    pub event_type: String,
    /// Any JSON.
    pub data: Box<RawValue>,
    /// The name of the worker.
    pub worker: Option<String>,
}

/// A note about a message.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Its number.
    pub id: i64,
    /// The message's transaction id.
    pub transaction_id: String,
    /// The message's partition,
    pub partition_id: PartitionId,
    /// its name,
    pub partition: String,
    /// and its queue.
    pub queue: String,
    /// The consumer group.
    pub group: String,
    /// Its names.
    pub names: Vec<String>,
    /// The type of the event.
    pub event_type: String,
    /// The data.
    pub data: Box<RawValue>,
    /// The name of the worker.
    pub worker: Option<String>,
    /// When it was added.
    pub created_at: OffsetDateTime,
}

impl Trace {
    fn of(row: &PgRow, ids: Ids) -> Result<Trace> {
        let data = RawValue::from_string(row.try_get("data")?);
        Ok(Trace {
            id: row.try_get("id")?,
            transaction_id: row.try_get("transaction_id")?,
            partition_id: ids.partition(row.try_get("partition_id")?),
            partition: row.try_get("partition")?,
            queue: row.try_get("queue")?,
            group: row.try_get("consumer")?,
            names: row.try_get("names")?,
            event_type: row.try_get("event_type")?,
            data: data.map_err(|error| sqlx::Error::Decode(error.into()))?,
            worker: row.try_get("worker")?,
            created_at: row.try_get("created_at")?,
        })
    }
}

/// A name of traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceName {
    /// The name.
    pub name: String,
    /// The number of its traces.
    pub traces: u64,
    /// The number of messages with such a trace.
    pub messages: u64,
    /// When the first of them was added.
    pub first_at: OffsetDateTime,
    /// When the last of them was added.
    pub last_at: OffsetDateTime,
}

/// A period: from a time, and before a time. `None`: without a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Period {
    /// The beginning.
    pub from: Option<OffsetDateTime>,
    /// The end, exclusive.
    pub before: Option<OffsetDateTime>,
}

impl Queues {
    /// Adds a trace to a message; returns its number. `None`: there is no such partition. The message is not checked:
    /// it may be deleted before its consumer is done.
    ///
    /// # Errors
    /// [`Error::Invalid`] for invalid names; otherwise those of the database.
    pub async fn add_trace(&self, trace: &NewTrace) -> Result<Option<i64>> {
        check("transactionId", &trace.transaction_id)?;
        check("consumerGroup", trace.group.as_deref().unwrap_or(QUEUE_MODE))?;
        check("eventType", &trace.event_type)?;
        check_text("workerId", trace.worker.as_deref().unwrap_or_default())?;
        trace.names.iter().try_for_each(|name| check("traceNames", name))?;
        if trace.names.len() > NAMES_MAX {
            return Err(Error::invalid("traceNames", format!("must have at most {NAMES_MAX} names")));
        }
        let mut names = trace.names.clone();
        names.sort_unstable();
        names.dedup();
        let inner = &self.inner;
        let Some(partition) = inner.ids.number(trace.partition_id) else { return Ok(None) };
        // Not retried if its answer is lost, because it would be added twice.
        let mut session = inner.db.session().await?;
        let added = sqlx::query_scalar(&inner.sql.add_trace)
            .bind(partition)
            .bind(&trace.transaction_id)
            .bind(trace.group.as_deref().unwrap_or(QUEUE_MODE))
            .bind(&trace.event_type)
            .bind(trace.data.get())
            .bind(&trace.worker)
            .bind(names)
            .fetch_optional(&mut *session)
            .await?;
        session.finish().await?;
        Ok(added)
    }

    /// The traces of a message, in order. A page ends early if its data is large: it has 16 MB or one trace.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn traces(&self, partition: PartitionId, transaction_id: &str, page: Page) -> Result<Listed<Trace>> {
        check("transactionId", transaction_id)?;
        let inner = &self.inner;
        // An id of another schema matches no partition.
        let number = inner.ids.number(partition).unwrap_or(-1);
        let query = || {
            let query = sqlx::query(&inner.sql.traces_of).bind(number).bind(transaction_id);
            query.bind(page.limit()).bind(page.offset()).bind(PAGE_BYTES_MAX)
        };
        let rows = inner.db.ask("list traces", query).await?;
        listed(&rows, |row| Trace::of(row, inner.ids))
    }

    /// The traces with a name, in order. A page ends early as that of [`traces`](Self::traces).
    ///
    /// # Errors
    /// Those of the database.
    pub async fn traces_named(&self, name: &str, period: Period, page: Page) -> Result<Listed<Trace>> {
        check("name", name)?;
        let inner = &self.inner;
        let query = || {
            let query = sqlx::query(&inner.sql.traces_named).bind(name).bind(period.from).bind(period.before);
            query.bind(page.limit()).bind(page.offset()).bind(PAGE_BYTES_MAX)
        };
        let rows = inner.db.ask("list traces", query).await?;
        listed(&rows, |row| Trace::of(row, inner.ids))
    }

    /// The names of traces that contain `search`, the latest first.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn trace_names(&self, search: Option<&str>, period: Period, page: Page) -> Result<Listed<TraceName>> {
        check_text("search", search.unwrap_or_default())?;
        let inner = &self.inner;
        let query = || {
            let query = sqlx::query(&inner.sql.trace_names).bind(search).bind(period.from).bind(period.before);
            query.bind(page.limit()).bind(page.offset())
        };
        let rows = inner.db.ask("list names of traces", query).await?;
        listed(&rows, |row| {
            Ok(TraceName {
                name: row.try_get("name")?,
                traces: row.try_get::<i64, _>("traces")? as u64,
                messages: row.try_get::<i64, _>("messages")? as u64,
                first_at: row.try_get("first_at")?,
                last_at: row.try_get("last_at")?,
            })
        })
    }
}

fn listed<T>(rows: &[PgRow], read: impl Fn(&PgRow) -> Result<T>) -> Result<Listed<T>> {
    let total = rows.first().map(|row| row.try_get::<i64, _>("found")).transpose()?.unwrap_or_default() as u64;
    Ok(Listed { rows: rows.iter().map(read).collect::<Result<_>>()?, total })
}
