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
    /// What steps told, in order. Whoever reads on from the last cursor gets every event once: none can come before one that was read.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a cursor or a limit that cannot be meant; else the database's.
    pub async fn domain_events(&self, filter: &EventFilter, limit: usize) -> Result<Vec<DomainEvent>> {
        if !(1..=EVENTS_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("it is {limit}; it must be between 1 and {EVENTS_MAX}")));
        }
        let after = filter.after.as_deref().unwrap_or("0.0");
        let after = after.split_once('.').and_then(|(one, two)| Some((one.parse::<u64>().ok()?, two.parse().ok()?)));
        let (transaction, id): (u64, i64) =
            after.ok_or_else(|| Error::invalid("after", "it is not the cursor of an event"))?;
        let query = || {
            sqlx::query(&self.inner.sql.domain_events)
                .bind(transaction.to_string())
                .bind(id)
                .bind(filter.namespace.as_deref())
                .bind(filter.names.as_deref())
                .bind(limit as i64)
        };
        let rows = self.inner.db.ask("read domain events", query).await?;
        Ok(rows.iter().map(read).collect::<sqlx::Result<_>>()?)
    }
}

fn read(row: &PgRow) -> sqlx::Result<DomainEvent> {
    let payload: Option<String> = row.try_get("payload")?;
    let payload = payload.map(RawValue::from_string).transpose().map_err(|error| sqlx::Error::Decode(error.into()))?;
    let (transaction, id): (String, i64) = (row.try_get("transaction_id")?, row.try_get("id")?);
    Ok(DomainEvent {
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
    })
}
