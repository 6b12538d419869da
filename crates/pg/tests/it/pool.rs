//! Pools, sessions and addresses against a real server.

use std::time::{Duration, Instant};

use reveille_pg::retry::{Policy, retry};
use reveille_pg::testing::{Mode, Proxy, TestDb};
use reveille_pg::{Database, Error, Options, Result};
use sqlx::PgConnection;

async fn text(connection: &mut PgConnection, sql: &'static str) -> Result<String> {
    Ok(sqlx::query_scalar(sql).fetch_one(connection).await?)
}

async fn count(db: &TestDb) -> Result<i64> {
    let sql = db.schema().sql("select count(*) from {schema}.t");
    Ok(sqlx::query_scalar(sql).fetch_one(db.database().pool()).await?)
}

/// Name, limits and isolation reach the server when the connection starts, so that no statement is spent on them.
#[tokio::test]
async fn options_reach_the_server() -> Result<()> {
    let db = TestDb::new().await;
    let options = Options::default()
        .application_name("a name with 'quotes' \\ and blanks")
        .statement_timeout(Duration::from_millis(12_345))
        .lock_timeout(None);
    let database = Database::connect(db.url(), options).await?;
    let mut session = database.session().await?;
    assert_eq!(text(&mut session, "show application_name").await?, "a name with 'quotes' \\ and blanks");
    assert_eq!(text(&mut session, "show statement_timeout").await?, "12345ms");
    assert_eq!(text(&mut session, "show lock_timeout").await?, "0");
    session.finish().await
}

/// Sessions of this library are read committed whatever the URL says; in the application's pool only its transactions
/// are. The URL sets another default.
#[tokio::test]
async fn the_isolation_is_stated_and_not_left_to_defaults() -> Result<()> {
    let db = TestDb::new().await;
    let separator = if db.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options[default_transaction_isolation]=serializable", db.url());
    let ours = Database::connect(&url, Options::default()).await?;
    assert_eq!(text(&mut *ours.session().await?, "show transaction_isolation").await?, "read committed");

    let theirs = Database::from_pool(sqlx::PgPool::connect(&url).await?);
    assert_eq!(text(&mut *theirs.session().await?, "show transaction_isolation").await?, "serializable");
    assert_eq!(text(&mut *theirs.begin().await?, "show transaction_isolation").await?, "read committed");
    Ok(())
}

/// A name in the URL was put there for this deployment and overrides the program's own.
#[tokio::test]
async fn a_name_in_the_url_wins() -> Result<()> {
    let db = TestDb::new().await;
    let separator = if db.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}application_name=mine", db.url());
    let database = Database::connect(&url, Options::default()).await?;
    assert_eq!(text(&mut *database.session().await?, "show application_name").await?, "mine");
    Ok(())
}

/// A pool without a free connection reports that within its timeout, as transient, and works again when a connection
/// comes back.
#[tokio::test]
async fn an_exhausted_pool_is_transient() -> Result<()> {
    let db = TestDb::new().await;
    let options = Options::default().max_connections(1).acquire_timeout(Duration::from_secs(2));
    let database = Database::connect(db.url(), options).await?;
    let held = database.session().await?;
    let error = database.session().await.expect_err("in use");
    assert!(matches!(error, Error::Exhausted) && error.is_transient() && !error.is_ambiguous(), "{error:?}");
    held.finish().await?;
    retry(&Policy::default(), "session", async |_| database.session().await).await?.finish().await?;
    database.close().await;
    assert!(matches!(database.session().await, Err(Error::Closed)));
    Ok(())
}

/// A pool whose server cannot be reached must report that, and not that its connections are in use.
/// A proxy refuses connections; then it accepts them and never answers. The pool could open more connections.
#[tokio::test]
async fn an_unreachable_server_is_not_an_exhausted_pool() -> Result<()> {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let options = || Options::default().acquire_timeout(Duration::from_millis(200));
    for (mode, reason) in [(Mode::Refuse, "nothing listens there"), (Mode::Swallow, "no answer in time")] {
        proxy.set(mode).await;
        let database = Database::connect_lazy(proxy.url(), options())?;
        // Twice in a row: the second answer is cached, and is the same.
        for _ in 0..2 {
            let error = database.session().await.expect_err("unreachable");
            assert!(matches!(error, Error::Unreachable { .. }) && error.is_transient(), "{error:?}");
            assert!(error.to_string().contains(reason), "{error:?}");
        }
    }
    proxy.set(Mode::Pass).await;
    let database = Database::connect_lazy(proxy.url(), options())?;
    database.check().await?;
    database.close().await;
    Ok(())
}

