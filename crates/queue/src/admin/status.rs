//! The state of this process and of the database, for a console.
//!
//! It has only what is cheap to know: the counters of this process, and PostgreSQL's statistics. History is left to a
//! metrics server.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;

use crate::error::Result;
use crate::queues::Queues;

/// This process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessState {
    /// The time since its start.
    pub uptime: Duration,
    /// The number of waiting pops.
    pub waiting: usize,
    /// The number of groups of waiters, including idle ones that are remembered.
    pub groups: usize,
    /// Whether the listener is connected.
    pub connected: bool,
    /// Whether consumers poll at an interval.
    pub polling: bool,
    /// The counters of pops since the start.
    pub pops: reveille_wake::Counts,
}

/// The database.
#[derive(Debug, Clone, PartialEq)]
pub struct DatabaseState {
    /// The version of the server.
    pub version: String,
    /// Its size.
    pub bytes: u64,
    /// The number of connections.
    pub connections: u64,
    /// The number of connections that execute a statement.
    pub active: u64,
    /// The age of the oldest transaction, which keeps all rows that were deleted since.
    pub oldest_transaction: Duration,
    /// The tables of this schema, largest first.
    pub tables: Vec<TableState>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableState {
    /// Its name.
    pub name: String,
    /// Its size, with indexes and TOAST.
    pub bytes: u64,
    /// The estimated number of rows.
    pub rows: u64,
    /// The estimated number of dead rows.
    pub dead_rows: u64,
    /// The time of the last autovacuum.
    pub vacuumed_at: Option<OffsetDateTime>,
}

impl Queues {
    /// The state of this process.
    pub fn process(&self) -> ProcessState {
        let health = self.inner.wake.health();
        let pops = self.inner.pops.health();
        ProcessState {
            uptime: self.inner.started.elapsed(),
            waiting: pops.waiters,
            groups: pops.groups,
            connected: health.is_connected(),
            polling: pops.polling,
            pops: self.pops(),
        }
    }

    /// The state of the database.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn database(&self) -> Result<DatabaseState> {
        let inner = &self.inner;
        let rows = inner.db.ask("read the state of the database", || sqlx::query(&inner.sql.database_state)).await?;
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
        let tables = inner.db.ask("read the states of the tables", || sqlx::query(&inner.sql.table_states)).await?;
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
