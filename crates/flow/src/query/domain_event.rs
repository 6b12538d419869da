//! Domain events: published by steps when they end, in the order of their transactions.

use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::claim::response_size::RESPONSE_BYTES_MAX;
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::query::list::SCANNED_MAX;

/// The most events of a page.
const EVENTS_MAX: usize = 1_000;

/// An event that a step published when it ended.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct DomainEvent {
    /// The position of the event: send it as `after` to continue.
    pub cursor: String,
    /// The name of the event.
    pub name: String,
    /// Whether the step is complete; otherwise it failed permanently.
    pub succeeded: bool,
    /// The task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// The namespace of the task.
    pub namespace: String,
    /// The name of the template.
    pub template: String,
    /// The version of the template.
    pub version: String,
    /// The step.
    pub step: String,
    /// The correlation id of the task.
    pub correlation_id: Option<String>,
    /// The result, or the error.
    #[cfg_attr(feature = "http", schema(value_type = Value))]
    pub payload: Option<Box<RawValue>>,
    /// When the event was published.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = "date-time"))]
    pub created_at: OffsetDateTime,
}

/// A page of events, in order.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "http", schema(as = DomainEvents))]
pub struct EventPage {
    /// The events of this page.
    pub events: Vec<DomainEvent>,
    /// The `after` of the next page; none if there are no events yet. A page may be short or empty although there are
    /// more.
    pub next: Option<String>,
}

/// Selects events. Fields that are not given match everything.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// After the event with this cursor; default: from the first.
    pub after: Option<String>,
    /// Of tasks in this namespace.
    pub namespace: Option<String>,
    /// With one of these names.
    pub names: Option<Vec<String>>,
}

impl Flow {
    /// A page of events in commit order. Continuing from the cursor of a page returns every event once: no event is
    /// inserted before one that was read. A page scans at most ten thousand events and has at most 16 MiB of payloads,
    /// and at least one event.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid cursor or limit; otherwise a database error.
    pub async fn domain_events(&self, filter: &EventFilter, limit: usize) -> Result<EventPage> {
        if !(1..=EVENTS_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("must be between 1 and {EVENTS_MAX}, got {limit}")));
        }
        let after = filter.after.as_deref().unwrap_or("0.0");
        let after = after.split_once('.').and_then(|(one, two)| Some((one.parse::<u64>().ok()?, two.parse().ok()?)));
        let (transaction, id): (u64, i64) =
            after.ok_or_else(|| Error::invalid("after", "not the cursor of an event"))?;
        let scan_max = if filter.namespace.is_none() && filter.names.is_none() { limit } else { SCANNED_MAX };
        let query = || {
            sqlx::query(&self.inner.sql.domain_events)
                .bind(transaction.to_string())
                .bind(id)
                .bind(filter.namespace.as_deref())
                .bind(filter.names.as_deref())
                .bind(limit as i64)
                .bind(scan_max as i64)
                .bind(RESPONSE_BYTES_MAX as i64)
                // Plan for the current size of the tables: a plan cached while they were small would scan them.
                .persistent(false)
        };
        let rows = self.inner.db.ask("read domain events", query).await?;
        let head = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let edge: Option<String> = head.try_get("edge")?;
        let matched: Option<i64> = head.try_get("matched")?;
        let events: Vec<DomainEvent> =
            rows.iter().filter_map(|row| read(row).transpose()).collect::<sqlx::Result<_>>()?;
        // If not all matches fit into the page, continue after its last event, otherwise after the last one scanned.
        let full = events.len() == limit || matched > Some(events.len() as i64);
        let next = events.last().filter(|_| full).map(|last| last.cursor.clone()).or(edge);
        Ok(EventPage { events, next: next.or_else(|| filter.after.clone()) })
    }
}

/// `None`: the row has no event.
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
