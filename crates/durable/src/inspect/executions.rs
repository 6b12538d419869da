//! The executions of an instance.

use reveille_web::Timestamp;
use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;
use utoipa::ToSchema;

use super::{Instances, Status, maybe_time, number};
use crate::error::Result;
use crate::text::escape;

/// The largest page.
pub(crate) const EXECUTIONS_MAX: u64 = 1_000;

/// A page of executions, the latest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExecutionPage)]
pub(crate) struct ExecutionPage {
    /// Those of this page.
    pub(crate) executions: Vec<Execution>,
    /// The `before` of the next page; null if this is the last.
    pub(crate) next: Option<u64>,
}

/// An execution.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Execution)]
pub(crate) struct Execution {
    /// Its number, from 1.
    pub(crate) execution: u64,
    /// Its state.
    pub(crate) status: Status,
    /// When it began.
    #[schema(value_type = String, format = "date-time")]
    pub(crate) started_at: Timestamp,
    /// When it ended.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub(crate) completed_at: Option<Timestamp>,
    /// Events in its history.
    pub(crate) events: u64,
    /// Bytes of its output, error, or the input of the next execution.
    pub(crate) output_bytes: Option<u64>,
}

impl Instances {
    /// Executions before one, the latest first. An instance that does not exist has none.
    pub(crate) async fn executions(&self, instance: &str, before: Option<u64>, limit: u64) -> Result<ExecutionPage> {
        let id = escape(instance).into_owned();
        let before = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
        let rows = self.ask("list executions", || {
            sqlx::query(&self.inner.sql.executions).bind(id.clone()).bind(before).bind(limit as i64 + 1)
        });
        let rows = rows.await?;
        let shown = &rows[..rows.len().min(limit as usize)];
        let executions: Vec<Execution> = shown.iter().map(read).collect::<reveille_pg::Result<_>>()?;
        let next = executions.last().filter(|_| rows.len() > shown.len()).map(|last| last.execution);
        Ok(ExecutionPage { executions, next })
    }
}

fn read(row: &PgRow) -> reveille_pg::Result<Execution> {
    Ok(Execution {
        execution: number(row, "execution_id")?,
        status: Status::stored(row.try_get("status")?),
        started_at: Timestamp(row.try_get("started_at")?),
        completed_at: maybe_time(row, "completed_at")?,
        events: number(row, "event_count")?,
        output_bytes: row.try_get::<Option<i64>, _>("output_bytes")?.map(|bytes| bytes as u64),
    })
}
