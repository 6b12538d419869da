//! Starting and signalling inside the application's own transaction: it takes effect exactly if the transaction
//! commits.

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, EventKind, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use reveille_durable::{LongPollConfig, Options, PostgresProvider};
use reveille_pg::testing::TestDb;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};

use crate::calls::raised;
use crate::fixture::{Elsewhere, Fixture, PATIENCE, eventually};

/// An application with a pool of its own, whose `search_path` leads to its own tables, among them some that are called
/// as the provider's are; and a runtime in another process.
struct Application {
    pool: PgPool,
    provider: PostgresProvider,
    runtime: Arc<Runtime>,
    elsewhere: Elsewhere,
    db: TestDb,
    _own: TestDb,
}

impl Application {
    async fn start() -> Application {
        let (db, own) = (TestDb::new().await, TestDb::new().await);
        let options: PgConnectOptions = db.url().parse().expect("the URL of a test server");
        let options = options.options([("search_path", own.schema().quoted())]);
        let pool = PgPoolOptions::new().max_connections(5).connect_with(options).await.expect("the application's pool");
        let tables = "create table orders (id bigint primary key); create table orchestrator_queue (trap text);
                      create table instances (trap text); create table history (trap text)";
        sqlx::raw_sql(tables).execute(&pool).await.expect("the application's tables");
        let options = Options::default().schema(db.schema().name()).long_poll(LongPollConfig::enabled());
        let provider = PostgresProvider::from_pool(pool.clone(), options).await.expect("start a provider");

        let elsewhere = Elsewhere::start(&db, LongPollConfig::enabled()).await;
        let order = |ctx: OrchestrationContext, input: String| async move {
            let paid = ctx.schedule_wait("paid").await;
            let sent = ctx.dequeue_event("parcels").await;
            Ok(format!("{input} {paid} {sent}"))
        };
        let ends = |_: OrchestrationContext, input: String| async move { Ok(input) };
        let orchestrations = OrchestrationRegistry::builder().register("order", order).register("ends", ends).build();
        let store = Arc::new(elsewhere.provider.clone());
        let runtime = Runtime::start_with_store(store, ActivityRegistry::builder().build(), orchestrations).await;
        Application { pool, provider, runtime, elsewhere, db, _own: own }
    }

    async fn count(&self, sql: &str) -> i64 {
        let sql = self.db.schema().sql(sql);
        sqlx::query_scalar(AssertSqlSafe(sql.as_str().to_owned())).fetch_one(&self.pool).await.expect("a number")
    }

    async fn output(&self, instance: &str) -> String {
        match self.provider.wait_for_completion(instance, PATIENCE).await.expect("waiting") {
            Some(OrchestrationStatus::Completed { output, .. }) => output,
            other => panic!("{instance}: {other:?}"),
        }
    }

    /// Waits until the order waits for such an event.
    async fn waits_for(&self, instance: &str, is_it: fn(&EventKind) -> bool) {
        let client = Client::new(Arc::new(self.elsewhere.provider.clone()));
        eventually("it waits", async || {
            let history = client.read_execution_history(instance, 1).await.unwrap_or_default();
            history.iter().any(|event| is_it(&event.kind))
        })
        .await;
    }
}

/// What is started and sent in a transaction is carried out in another process when the transaction has committed,
/// together with the application's own rows.
#[tokio::test(flavor = "multi_thread")]
async fn committed_calls_take_effect() {
    let app = Application::start().await;
    let mut transaction = app.pool.begin().await.expect("begin");
    sqlx::query("insert into orders values (42)").execute(&mut *transaction).await.expect("the order");
    app.provider.start_orchestration_in(&mut transaction, "order-42", "order", None, "42").await.expect("started");
    sqlx::query("insert into orders values (43)").execute(&mut *transaction).await.expect("still the application's");
    transaction.commit().await.expect("committed");
    app.waits_for("order-42", |kind| matches!(kind, EventKind::ExternalSubscribed { .. })).await;

    let mut transaction = app.pool.begin().await.expect("begin");
    app.provider.raise_event_in(&mut transaction, "order-42", "paid", "in cash").await.expect("raised");
    app.provider.enqueue_event_in(&mut transaction, "order-42", "parcels", "by post").await.expect("sent");
    transaction.commit().await.expect("committed");
    assert_eq!(app.output("order-42").await, "42 in cash by post");
    assert_eq!(app.count("select count(*) from orders").await, 2);
    app.runtime.shutdown(Some(0)).await;
}

