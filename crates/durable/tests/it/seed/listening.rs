//! Items 12 and 13: a lost listener reconnects, and without a listener the provider polls.

use std::time::Duration;

use reveille_durable::{LongPollConfig, Options, PostgresProvider, Strategy};
use reveille_pg::Database;
use reveille_pg::testing::{Mode, Proxy, TestDb};
use reveille_wake::ListenerState;
use tokio::task::JoinHandle;

use super::{NEVER, connected_as, every_way, fetch, insert, turns, until_it_is_connected, waiter, waiting};
use crate::fixture::{eventually, provider};

every_way! {
    /// Item 12: a listener whose backend is ended is there again soon, and what was added in between is found.
    a_lost_listener_comes_back
    /// Item 13: while LISTEN is not possible, work is found by polling.
    without_a_listener_work_is_found_by_polling
}

/// Ends the listener that logs in as `role`. Answers whether there was one.
async fn end_listener(db: &TestDb, role: &str) -> bool {
    let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity
               where usename = $1 and application_name = 'reveille listener'";
    let ended: i64 = sqlx::query_scalar(end).bind(role).fetch_one(db.database().pool()).await.expect("end it");
    ended > 0
}

/// Polling is as good as off, so that only the poll after the reconnect, or a wake-up, can find the work.
async fn a_lost_listener_comes_back(config: LongPollConfig) {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let config = LongPollConfig { aggressive_poll_interval: NEVER, ..config };
    let provider = connected_as(&role, &db, config).await;
    for number in 0..3 {
        until_it_is_connected(&provider).await;
        let turn = waiter(&provider);
        waiting(&provider, 1).await;
        eventually("it is ended", async || end_listener(&db, role.name()).await).await;
        eventually("it is gone", async || !end_listener(&db, role.name()).await).await;
        let instance = format!("gap-{number}");
        insert(&db, &instance, false).await;
        assert_eq!(turn.await.expect("no panic"), Some(instance));

        until_it_is_connected(&provider).await;
        let turn = waiter(&provider);
        waiting(&provider, 1).await;
        let instance = format!("heard-{number}");
        insert(&db, &instance, false).await;
        assert_eq!(turn.await.expect("no panic"), Some(instance));
    }
}

/// The listener's own way to the server is closed from the start, and opened later. Under `Broadcast` there is no
/// polling mode: there a waiter that comes back polls once, as a dispatcher does every `max_wait_time`.
async fn without_a_listener_work_is_found_by_polling(config: LongPollConfig) {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    proxy.set(Mode::Refuse).await;
    let pool =
        reveille_pg::Options::default().listen_url(proxy.url().to_owned()).acquire_timeout(Duration::from_secs(1));
    let database = Database::connect_lazy(db.url(), pool).expect("a pool");
    let polls = config.strategy == Strategy::Competing;
    let max_wait_time = if polls { config.max_wait_time } else { Duration::from_millis(500) };
    let options = Options::default().schema(db.schema().name()).long_poll(LongPollConfig { max_wait_time, ..config });
    let disconnected = PostgresProvider::with_database(database, options).await.expect("start a provider");
    eventually("it is refused", async || matches!(disconnected.health().listener, ListenerState::Lost { .. })).await;
    for number in 0..3 {
        let turn = dispatcher(&disconnected);
        waiting(&disconnected, 1).await;
        let instance = format!("unheard-{number}");
        insert(&db, &instance, false).await;
        assert_eq!(turn.await.expect("no panic"), instance);
        assert_eq!(turns(&disconnected).polling, polls);
    }
    proxy.set(Mode::Pass).await;
    until_it_is_connected(&disconnected).await;
    let turn = dispatcher(&disconnected);
    waiting(&disconnected, 1).await;
    eventually("polling ends", async || !turns(&disconnected).polling).await;
    insert(&db, "heard", false).await;
    assert_eq!(turn.await.expect("no panic"), "heard");
}

/// Fetches until there is a turn, as a dispatcher does. Answers its instance.
fn dispatcher(provider: &PostgresProvider) -> JoinHandle<String> {
    let provider = provider.clone();
    tokio::spawn(async move {
        loop {
            if let Some(turn) = fetch(&provider).await {
                return turn.instance;
            }
        }
    })
}

/// Item 13: a provider behind a transaction-mode pooler without a way around it does not listen; a whole orchestration
/// still completes.
#[tokio::test(flavor = "multi_thread")]
async fn behind_a_pooler_work_is_found_by_polling() {
    let db = TestDb::new().await;
    drop(provider(&db, LongPollConfig::default()).await);
    let Some(pooler) = reveille_pg::testing::pooler(&db).await else { return };
    let pool = reveille_pg::Options::default().pooler(true);
    let database = Database::connect_lazy(pooler.url(), pool).expect("a pool");
    let options = Options::default().schema(db.schema().name()).long_poll(super::calm());
    let pooled = PostgresProvider::with_database(database, options).await.expect("start a provider");
    assert_eq!(pooled.health().listener, ListenerState::Off);
    let turn = waiter(&pooled);
    waiting(&pooled, 1).await;
    insert(&db, "unheard", false).await;
    assert_eq!(turn.await.expect("no panic").as_deref(), Some("unheard"));
}
