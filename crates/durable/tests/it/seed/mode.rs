//! Items 7 to 11b: when aggressive mode begins, and when it ends.

use std::time::Duration;

use reveille_durable::{AggressiveOn, LongPollConfig, Options, PostgresProvider, Strategy};
use reveille_pg::Database;
use reveille_pg::testing::{Mode, Proxy, TestDb};
use tokio::time::{Instant, sleep};

use super::{calm, calm_by, connected, insert, send, turns, until_it_is_connected, waiter, waiting};
use crate::fixture::eventually;

/// Empty polls that must pass before aggressive mode ends here: three seconds of them, far more than the pauses between
/// what a test does.
const THRESHOLD: u32 = 60;
/// For how long a test keeps it going: longer than it would last by itself.
const KEPT_UP: Duration = Duration::from_secs(5);

/// Aggressive mode that lasts for a while after its last reason.
fn lasting() -> LongPollConfig {
    LongPollConfig { aggressive_exit_threshold: THRESHOLD, ..calm() }
}

/// A provider that reaches the server through a proxy, and listens directly: what is done to the proxy affects polls
/// alone.
async fn behind(proxy: &Proxy, db: &TestDb, config: LongPollConfig) -> PostgresProvider {
    let pool = reveille_pg::Options::default().listen_url(db.url().to_owned()).acquire_timeout(Duration::from_secs(2));
    let database = Database::connect_lazy(proxy.url(), pool).expect("a pool");
    let options = Options::default().schema(db.schema().name()).long_poll(config);
    let provider = PostgresProvider::with_database(database, options).await.expect("start a provider");
    until_it_is_connected(&provider).await;
    provider
}

/// Begins aggressive mode: the proxy refuses the pool, while the listener is connected, so that waiters are woken and
/// polls fail. The fetch gets no error, and gets the work when the proxy lets polls pass again.
async fn fail_a_poll(proxy: &Proxy, db: &TestDb, provider: &PostgresProvider) {
    let turn = waiter(provider);
    waiting(provider, 1).await;
    polling_ends(provider).await;
    proxy.set(Mode::Refuse).await;
    proxy.cut();
    insert(db, "notified", false).await;
    eventually("it polls", async || turns(provider).polling).await;
    assert!(!turn.is_finished(), "the failure is not the fetch's");
    proxy.set(Mode::Pass).await;
    assert_eq!(turn.await.expect("no panic").as_deref(), Some("notified"));
}

async fn polling_ends(provider: &PostgresProvider) {
    eventually("polling ends", async || !turns(provider).polling).await;
}

/// Items 7 and 10: under `EveryWake` a wake-up is followed by aggressive mode, which ends by itself when nothing comes;
/// under `Faults` it is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_wake_up_begins_aggressive_mode_under_every_wake_only() {
    for (on, polls) in [(AggressiveOn::EveryWake, true), (AggressiveOn::Faults, false)] {
        let db = TestDb::new().await;
        let provider = connected(&db, LongPollConfig { aggressive_on: on, ..lasting() }).await;
        let waiters = [waiter(&provider), waiter(&provider)];
        waiting(&provider, 2).await;
        polling_ends(&provider).await;
        send(&provider, "turn").await;
        waiting(&provider, 1).await;
        assert_eq!(turns(&provider).polling, polls, "{on:?}");
        polling_ends(&provider).await;
        waiters.iter().for_each(|waiter| waiter.abort());
    }
}

/// Items 8 and 10: a failed poll begins aggressive mode, and the fetch continues; when polls succeed again it ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_poll_begins_aggressive_mode() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let provider = behind(&proxy, &db, calm()).await;
    fail_a_poll(&proxy, &db, &provider).await;
    let waits = waiter(&provider);
    polling_ends(&provider).await;
    waits.abort();
}

/// Item 9: failures now and then keep aggressive mode going, however long it has lasted; without them it ends.
/// Connections are cut ten times a second, so that polls fail between polls that succeed.
#[tokio::test(flavor = "multi_thread")]
async fn failures_now_and_then_keep_aggressive_mode_going() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let provider = behind(&proxy, &db, lasting()).await;
    fail_a_poll(&proxy, &db, &provider).await;
    let waits = waiter(&provider);
    let since = Instant::now();
    while since.elapsed() < KEPT_UP {
        proxy.cut();
        sleep(Duration::from_millis(100)).await;
        assert!(turns(&provider).polling, "after {:?}", since.elapsed());
    }
    polling_ends(&provider).await;
    waits.abort();
}

/// Items 10 and 11: work that polling finds keeps aggressive mode going; when nothing comes any more it ends.
/// A failed poll begins it; then work is added without a notification.
#[tokio::test(flavor = "multi_thread")]
async fn work_found_keeps_aggressive_mode_going() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let provider = behind(&proxy, &db, lasting()).await;
    fail_a_poll(&proxy, &db, &provider).await;
    let since = Instant::now();
    let mut number = 0;
    while since.elapsed() < KEPT_UP {
        let waits = waiter(&provider);
        insert(&db, &format!("turn-{number}"), true).await;
        assert_eq!(waits.await.expect("no panic"), Some(format!("turn-{number}")));
        assert!(turns(&provider).polling, "after {:?}", since.elapsed());
        sleep(Duration::from_millis(100)).await;
        number += 1;
    }
    let waits = waiter(&provider);
    polling_ends(&provider).await;
    waits.abort();
}

/// Item 11b: a wake-up that is not followed by a poll in time begins aggressive mode.
/// Every connection of the pool is taken, so that no poll is possible; when they are released the work is claimed.
#[tokio::test(flavor = "multi_thread")]
async fn a_wake_up_without_a_poll_begins_aggressive_mode() {
    let db = TestDb::new().await;
    let config = LongPollConfig { notify_delivery_timeout: Duration::from_millis(50), ..lasting() };
    let provider = connected(&db, config).await;
    let turn = waiter(&provider);
    waiting(&provider, 1).await;
    sleep(reveille_wake::TRAILING * 3 / 2).await;
    let pool = provider.pool();
    let mut taken = Vec::new();
    for _ in 0..pool.options().get_max_connections() {
        taken.push(pool.acquire().await.expect("a connection"));
    }
    insert(&db, "turn", false).await;
    eventually("it polls", async || turns(&provider).polling).await;
    assert!(!turn.is_finished());
    drop(taken);
    assert_eq!(turn.await.expect("no panic").as_deref(), Some("turn"));
}

/// Under `Broadcast` there is no aggressive mode, whatever happens.
/// A poll fails; the fetch gets its work all the same.
#[tokio::test(flavor = "multi_thread")]
async fn broadcast_has_no_aggressive_mode() {
    for on in [AggressiveOn::Faults, AggressiveOn::EveryWake] {
        let db = TestDb::new().await;
        let proxy = Proxy::start(&db).await;
        let provider = behind(&proxy, &db, calm_by(Strategy::Broadcast, on)).await;
        let turn = waiter(&provider);
        waiting(&provider, 1).await;
        proxy.cut();
        insert(&db, "turn", false).await;
        assert_eq!(turn.await.expect("no panic").as_deref(), Some("turn"));
        assert!(!turns(&provider).polling);
    }
}