/// A rollback undoes starts and events; a savepoint undoes only its part.
/// The events that were rolled back would have moved the order on.
#[tokio::test(flavor = "multi_thread")]
async fn rolled_back_calls_have_no_effect() {
    let app = Application::start().await;
    let mut transaction = app.pool.begin().await.expect("begin");
    app.provider.start_orchestration_in(&mut transaction, "never", "ends", None, "").await.expect("started");
    transaction.rollback().await.expect("rolled back");

    let mut transaction = app.pool.begin().await.expect("begin");
    app.provider.start_orchestration_in(&mut transaction, "order", "order", None, "").await.expect("started");
    let mut savepoint = sqlx::Acquire::begin(&mut *transaction).await.expect("a savepoint");
    app.provider.start_orchestration_in(&mut savepoint, "not either", "ends", None, "").await.expect("started");
    savepoint.rollback().await.expect("rolled back");
    transaction.commit().await.expect("committed");
    app.waits_for("order", |kind| matches!(kind, EventKind::ExternalSubscribed { .. })).await;

    for (what, commits) in [("rolled back", false), ("committed", true)] {
        let mut transaction = app.pool.begin().await.expect("begin");
        app.provider.raise_event_in(&mut transaction, "order", "paid", what).await.expect("raised");
        app.provider.enqueue_event_in(&mut transaction, "order", "parcels", what).await.expect("sent");
        if commits {
            transaction.commit().await.expect("committed");
        } else {
            transaction.rollback().await.expect("rolled back");
        }
    }
    assert_eq!(app.output("order").await, " committed committed");
    assert_eq!(app.count("select count(*) from {schema}.instances").await, 1);
    assert_eq!(app.count("select count(*) from {schema}.orchestrator_queue").await, 0);
    app.runtime.shutdown(Some(0)).await;
}

/// Before the commit no change is visible and no other transaction is blocked: other orchestrations continue while the
/// transaction is open.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_is_invisible_and_blocks_nothing() {
    let app = Application::start().await;
    let mut transaction = app.pool.begin().await.expect("begin");
    app.provider.start_orchestration_in(&mut transaction, "open", "ends", None, "seen").await.expect("started");
    let client = Client::new(Arc::new(app.provider.clone()));
    for number in 0..10 {
        client.start_orchestration(format!("other-{number}"), "ends", "done").await.expect("started");
    }
    for number in 0..10 {
        assert_eq!(app.output(&format!("other-{number}")).await, "done");
    }
    assert_eq!(client.get_orchestration_status("open").await.expect("its status"), OrchestrationStatus::NotFound);
    transaction.commit().await.expect("committed");
    assert_eq!(app.output("open").await, "seen");
    app.runtime.shutdown(Some(0)).await;
}

/// The application's pool is enough for a whole runtime, wherever its `search_path` leads; the tables there are not
/// touched.
#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_works_on_the_applications_own_pool() {
    let app = Application::start().await;
    app.runtime.clone().shutdown(Some(0)).await;
    let calls = |ctx: OrchestrationContext, input: String| async move { ctx.schedule_activity("echo", input).await };
    let orchestrations = OrchestrationRegistry::builder().register("calls", calls).build();
    let activities = ActivityRegistry::builder().register("echo", |_, input: String| async move { Ok(input) }).build();
    let store = Arc::new(app.provider.clone());
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);
    for number in 0..20 {
        client.start_orchestration(format!("calls-{number}"), "calls", number.to_string()).await.expect("started");
    }
    for number in 0..20 {
        assert_eq!(app.output(&format!("calls-{number}")).await, number.to_string());
    }
    let traps = "select (select count(*) from orchestrator_queue) + (select count(*) from instances) + (select count(*) from history)";
    assert_eq!(app.count(traps).await, 0);
    runtime.shutdown(Some(0)).await;
}

/// A delay that is no whole number of milliseconds is never cut short, or a timer would fire before its time.
/// The due time is read in the transaction that sends: there it is exact.
#[tokio::test(flavor = "multi_thread")]
async fn a_fraction_of_a_millisecond_is_not_cut_off() {
    let Fixture { db, provider } = Fixture::new().await;
    let due = db.schema().sql(
        "select (extract(epoch from visible_at - now()) * 1000000)::bigint from {schema}.orchestrator_queue where instance_id = $1",
    );
    for micros in [1, 999, 1_000, 1_001, 1_999, 60_000_500] {
        let mut transaction = provider.pool().begin().await.expect("begin");
        let (instance, delay) = (micros.to_string(), Duration::from_micros(micros));
        provider.enqueue_in(&mut transaction, raised(&instance, ""), Some(delay)).await.expect("sent");
        let due: i64 =
            sqlx::query_scalar(&due).bind(&instance).fetch_one(&mut *transaction).await.expect("its due time");
        assert!((micros..micros + 1_100).contains(&due.unsigned_abs()), "{due} us instead of {micros}");
    }
}
