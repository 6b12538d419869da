//! Removing schemas and roles of tests.
//!
//! A test's schema is dropped with its [`TestDb`](super::TestDb). At that time the test's runtime may be shutting down,
//! its thread may be panicking, and a connection of the test may still hold a lock. So this runs on its own thread and
//! runtime, and terminates sessions that hold a lock on the schema. A killed test process leaves its schema; later
//! processes remove it by the timestamp in its name.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use crate::Schema;

/// No test runs this long; older schemas are leftovers.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// Most leftovers that one process removes, so that no test waits long for it.
const SWEEP_AT_MOST: i64 = 20;

/// Attempts to drop a schema, each after terminating the sessions that hold a lock on it.
const DROP_TRIES: usize = 5;

/// Prefix of the names of test schemas and roles. Everything with this prefix may be removed.
const PREFIX: &str = "reveille_test_";

/// Takes the lock for changing privileges on the database: they are columns of one row, and concurrent changes fail.
pub(super) const RIGHTS_LOCK: &str = "select pg_advisory_xact_lock(hashtext('reveille test rights'))";

/// How long to wait for that lock: many tests start together.
pub(super) const RIGHTS_TIMEOUT: &str = "set local lock_timeout = '60s'";

/// A new schema name: a timestamp, to recognise leftovers, and a random part.
pub(super) fn new_name() -> String {
    let random = crate::embedded::random_hex(6).unwrap_or_else(|error| panic!("{error}"));
    format!("{PREFIX}{:08x}_{random}", seconds())
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Drops a schema and roles, independently of the caller's runtime. Blocks until done.
pub(super) fn drop_now(url: &str, schema: &Schema, roles: &[String]) {
    let (url, schema, roles) = (url.to_owned(), schema.clone(), roles.to_vec());
    let cleaner = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut connection = connect(&url).await?;
            let mut dropped = Ok(());
            for role in &roles {
                dropped = dropped.and(drop_role(&mut connection, role).await);
            }
            // Even if a role could not be dropped.
            dropped = drop_schema(&mut connection, &schema).await.and(dropped);
            connection.close().await.and(dropped)
        })
    });
    match cleaner.join() {
        Ok(Ok(())) => {}
        // Not a failure of the test: it may have stopped the server. A later sweep removes the schema.
        Ok(Err(error)) => eprintln!("a test's schema was left behind: {error}"),
        Err(_) => eprintln!("a test's schema was left behind: the cleaning thread panicked"),
    }
}

/// Removes the schemas and roles of killed test processes.
pub(super) async fn sweep(connection: &mut PgConnection) -> sqlx::Result<()> {
    let oldest = format!("{PREFIX}{:08x}", seconds().saturating_sub(LEFT_BEHIND.as_secs()));
    let ours = format!("^{PREFIX}[0-9a-f]{{8}}_");
    let left: Vec<String> = sqlx::query_scalar(
        "select nspname::text from pg_namespace where nspname ~ $1 and nspname < $2 order by 1 limit $3",
    )
    .bind(&ours)
    .bind(&oldest)
    .bind(SWEEP_AT_MOST)
    .fetch_all(&mut *connection)
    .await?;
    for name in left {
        if let Ok(schema) = Schema::new(&name) {
            // A failure is ignored: another process may be sweeping too.
            let _ = drop_schema(connection, &schema).await;
        }
    }
    let roles: Vec<String> = sqlx::query_scalar(
        "select rolname::text from pg_roles where rolname ~ $1 and rolname < $2 order by 1 limit $3",
    )
    .bind(&ours)
    .bind(&oldest)
    .bind(SWEEP_AT_MOST)
    .fetch_all(&mut *connection)
    .await?;
    for role in roles {
        let _ = drop_role(connection, &role).await;
    }
    Ok(())
}

/// A connection for creating and dropping, with a short lock timeout.
pub(super) async fn connect(url: &str) -> sqlx::Result<PgConnection> {
    let options: PgConnectOptions = url.parse()?;
    let options = options.application_name("reveille test").options([("lock_timeout", "500ms")]);
    options.disable_statement_logging().connect().await
}

async fn drop_schema(connection: &mut PgConnection, schema: &Schema) -> sqlx::Result<()> {
    let drop = format!("drop schema if exists {} cascade", schema.quoted());
    let mut tried = 0;
    loop {
        let dropped = sqlx::raw_sql(AssertSqlSafe(drop.clone())).execute(&mut *connection).await;
        tried += 1;
        match dropped {
            Ok(_) => return Ok(()),
            Err(error) if tried == DROP_TRIES => return Err(error),
            Err(_) => end_lock_holders(connection, schema).await?,
        }
    }
}

async fn end_lock_holders(connection: &mut PgConnection, schema: &Schema) -> sqlx::Result<()> {
    // A lock on a table of the schema, or on the schema itself, as an uncommitted table has.
    let end = "select pg_terminate_backend(l.pid) from pg_locks l \
               left join pg_class c on l.locktype = 'relation' and c.oid = l.relation \
               join pg_namespace n on n.oid = c.relnamespace \
                 or (l.locktype = 'object' and l.classid = 'pg_namespace'::regclass and l.objid = n.oid) \
               where n.nspname = $1 and l.pid <> pg_backend_pid() \
                 and l.database = (select oid from pg_database where datname = current_database())";
    sqlx::query(end).bind(schema.name()).execute(connection).await.map(drop)
}

async fn drop_role(connection: &mut PgConnection, role: &str) -> sqlx::Result<()> {
    let end = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = $1";
    sqlx::query(end).bind(role).execute(&mut *connection).await?;
    let mut transaction = connection.begin().await?;
    let drop = format!("{RIGHTS_TIMEOUT}; {RIGHTS_LOCK}; drop owned by \"{role}\" cascade; drop role \"{role}\"");
    sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut *transaction).await?;
    transaction.commit().await
}
