//! Servers that restart, fail over, or never answer.

use std::time::{Duration, Instant};

use reveille_pg::retry::{Policy, retry};
use reveille_pg::testing::{PrivateCluster, TestDb};
use reveille_pg::{Database, Error, Options, Result};
use sqlx::PgPool;

/// The port of the server that a session of `database` reaches, trying again as callers do.
async fn port(database: &Database) -> Result<i32> {
    retry(&Policy::default(), "ask for the port", async |_| {
        let mut session = database.session().await?;
        Ok(sqlx::query_scalar("select inet_server_port()").fetch_one(&mut *session).await?)
    })
    .await
}

async fn is_standby(server: &PrivateCluster) -> Result<bool> {
    let pool = PgPool::connect(server.url()).await?;
    Ok(sqlx::query_scalar("select pg_is_in_recovery()").fetch_one(&pool).await?)
}

/// One URL for both servers, `first` before `second`.
fn both(first: &PrivateCluster, second: &PrivateCluster) -> String {
    let own = format!("127.0.0.1:{}", first.port());
    assert!(first.url().contains(&own), "the URL of a private server names its loopback address");
    first.url().replacen(&own, &format!("{own},127.0.0.1:{}", second.port()), 1)
}

/// After a crash every idle connection is dead. The first statement fails as ambiguous, and all later ones succeed.
#[tokio::test]
async fn a_restart_costs_one_attempt() -> Result<()> {
    let Some(server) = PrivateCluster::start().await else { return Ok(()) };
    let options = Options::default();
    let size = options.max_connections;
    let database = Database::connect(server.url(), options).await?;
    let mut sessions = Vec::new();
    for _ in 0..size {
        sessions.push(database.session().await?);
    }
    drop(sessions);
    while database.pool().num_idle() < size as usize {
        tokio::task::yield_now().await;
    }
    server.restart_immediate().await.expect("restart");
    let mut failures = Vec::new();
    for _ in 0..size {
        let mut session = database.session().await?;
        if let Err(error) = sqlx::query("select 1").execute(&mut *session).await {
            failures.push(Error::from(error));
        }
    }
    assert!(failures.len() <= 1, "none if another test has just reported trouble: {failures:?}");
    assert!(failures.iter().all(|error| error.is_transient() && error.is_ambiguous()), "{failures:?}");
    Ok(())
}

/// A call made while the server is down succeeds when it is back, within the retry loop's own limits.
#[tokio::test]
async fn a_call_outlives_a_restart() -> Result<()> {
    let Some(server) = PrivateCluster::start().await else { return Ok(()) };
    let database = Database::connect(server.url(), Options::default()).await?;
    port(&database).await?;
    server.stop().await.expect("stop");
    let (answer, started) = tokio::join!(port(&database), server.start_again());
    started.expect("start again");
    assert_eq!(answer?, i32::from(server.port()));
    Ok(())
}

/// A standby in the list is passed over in any position, by a connection that checks the hosts first and by a pool that
/// does not; for a pool that accepts any server the first host is enough.
#[tokio::test]
async fn a_standby_is_passed_over() -> Result<()> {
    let Some(primary) = PrivateCluster::start().await else { return Ok(()) };
    let standby = primary.standby().await;
    assert!(is_standby(&standby).await?);
    let url = both(&standby, &primary);
    let database = Database::connect(&url, Options::default()).await?;
    assert_eq!(port(&database).await?, i32::from(primary.port()));
    let lazy = Database::connect_lazy(&url, Options::default())?;
    assert_eq!(port(&lazy).await?, i32::from(primary.port()));
    let unused = Database::connect_lazy(&url, Options::default())?;
    let dedicated = unused.dedicated("listener", &[])?;
    let reached: i32 = sqlx::query_scalar("select inet_server_port()").fetch_one(&dedicated).await?;
    assert_eq!(reached, i32::from(primary.port()));

    let any = if url.contains('?') { "&target_session_attrs=any" } else { "?target_session_attrs=any" };
    let any = Database::connect(&(url + any), Options::default()).await?;
    assert_eq!(port(&any).await?, i32::from(standby.port()));

    let only =
        standby.url().to_owned() + if standby.url().contains('?') { "&" } else { "?" } + "target_session_attrs=primary";
    let error = Database::connect(&only, Options::default()).await.expect_err("there is no primary");
    assert!(matches!(error, Error::NoPrimary { .. }) && error.is_transient() && !error.is_ambiguous(), "{error:?}");
    Ok(())
}

/// Tests that measure time: no other test runs at the same time.
mod alone {
    use super::*;

    /// When the primary is gone and the standby promoted, sessions and dedicated connections move over by themselves.
    #[tokio::test]
    async fn pools_follow_the_primary() -> Result<()> {
        let Some(primary) = PrivateCluster::start().await else { return Ok(()) };
        let standby = primary.standby().await;
        let database = Database::connect(&both(&primary, &standby), Options::default()).await?;
        let dedicated = database.dedicated("listener", &[])?;
        assert_eq!(port(&database).await?, i32::from(primary.port()));
        sqlx::query("select 1").execute(&dedicated).await?;

        primary.stop_immediate().await.expect("stop the primary");
        let promote = PgPool::connect(standby.url()).await?;
        sqlx::query("select pg_promote()").execute(&promote).await?;
        let started = Instant::now();
        assert_eq!(port(&database).await?, i32::from(standby.port()));
        let reached: i32 = retry(&Policy::default(), "dedicated", async |_| {
            Ok(sqlx::query_scalar("select inet_server_port()").fetch_one(&dedicated).await?)
        })
        .await?;
        assert_eq!(reached, i32::from(standby.port()));
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        Ok(())
    }

    /// A host that accepts connections and never answers, as behind a broken firewall, delays a connection by no more
    /// than `connect_timeout`. A listener that never accepts stands in for it.
    #[tokio::test]
    async fn a_silent_first_host_is_passed_over() -> Result<()> {
        let db = TestDb::new().await;
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = silent.local_addr().expect("bound").port();
        let separator = if db.url().contains('?') { '&' } else { '?' };
        let url = db.url().replacen('@', &format!("@127.0.0.1:{port},"), 1) + &format!("{separator}connect_timeout=1");
        let started = Instant::now();
        let database = Database::connect(&url, Options::default()).await?;
        sqlx::query("select 1").execute(&mut *database.session().await?).await?;
        let lazy = Database::connect_lazy(&url, Options::default())?;
        sqlx::query("select 1").execute(&mut *lazy.session().await?).await?;
        assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
        Ok(())
    }
}