/// A restart kills all idle connections. The first statement after it fails, as ambiguous; then the others are tested
/// before they are used, so the second attempt succeeds. All sessions of a full pool are ended while they are idle.
#[tokio::test]
async fn idle_connections_that_died_cost_one_attempt() -> Result<()> {
    let db = TestDb::new().await;
    let options = Options::default().application_name(format!("idle {}", db.schema().name()));
    let database = Database::connect(db.url(), options.clone()).await?;
    let mut sessions = Vec::new();
    for _ in 0..options.max_connections {
        sessions.push(database.session().await?);
    }
    drop(sessions);
    while database.pool().num_idle() < options.max_connections as usize {
        tokio::task::yield_now().await;
    }
    let end = "select count(*) filter (where pg_terminate_backend(pid, 5000)) from pg_stat_activity where application_name = $1";
    let ended: i64 = sqlx::query_scalar(end).bind(&options.application_name).fetch_one(db.database().pool()).await?;
    assert_eq!(ended, i64::from(options.max_connections));

    let mut failures = Vec::new();
    for _ in 0..options.max_connections {
        let mut session = database.session().await?;
        if let Err(error) = text(&mut session, "select 'alive'").await {
            assert!(error.is_transient() && error.is_ambiguous(), "{error:?}");
            failures.push(error);
        }
    }
    assert!(failures.len() <= 1, "none if another test has just reported trouble: {failures:?}");
    Ok(())
}

/// A dedicated connection passes over a dead host by itself, without help of a session: its first failure is a report,
/// and the report starts a search for a live host.
#[tokio::test]
async fn a_dedicated_connection_passes_over_a_dead_host_too() -> Result<()> {
    let db = TestDb::new().await;
    let options = Options::default().acquire_timeout(Duration::from_secs(1));
    let database = Database::connect_lazy(&with_dead_host_first(db.url()), options)?;
    let listener = database.dedicated("listener", &[])?;
    let policy = Policy { attempts: 5, ..Policy::default() };
    let name = retry(&policy, "listen", async |_| text(&mut *listener.acquire().await?, "show application_name").await);
    assert_eq!(name.await?, "listener");
    Ok(())
}

fn with_dead_host_first(url: &str) -> String {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port();
    url.replacen('@', &format!("@127.0.0.1:{port},"), 1)
}

/// A dedicated connection has its own name and settings on top of the pool's, and there is exactly one.
#[tokio::test]
async fn a_dedicated_connection_is_one_with_its_own_settings() -> Result<()> {
    let db = TestDb::new().await;
    let pool = db.database().dedicated("notifier", &[("synchronous_commit", "off"), ("statement_timeout", "7s")])?;
    assert_eq!(pool.size(), 0, "it is lazy");
    let mut connection = pool.acquire().await?;
    assert_eq!(text(&mut connection, "show application_name").await?, "notifier");
    assert_eq!(text(&mut connection, "show synchronous_commit").await?, "off");
    assert_eq!(text(&mut connection, "show statement_timeout").await?, "7s");
    assert_eq!(text(&mut connection, "show lock_timeout").await?, "10s");
    assert!(pool.try_acquire().is_none());
    Ok(())
}

/// With a pooler in between and no way around it LISTEN is not possible, and the error names the option that helps.
#[tokio::test]
async fn listen_needs_a_direct_url_beside_a_pooler() -> Result<()> {
    let db = TestDb::new().await;
    let only_pooler = Database::connect_lazy(db.url(), Options::default().pooler(true))?;
    assert!(!only_pooler.can_listen());
    let error = only_pooler.dedicated("listener", &[]).expect_err("no direct URL");
    assert!(error.to_string().contains("`listen_url`"), "{error}");

    let options = Options::default().pooler(true).listen_url(db.url().to_owned());
    let both = Database::connect_lazy(db.url(), options)?;
    assert!(both.can_listen());
    assert_eq!(
        text(&mut *both.dedicated("listener", &[])?.acquire().await?, "show application_name").await?,
        "listener"
    );
    assert_eq!(both.identity(), db.database().identity());
    Ok(())
}

