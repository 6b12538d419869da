//! What a round costs the server, counted from outside.
//!
//! - *Statements* are those of the workloads' role, by `pg_stat_statements`: what a client sends, `begin` and `commit`
//!   included, not what functions do inside. Its table has room for 5 000 statements, and every schema brings new ones;
//!   so the role's are forgotten before each round, or old ones would be evicted while new ones are counted.
//! - *WAL* and *rows* are read from the log itself, by `pg_walinspect`, between two of its positions. It distinguishes the images
//!   of whole pages apart to the byte; `pg_stat_wal` only counts them, and like `n_tup_ins` it learns what a connection
//!   did up to ten seconds late. A checkpoint comes first, so that all rounds begin with the same images to write. The
//!   log is that of the whole server: no other program should write to it, and schemas are removed after their round,
//!   so that vacuum has nothing to do in the next one.

use sqlx::{PgConnection, Row as _};

use crate::Result;
use crate::server::Server;

/// Forgets the statements of the role $1.
const FORGET: &str = "select pg_stat_statements_reset(oid, 0, 0) from pg_roles where rolname = $1";
/// The statements of the role $1, those sent most often first, each by its beginning.
const SENT: &str = r"
    select s.calls::float8, left(regexp_replace(s.query, '\s+', ' ', 'g'), 100) from pg_stat_statements s
    join pg_roles r on r.oid = s.userid where r.rolname = $1 order by s.calls desc limit 20";
/// A position of the log up to which it can be read. The message is a commit that is flushed, and with it all that came
/// before.
const MESSAGE: &str = "select pg_logical_emit_message(true, 'reveille-bench', '')";
const POSITION: &str = "select pg_current_wal_flush_lsn()::text";
/// Bytes of records without the images of pages, and row versions that were written.
const WRITTEN: &str = r#"
    select coalesce(sum(record_size), 0)::float8,
           coalesce(sum(count) filter (where "resource_manager/record_type" ~ '^Heap/(INSERT|UPDATE|HOT_UPDATE)'), 0)::float8
    from pg_get_wal_stats($1::pg_lsn, $2::pg_lsn, true)"#;

/// A meter that runs.
pub(crate) struct Meter<'a> {
    server: &'a Server,
    /// Where the log was; `None` if it cannot be read here.
    from: Option<String>,
}

/// What was counted; not a number where it could not be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// Statements of the contender.
    pub(crate) statements: f64,
    /// Bytes of WAL, images of pages not counted.
    pub(crate) wal_bytes: f64,
    /// Row versions written, in tables, their TOAST and (hardly ever within a round) catalogs.
    pub(crate) rows: f64,
}

impl Cost {
    /// The cost of one of so many.
    pub(crate) fn per(self, items: f64) -> Cost {
        Cost { statements: self.statements / items, wal_bytes: self.wal_bytes / items, rows: self.rows / items }
    }
}

impl Meter<'_> {
    /// Starts counting.
    pub(crate) async fn start(server: &Server) -> Result<Meter<'_>> {
        let mut observer = server.observer().await;
        // A given server may not allow it, which costs precision only.
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

    /// Prints to stderr which statements were sent, for one of so many items each.
    pub(crate) async fn tell(&self, items: f64) -> Result<()> {
        let Some(role) = self.server.counted_role() else { return Ok(()) };
        let rows = sqlx::query(SENT).bind(role).fetch_all(&mut *self.server.observer().await).await?;
        for row in rows {
            let (calls, text): (f64, String) = (row.try_get(0)?, row.try_get(1)?);
            eprintln!("    {:8.3} {text}", calls / items);
        }
        Ok(())
    }

    /// Everything so far.
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
