//! Domain events: what steps tell when they end, in the order of the transactions that ended them.

use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::query::list::LOOKED_MAX;
use crate::response_size::ANSWER_BYTES_MAX;

/// Events that one answer has at most.
const EVENTS_MAX: usize = 1_000;

/// What a step told when it ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct DomainEvent {
    /// Where it is among all: what to begin after the next time.
    pub cursor: String,
    /// What it is called.
    pub name: String,
    /// Whether the step is done; it failed for good otherwise.
    pub succeeded: bool,
    /// The task,
    #[schema(value_type = String, format = "uuid")]
    pub task_uuid: Uuid,
    /// its namespace,
    pub namespace: String,
    /// template,
    pub template: String,
    /// and version.
    pub version: String,
    /// The step.
    pub step: String,
    /// What the task belongs to.
    pub correlation_id: Option<String>,
    /// The result, or the error.
    #[schema(value_type = Value)]
    pub payload: Option<Box<RawValue>>,
    /// When it was told.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = "date-time")]
    pub created_at: OffsetDateTime,
}

/// Some events, in order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DomainEvents)]
pub struct EventPage {
    /// These.
    pub events: Vec<DomainEvent>,
    /// What to present as `after` to go on; none: there was none yet. A page may be short, or empty, although there are more.
    pub next: Option<String>,
}

/// Which events. Everything that is not given is not asked.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// After this one; from the first otherwise.
    pub after: Option<String>,
    /// Of tasks in this namespace.
    pub namespace: Option<String>,
    /// Of these names.
    pub names: Option<Vec<String>>,
}

impl Flow {
    /// What steps told, in order. Going on from the cursor of a page gives every event once: none can come before one that was read. A page looks at ten thousand events at most, and has no
    /// more than 16 MiB of payloads, and one event at least.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a cursor or a limit that cannot be meant; else the database's.
    pub async fn domain_events(&self, filter: &EventFilter, limit: usize) -> Result<EventPage> {
        if !(1..=EVENTS_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("it is {limit}; it must be between 1 and {EVENTS_MAX}")));
        }
        let after = filter.after.as_deref().unwrap_or("0.0");
        let after = after.split_once('.').and_then(|(one, two)| Some((one.parse::<u64>().ok()?, two.parse().ok()?)));
        let (transaction, id): (u64, i64) =
            after.ok_or_else(|| Error::invalid("after", "it is not the cursor of an event"))?;
        let looked_max = if filter.namespace.is_none() && filter.names.is_none() { limit } else { LOOKED_MAX };
        let query = || {
            sqlx::query(&self.inner.sql.domain_events)
                .bind(transaction.to_string())
                .bind(id)
                .bind(filter.namespace.as_deref())
                .bind(filter.names.as_deref())
                .bind(limit as i64)
                .bind(looked_max as i64)
                .bind(ANSWER_BYTES_MAX as i64)
                // A plan made while the tables were small would read them whole.
                .persistent(false)
        };
        let rows = self.inner.db.ask("read domain events", query).await?;
        let head = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let edge: Option<String> = head.try_get("edge")?;
        let matched: Option<i64> = head.try_get("matched")?;
        let events: Vec<DomainEvent> =
            rows.iter().filter_map(|row| read(row).transpose()).collect::<sqlx::Result<_>>()?;
        // Where the page has no room for all that fit, it goes on after its last; else after all that was looked at.
        let full = events.len() == limit || matched > Some(events.len() as i64);
        let next = events.last().filter(|_| full).map(|last| last.cursor.clone()).or(edge);
        Ok(EventPage { events, next: next.or_else(|| filter.after.clone()) })
    }
}

/// `None`: the row has none.
fn read(row: &PgRow) -> sqlx::Result<Option<DomainEvent>> {
    let Some(transaction) = row.try_get::<Option<String>, _>("transaction_id")? else { return Ok(None) };
    let payload: Option<String> = row.try_get("payload")?;
    let payload = payload.map(RawValue::from_string).transpose().map_err(|error| sqlx::Error::Decode(error.into()))?;
    let id: i64 = row.try_get("id")?;
    Ok(Some(DomainEvent {
        cursor: format!("{transaction}.{id}"),
        name: row.try_get("name")?,
        succeeded: row.try_get("succeeded")?,
        task_uuid: row.try_get("task_id")?,
        namespace: row.try_get("namespace")?,
        template: row.try_get("template")?,
        version: row.try_get("version")?,
        step: row.try_get("step")?,
        correlation_id: row.try_get("correlation_id")?,
        payload,
        created_at: row.try_get("created_at")?,
    }))
}
