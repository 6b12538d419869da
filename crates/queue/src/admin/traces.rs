//! Traces: what consumers note about messages, found again by the message or by a name they gave it.

use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;

use crate::admin::resources::{Listed, PAGE_BYTES_MAX, Page};
use crate::error::{Error, Result};
use crate::id::{Ids, PartitionId};
use crate::name::{QUEUE_MODE, check, check_text};
use crate::queues::Queues;

/// Names of one trace at most: each is a row.
const NAMES_MAX: usize = 100;

/// Something to note about a message.
#[derive(Debug, Clone)]
pub struct NewTrace {
    /// The message: its transaction id,
    pub transaction_id: String,
    /// and its partition.
    pub partition_id: PartitionId,
    /// The consumer group that notes it; `None`: the queue itself.
    pub group: Option<String>,
    /// Under which names to find it again.
    pub names: Vec<String>,
    /// What kind of thing it is.
    pub event_type: String,
    /// Anything.
    pub data: Box<RawValue>,
    /// Who noted it.
    pub worker: Option<String>,
}

/// Something that was noted about a message.
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
    /// The consumer group that noted it.
    pub group: String,
    /// Its names.
    pub names: Vec<String>,
    /// What kind of thing it is.
    pub event_type: String,
    /// What was noted.
    pub data: Box<RawValue>,
    /// Who noted it.
    pub worker: Option<String>,
    /// When.
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

/// A name under which something was noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceName {
    /// The name.
    pub name: String,
    /// How many traces have it.
    pub traces: u64,
    /// Of how many messages.
    pub messages: u64,
    /// When the first of them was noted.
    pub first_at: OffsetDateTime,
    /// When the last was.
    pub last_at: OffsetDateTime,
}

/// When: from this time on, and before that. `None`: whenever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Period {
    /// Not before.
    pub from: Option<OffsetDateTime>,
    /// Before.
    pub before: Option<OffsetDateTime>,
}

impl Queues {
    /// Notes something about a message; its number. `None`: there is no such partition. Whether there is such a message is not asked: it may be gone when its consumer is done.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what cannot be stored; else the database's.
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
        // Not tried again when its answer is lost: it would be there twice.
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

    /// What was noted about a message, in order. A page ends early if what was noted is large: it has 16 MB or one trace.
    ///
    /// # Errors
    /// The database's.
    pub async fn traces(&self, partition: PartitionId, transaction_id: &str, page: Page) -> Result<Listed<Trace>> {
        check("transactionId", transaction_id)?;
        let inner = &self.inner;
        // An id of another schema is one of no partition.
        let number = inner.ids.number(partition).unwrap_or(-1);
        let query = || {
            let query = sqlx::query(&inner.sql.traces_of).bind(number).bind(transaction_id);
            query.bind(page.limit()).bind(page.offset()).bind(PAGE_BYTES_MAX)
        };
        let rows = inner.db.ask("list traces", query).await?;
        listed(&rows, |row| Trace::of(row, inner.ids))
    }

    /// What was noted under a name, in order. A page ends early as that of [`traces`](Self::traces).
    ///
    /// # Errors
    /// The database's.
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

    /// The names that contain `search` under which something was noted, the latest first.
    ///
    /// # Errors
    /// The database's.
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
