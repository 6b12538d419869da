//! What a console shows of this process and of the database.
//!
//! Only what is cheap to know: what this process has counted since it started, and what PostgreSQL counts by itself. How much went through when is not stored; a
//! time series is the business of whoever collects the metrics.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;

use crate::error::Result;
use crate::queues::Queues;

/// This process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessState {
    /// How long it has run.
    pub uptime: Duration,
    /// Pops that wait.
    pub waiting: usize,
    /// Sources and groups they wait for, and others that are remembered.
    pub groups: usize,
    /// Whether it hears of what other processes do.
    pub hearing: bool,
    /// Whether it has to poll instead.
    pub polling: bool,
    /// What pops have counted since the start.
    pub pops: reveille_wake::Counts,
}

/// The database.
#[derive(Debug, Clone, PartialEq)]
pub struct DatabaseState {
    /// The version of the server.
    pub version: String,
    /// How large the database is.
    pub bytes: u64,
    /// Who is connected to it.
    pub connections: u64,
    /// Of those, who is busy.
    pub active: u64,
    /// How long the oldest transaction has lasted, which keeps everything that was deleted since.
    pub oldest_transaction: Duration,
    /// The tables of this schema, largest first.
    pub tables: Vec<TableState>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableState {
    /// Its name.
    pub name: String,
    /// How large it is with all that belongs to it.
    pub bytes: u64,
    /// About how many rows it has.
    pub rows: u64,
    /// About how many dead ones.
    pub dead_rows: u64,
    /// When it was last vacuumed by itself.
    pub vacuumed_at: Option<OffsetDateTime>,
}

impl Queues {
    /// How this process is doing.
    pub fn process(&self) -> ProcessState {
        let health = self.inner.wake.health();
        let pops = self.inner.pops.health();
        ProcessState {
            uptime: self.inner.started.elapsed(),
            waiting: pops.waiters,
            groups: pops.groups,
            hearing: health.is_connected(),
            polling: pops.polling,
            pops: self.pops(),
        }
    }

    /// How the database is doing.
    ///
    /// # Errors
    /// The database's.
    pub async fn database(&self) -> Result<DatabaseState> {
        let inner = &self.inner;
        let rows = inner.db.ask("look at the database", || sqlx::query(&inner.sql.database_state)).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let table = |row: &PgRow| {
            Ok(TableState {
                name: row.try_get("name")?,
                bytes: row.try_get::<i64, _>("bytes")? as u64,
                rows: row.try_get::<i64, _>("live")? as u64,
                dead_rows: row.try_get::<i64, _>("dead")? as u64,
                vacuumed_at: row.try_get("vacuumed_at")?,
            })
        };
        let tables = inner.db.ask("look at the tables", || sqlx::query(&inner.sql.table_states)).await?;
        Ok(DatabaseState {
            version: row.try_get("version")?,
            bytes: row.try_get::<i64, _>("bytes")? as u64,
            connections: row.try_get::<i64, _>("connections")? as u64,
            active: row.try_get::<i64, _>("active")? as u64,
            oldest_transaction: Duration::try_from_secs_f64(row.try_get("oldest_transaction_seconds")?)
                .unwrap_or_default(),
            tables: tables.iter().map(table).collect::<Result<_>>()?,
        })
    }
}
