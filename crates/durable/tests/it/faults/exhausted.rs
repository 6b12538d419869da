//! Too few connections, and a schema with an odd name: everything works, if slower.

use reveille_durable::PostgresProvider;
use reveille_pg::testing::{Proxy, TestDb};
use sqlx::postgres::PgPoolOptions;
use tokio::time::sleep;

use super::load::{ACTIVITIES, Load};
use super::{SHORT_LEASE, connected, four_each, options};

/// Orchestrations that run at once.
const ORCHESTRATIONS: usize = 20;

/// An application that takes all connections of the pool it shares with the provider delays orchestrations and fails
/// none.
/// It takes them in the middle of the work, for longer than a lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_pool_exhausted_by_the_application_fails_nothing() {
    const CONNECTIONS: u32 = 5;
    let db = TestDb::new().await;
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(db.url()).await.expect("a pool");
    let provider = PostgresProvider::from_pool(pool.clone(), options(db.schema())).await.expect("a provider");
    let load = Load::start(&provider).await;
    for number in 0..ORCHESTRATIONS {
        load.begin(number).await;
    }
    load.until_executed(ORCHESTRATIONS * ACTIVITIES / 4).await;
    let mut taken = Vec::new();
    for _ in 0..CONNECTIONS {
        taken.push(pool.acquire().await.expect("a connection"));
    }
    let before = load.executed();
    sleep(SHORT_LEASE).await;
    let after = load.executed();
    // What every dispatcher had claimed could still be executed, and nothing else.
    let meanwhile = after - before;
    assert!(meanwhile <= four_each().worker_concurrency, "{meanwhile} activities were claimed without a connection");
    assert!(after < ORCHESTRATIONS * ACTIVITIES, "everything was over before");
    drop(taken);
    for number in 0..ORCHESTRATIONS {
        load.finish(number).await;
    }
    load.stop().await;
}

/// A runtime of eight dispatchers completes its work with any number of connections: no task waits for one while
/// holding one.
async fn completes_with(max_connections: u32) {
    let db = TestDb::new().await;
    let pool = reveille_pg::Options::default().max_connections(max_connections);
    let options = options(db.schema()).pool(pool);
    let provider = PostgresProvider::connect(db.url(), options).await.expect("a provider");
    let load = Load::start(&provider).await;
    load.complete(ORCHESTRATIONS).await;
    load.stop().await;
}

/// One connection serves eight dispatchers.
#[tokio::test(flavor = "multi_thread")]
async fn work_is_done_with_one_connection() {
    completes_with(1).await;
}

/// Two connections, fewer than there are kinds of statements under way.
#[tokio::test(flavor = "multi_thread")]
async fn work_is_done_with_two_connections() {
    completes_with(2).await;
}

/// Five connections, fewer than dispatchers.
#[tokio::test(flavor = "multi_thread")]
async fn work_is_done_with_five_connections() {
    completes_with(5).await;
}

/// More connections than needed.
#[tokio::test(flavor = "multi_thread")]
async fn work_is_done_with_fifty_connections() {
    completes_with(50).await;
}

/// A schema whose name needs quoting is like any other: tables, functions, triggers, and channels between processes.
/// A runtime works there; orchestrations are started by and waited for in a provider that shares nothing with it, and
/// one is started in a transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_schema_may_be_called_anything() {
    let db = TestDb::with_odd_name().await;
    let here = PostgresProvider::connect(db.url(), options(db.schema())).await.expect("a provider");
    let proxy = Proxy::start(&db).await;
    let elsewhere = PostgresProvider::connect(proxy.url(), options(db.schema())).await.expect("a provider");
    assert_eq!(elsewhere.schema_name(), db.schema().name());
    connected(&here).await;
    connected(&elsewhere).await;
    let working = Load::start(&here).await;
    let mut asking = working.clone();
    asking.provider = elsewhere.clone();
    asking.complete(ORCHESTRATIONS).await;

    let mut transaction = elsewhere.pool().begin().await.expect("a transaction");
    let number = ORCHESTRATIONS;
    elsewhere
        .start_orchestration_in(&mut transaction, &format!("count-{number}"), "Count", None, &number.to_string())
        .await
        .expect("started");
    transaction.commit().await.expect("committed");
    asking.finish(number).await;
    working.stop().await;
}
