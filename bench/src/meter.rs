//! What a round costs the server, counted from outside.
//!
//! - *Statements* are those of the workloads' role in `pg_stat_statements`: what a client sends, including `begin` and
//!   `commit`, but not the statements within functions. It holds 5 000 different statements, and every schema adds new
//!   ones. So the role's entries are reset before each round; otherwise the server would evict entries during a count.
//! - *WAL* and *rows* are read from the log itself, by `pg_walinspect`, between two positions. It reports full-page
//!   images separately, in bytes; `pg_stat_wal` only counts them and, like `n_tup_ins`, is updated up to ten seconds
//!   late. A checkpoint comes first, so that all rounds begin with the same images to write. The log is that of the
//!   whole server: no other program should write to it. Schemas are removed after their round, so that vacuum has
//!   nothing to do in the next one.

use sqlx::{PgConnection, Row as _};

use crate::Result;
use crate::server::Server;

/// Resets the counts of the role $1.
const FORGET: &str = "select pg_stat_statements_reset(oid, 0, 0) from pg_roles where rolname = $1";
/// The statements of the role $1, the most frequent first, each shortened to 100 characters.
const SENT: &str = r"
    select s.calls::float8, left(regexp_replace(s.query, '\s+', ' ', 'g'), 100) from pg_stat_statements s
    join pg_roles r on r.oid = s.userid where r.rolname = $1 order by s.calls desc limit 20";
/// Makes the log readable up to its current position: the commit of the message is flushed, and with it everything
/// before it.
const MESSAGE: &str = "select pg_logical_emit_message(true, 'reveille-bench', '')";
const POSITION: &str = "select pg_current_wal_flush_lsn()::text";
/// Bytes of records without full-page images, and row versions that were written.
const WRITTEN: &str = r#"
    select coalesce(sum(record_size), 0)::float8,
           coalesce(sum(count) filter (where "resource_manager/record_type" ~ '^Heap/(INSERT|UPDATE|HOT_UPDATE)'), 0)::float8
    from pg_get_wal_stats($1::pg_lsn, $2::pg_lsn, true)"#;

/// A running count.
pub(crate) struct Meter<'a> {
    server: &'a Server,
    /// The position of the log at the start; `None` if the log cannot be read.
    from: Option<String>,
}

/// What was counted; NaN for what cannot be counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Statements of the contender.
    pub(crate) statements: f64,
    /// Bytes of WAL without full-page images.
    pub(crate) wal_bytes: f64,
    /// Row versions written, in tables, their TOAST tables and (rarely within a round) catalogs.
    pub(crate) rows: f64,
}

impl Cost {
    /// The cost per item.
    pub(crate) fn per(self, items: f64) -> Cost {
        Cost { statements: self.statements / items, wal_bytes: self.wal_bytes / items, rows: self.rows / items }
    }
}

impl Meter<'_> {
    /// Starts counting.
    pub(crate) async fn start(server: &Server) -> Result<Meter<'_>> {
        let mut observer = server.observer().await;
        // A server of `--database-url` may reject it; the figures are then only less precise.
        sqlx::raw_sql("checkpoint").execute(&mut *observer).await.ok();
        let extension = "create extension if not exists pg_walinspect";
        let readable = sqlx::raw_sql(extension).execute(&mut *observer).await.is_ok();
        let from = if readable { Some(position(&mut observer).await?) } else { None };
        if let Some(role) = server.counted_role() {
            sqlx::query(FORGET).bind(role).execute(&mut *observer).await?;
        }
        Ok(Meter { server, from })
    }

    /// Statements so far.
    pub(crate) async fn statements(&self) -> Result<f64> {
        Ok(self.server.statements("").await?.map_or(f64::NAN, |count| count as f64))
    }

    /// Statements so far whose text contains one of these.
    pub(crate) async fn statements_with(&self, fragments: &[&str]) -> Result<f64> {
        let mut sum = 0.0;
        for fragment in fragments {
            sum += self.server.statements(fragment).await?.map_or(f64::NAN, |count| count as f64);
        }
        Ok(sum)
    }

    /// Prints the statements that were sent to stderr, with their calls per item.
    pub(crate) async fn tell(&self, items: f64) -> Result<()> {
        let Some(role) = self.server.counted_role() else { return Ok(()) };
        let rows = sqlx::query(SENT).bind(role).fetch_all(&mut *self.server.observer().await).await?;
        for row in rows {
            let (calls, text): (f64, String) = (row.try_get(0)?, row.try_get(1)?);
            eprintln!("    {:8.3} {text}", calls / items);
        }
        Ok(())
    }

    /// The cost so far.
    pub(crate) async fn read(&self) -> Result<Cost> {
        let statements = self.statements().await?;
        let (mut wal_bytes, mut rows) = (f64::NAN, f64::NAN);
        if let Some(from) = &self.from {
            let mut observer = self.server.observer().await;
            let to = position(&mut observer).await?;
            let row = sqlx::query(WRITTEN).bind(from).bind(to).fetch_one(&mut *observer).await?;
            (wal_bytes, rows) = (row.try_get(0)?, row.try_get(1)?);
        }
        Ok(Cost { statements, wal_bytes, rows })
    }
}

async fn position(observer: &mut PgConnection) -> Result<String> {
    sqlx::query(MESSAGE).execute(&mut *observer).await?;
    Ok(sqlx::query_scalar(POSITION).fetch_one(observer).await?)
}
