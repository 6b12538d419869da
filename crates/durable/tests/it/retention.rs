//! Instances that are deleted some time after they ended.

use std::time::Duration;

use duroxide::providers::ProviderAdmin;
use reveille_durable::{LongPollConfig, Options, PostgresProvider};
use reveille_pg::testing::TestDb;

use crate::calls::{Done, ack, begin, fetch, raised, send};
use crate::fixture::{Fixture, eventually};

const LEASE: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_secs(86_400);

/// Brings an instance to its end.
async fn end(provider: &PostgresProvider, instance: &str) {
    begin(provider, instance, LEASE).await;
    send(provider, raised(instance, "")).await;
    let (_, token, _) = fetch(provider, LEASE).await;
    ack(provider, &token, Done::completed(instance, 2, "done")).await.expect("the lease is fresh");
}

/// Lets an instance have ended some days ago.
async fn ended_days_ago(db: &TestDb, instance: &str, days: i32) {
    let sql = "update {schema}.executions set completed_at = now() - $2 * interval '1 day' where instance_id = $1";
    let sql = db.schema().sql(sql);
    let done = sqlx::query(&sql).bind(instance).bind(days).execute(db.database().pool()).await.expect("an older end");
    assert_eq!(done.rows_affected(), 1);
}

/// Makes an instance the child of another.
async fn adopt(db: &TestDb, child: &str, parent: &str) {
    let sql = db.schema().sql("update {schema}.instances set parent_instance_id = $2 where instance_id = $1");
    sqlx::query(&sql).bind(child).bind(parent).execute(db.database().pool()).await.expect("a child");
}

async fn keeping(db: &TestDb, retention: Duration) -> PostgresProvider {
    let (long_poll, retention) = (LongPollConfig::enabled(), Some(retention));
    let options = Options::default().schema(db.schema().name()).long_poll(long_poll).retention(retention);
    PostgresProvider::with_database(db.database().clone(), options).await.expect("start a provider")
}

/// An instance that ended longer ago than the retention is deleted with all below it; one that ended later, one that
/// runs, and a child of one that runs are kept.
/// A provider without a retention was there all the time, and has deleted nothing.
#[tokio::test]
async fn ended_instances_are_deleted_after_the_retention() {
    let Fixture { db, provider } = Fixture::new().await;
    for instance in ["old", "child", "recent", "kept child"] {
        end(&provider, instance).await;
    }
    begin(&provider, "running", LEASE).await;
    adopt(&db, "child", "old").await;
    adopt(&db, "kept child", "running").await;
    for (instance, days) in [("old", 3), ("child", 4), ("kept child", 5), ("recent", 1)] {
        ended_days_ago(&db, instance, days).await;
    }
    let all = async || {
        let mut all = provider.list_instances().await.expect("a list");
        all.sort();
        all
    };
    assert_eq!(all().await.len(), 5, "nothing is deleted unless it is asked for");
    let _keeping = keeping(&db, 2 * DAY).await;
    eventually("the old one is deleted", async || all().await == ["kept child", "recent", "running"]).await;
    let rows = db.schema().sql("select count(*) from {schema}.history where instance_id in ('old', 'child')");
    let rows: i64 = sqlx::query_scalar(&rows).fetch_one(db.database().pool()).await.expect("a count");
    assert_eq!(rows, 0);
}

/// Many are deleted in several transactions, by several providers at a time, and a provider that is dropped stops.
#[tokio::test]
async fn several_providers_delete_together() {
    let Fixture { db, provider } = Fixture::new().await;
    end(&provider, "0").await;
    ended_days_ago(&db, "0", 3).await;
    for sql in [
        "insert into {schema}.instances (instance_id, orchestration_name, current_execution_id, status)
         select n::text, i.orchestration_name, i.current_execution_id, i.status from {schema}.instances i, generate_series(1, 200) n",
        "insert into {schema}.executions (instance_id, execution_id, status, completed_at)
         select n::text, e.execution_id, e.status, e.completed_at from {schema}.executions e, generate_series(1, 200) n",
    ] {
        sqlx::query(db.schema().sql(sql)).execute(db.database().pool()).await.expect("instances");
    }
    let both = tokio::join!(keeping(&db, DAY), keeping(&db, DAY));
    let left = async || provider.list_instances().await.expect("a list").len();
    eventually("all are deleted", async || left().await == 0).await;
    drop(both);
}