/// Through a pooler a session is one transaction: finished, it is committed; dropped, it is rolled back; and a failure
/// inside it is not reported as success at the end. Only the option decides, so the test needs no pooler.
#[tokio::test]
async fn a_pooled_session_is_one_transaction() -> Result<()> {
    let db = TestDb::new().await;
    sqlx::raw_sql(db.schema().sql("create table {schema}.t (id int)")).execute(db.database().pool()).await?;
    let database = Database::connect(db.url(), Options::default().pooler(true)).await?;
    let insert = db.schema().sql("insert into {schema}.t values ($1)");

    let mut dropped = database.session().await?;
    sqlx::query(&insert).bind(1).execute(&mut *dropped).await?;
    drop(dropped);
    assert_eq!(count(&db).await?, 0);

    let mut finished = database.session().await?;
    sqlx::query(&insert).bind(2).execute(&mut *finished).await?;
    finished.finish().await?;
    assert_eq!(count(&db).await?, 1);

    let mut failed = database.session().await?;
    sqlx::query(&insert).bind(3).execute(&mut *failed).await?;
    sqlx::raw_sql("select 1/0").execute(&mut *failed).await.expect_err("division by zero");
    let error = failed.finish().await.expect_err("nothing was committed");
    assert_eq!(error.sqlstate(), Some("25P02"));
    assert_eq!(count(&db).await?, 1);
    Ok(())
}

/// The application's own pool is used as it is, with a dedicated connection beside it to the same server.
#[tokio::test]
async fn the_applications_own_pool_is_used_as_it_is() -> Result<()> {
    let db = TestDb::new().await;
    let pool = sqlx::PgPool::connect(db.url()).await?;
    let database = Database::from_pool(pool.clone());
    assert_eq!(database.identity(), db.database().identity());
    assert_eq!(text(&mut *database.session().await?, "show statement_timeout").await?, "0");
    assert!(database.can_listen());
    let listener = database.dedicated("listener", &[])?;
    assert_eq!(text(&mut *listener.acquire().await?, "show application_name").await?, "listener");

    let pooled = Database::from_pool_with(pool, true, None)?;
    assert!(!pooled.can_listen());
    let mut session = pooled.session().await?;
    let (first, second) = ("select now()::text", "select now()::text");
    assert_eq!(text(&mut session, first).await?, text(&mut session, second).await?, "one transaction, one time");
    session.finish().await
}

/// A single host needs no extra statement: opening a pool and using it sends the caller's statement and no other.
/// Counted by role.
#[tokio::test]
async fn a_single_host_costs_no_extra_statement() -> Result<()> {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return Ok(()) };
    let database = Database::connect(role.url(), Options::default()).await?;
    for _ in 0..3 {
        assert_eq!(text(&mut *database.session().await?, "select 'alive'").await?, "alive");
    }
    let statements = role.statements().await;
    assert_eq!(statements.iter().map(|(_, calls)| calls).sum::<i64>(), 3, "{statements:?}");
    Ok(())
}

/// Tests that measure time: no other test runs at the same time.
mod alone {
    use super::*;

    /// A list of hosts works although the first is dead, at once for the caller and again for later sessions.
    #[tokio::test]
    async fn a_dead_first_host_is_passed_over() -> Result<()> {
        let db = TestDb::new().await;
        let url = with_dead_host_first(db.url());
        let started = Instant::now();
        let database = Database::connect(&url, Options::default()).await?;
        assert_eq!(text(&mut *database.session().await?, "select 'alive'").await?, "alive");
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());

        // If the hosts are not checked first, the session finds out.
        let lazy = Database::connect_lazy(&url, Options::default())?;
        assert_eq!(text(&mut *lazy.session().await?, "select 'alive'").await?, "alive");
        assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
        Ok(())
    }

    /// A network without answers must not use up the pool. The only connection is in the middle of a statement; its
    /// caller gives up, and when the network is back the pool opens another one, long before TCP gives up on the old.
    #[tokio::test]
    async fn a_connection_lost_in_silence_is_given_up() -> Result<()> {
        let db = TestDb::new().await;
        let proxy = Proxy::start(&db).await;
        let database = Database::connect(proxy.url(), Options::default().max_connections(1)).await?;
        let mut session = database.session().await?;
        proxy.set(Mode::Swallow).await;
        let statement = sqlx::query("select 1").execute(&mut *session);
        let gave_up =
            tokio::time::timeout(Duration::from_millis(50), statement).await.expect_err("nothing comes through");
        let error = Error::from(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, gave_up)));
        assert!(error.is_transient() && error.is_ambiguous(), "{error:?}");
        drop(session);
        // The old connection never answers; only new ones pass.
        let started = Instant::now();
        while database.pool().size() > 0 {
            assert!(started.elapsed() < Duration::from_secs(8), "the connection still counts as in use");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        proxy.set(Mode::Pass).await;
        assert_eq!(text(&mut *database.session().await?, "select 'alive'").await?, "alive");
        Ok(())
    }
}
