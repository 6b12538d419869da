//! Items 3 to 6 and 14: a fetch waits, is woken, is on time; one wake-up wakes one waiter, and one gets the work.

use std::time::Duration;

use duroxide::providers::{Provider, TagFilter};
use reveille_durable::{AggressiveOn, LongPollConfig, Strategy};
use reveille_pg::testing::TestDb;
use reveille_wake::ListenerState;
use tokio::time::Instant;

use super::{
    LEASE, NEVER, activity, calm, calm_by, connected, connected_as, every_way, fetch, insert, send, start, until_idle,
    until_it_is_connected, waiter, waiting, worker,
};
use crate::fixture::{Elsewhere, PATIENCE, eventually, provider};

/// Dispatchers of one process.
const WAITERS: usize = 4;
/// The claim, as statistics show it: its leading comment would be clearer, but since PostgreSQL 18 they omit that.
const CLAIM: &str = "claim_instances(";

every_way! {
    /// Item 3: a fetch waits for as long as the shorter of its own timeout and `max_wait_time`.
    a_fetch_waits_when_there_is_no_work
    /// Item 4: a fetch is woken by work of its own process, of another and of psql.
    a_fetch_is_woken_by_any_sender
    /// Item 5: work that is due later is given when it is due, not before.
    a_timer_is_waited_for
    /// Item 6: of all waiters in two processes one gets the work, and the others continue to wait.
    one_of_many_wins
}

async fn a_fetch_waits_when_there_is_no_work(config: LongPollConfig) {
    let db = TestDb::new().await;
    let provider = connected(&db, LongPollConfig { max_wait_time: Duration::from_millis(700), ..config }).await;
    for (timeout, waits) in [(NEVER, 700), (Duration::from_millis(300), 300)] {
        let since = Instant::now();
        let turn = provider.fetch_orchestration_item(LEASE, timeout, None).await.expect("a fetch");
        assert!(turn.is_none());
        assert!(since.elapsed() >= Duration::from_millis(waits), "only {:?}", since.elapsed());
        let since = Instant::now();
        let work = provider.fetch_work_item(LEASE, timeout, None, &TagFilter::DefaultOnly).await.expect("a fetch");
        assert!(work.is_none());
        assert!(since.elapsed() >= Duration::from_millis(waits), "only {:?}", since.elapsed());
        assert!(since.elapsed() < PATIENCE);
    }
}

async fn a_fetch_is_woken_by_any_sender(config: LongPollConfig) {
    let db = TestDb::new().await;
    let here = connected(&db, config.clone()).await;
    let elsewhere = Elsewhere::start(&db, config).await;
    for who in ["here", "elsewhere", "psql"] {
        let turn = waiter(&here);
        waiting(&here, 1).await;
        match who {
            "here" => send(&here, who).await,
            "elsewhere" => send(&elsewhere.provider, who).await,
            _ => insert(&db, who, false).await,
        }
        assert_eq!(turn.await.expect("no panic").as_deref(), Some(who));
    }
    for sender in [&here, &elsewhere.provider] {
        let work = worker(&here);
        eventually("it waits", async || here.health().consumers.iter().any(|consumer| consumer.waiters == 1)).await;
        sender.enqueue_for_worker(activity("busy")).await.expect("sent");
        assert_eq!(work.await.expect("no panic").as_deref(), Some("busy"));
    }
}

async fn a_timer_is_waited_for(config: LongPollConfig) {
    let db = TestDb::new().await;
    let here = connected(&db, config.clone()).await;
    let elsewhere = Elsewhere::start(&db, config).await;
    let delay = Duration::from_millis(1_200);
    // The one in an hour must not delay the fetch.
    here.enqueue_for_orchestrator(start("hour"), Some(NEVER)).await.expect("sent");
    for sender in [&here, &elsewhere.provider] {
        let turn = waiter(&here);
        waiting(&here, 1).await;
        let since = Instant::now();
        sender.enqueue_for_orchestrator(start("later"), Some(delay)).await.expect("sent");
        assert_eq!(turn.await.expect("no panic").as_deref(), Some("later"));
        assert!(since.elapsed() >= delay, "after {:?}", since.elapsed());
        let delete = db.schema().sql("delete from {schema}.instance_locks");
        sqlx::query(&delete).execute(db.database().pool()).await.expect("free it");
        let delete = db.schema().sql("delete from {schema}.orchestrator_queue where instance_id = 'later'");
        sqlx::query(&delete).execute(db.database().pool()).await.expect("remove it");
    }
}

async fn one_of_many_wins(config: LongPollConfig) {
    let db = TestDb::new().await;
    let here = connected(&db, config.clone()).await;
    let elsewhere = Elsewhere::start(&db, config).await;
    until_it_is_connected(&elsewhere.provider).await;
    let mut waiters: Vec<_> = (0..WAITERS).flat_map(|_| [waiter(&here), waiter(&elsewhere.provider)]).collect();
    waiting(&here, WAITERS).await;
    waiting(&elsewhere.provider, WAITERS).await;
    for left in (0..2 * WAITERS).rev() {
        let instance = format!("turn-{left}");
        insert(&db, &instance, false).await;
        let mut winner = None;
        eventually("one wins", async || {
            winner = waiters.iter().position(|waiter| waiter.is_finished());
            winner.is_some()
        })
        .await;
        let won = waiters.swap_remove(winner.expect("a winner")).await.expect("no panic");
        assert_eq!(won, Some(instance));
        assert_eq!(waiters.iter().filter(|waiter| waiter.is_finished()).count(), 0, "no other waiter has work");
        assert_eq!(super::turns(&here).waiters + super::turns(&elsewhere.provider).waiters, left);
    }
}

/// Item 6: one wake-up costs one poll for all waiters under `Competing`, and one poll each under `Broadcast`, where the
/// losers poll again.
/// The server counts the claims of the provider's role. The work is added by psql, whose notification comes by the
/// listener alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_wake_up_wakes_one_waiter_or_all() {
    for (strategy, least, most) in [(Strategy::Competing, 1, 1), (Strategy::Broadcast, WAITERS as i64, i64::MAX)] {
        let db = TestDb::new().await;
        let Some(role) = db.counting_role().await else { return };
        let provider = connected_as(&role, &db, calm_by(strategy, AggressiveOn::Faults)).await;
        let waiters: Vec<_> = (0..WAITERS).map(|_| waiter(&provider)).collect();
        waiting(&provider, WAITERS).await;
        until_idle(&role).await;
        let before = role.calls_matching(CLAIM).await;
        assert!(before > 0, "claims of this role are counted");
        insert(&db, "turn", false).await;
        waiting(&provider, WAITERS - 1).await;
        until_idle(&role).await;
        let polls = role.calls_matching(CLAIM).await - before;
        assert!((least..=most).contains(&polls), "{strategy:?}: {polls} polls, {:?}", role.statements().await);
        waiters.iter().for_each(|waiter| waiter.abort());
    }
}

/// Item 3: what is there already is given without waiting, with long polling and without.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_returns_existing_work_at_once() {
    for config in [calm(), LongPollConfig::default()] {
        let db = TestDb::new().await;
        let provider = provider(&db, config).await;
        send(&provider, "there").await;
        let turn = fetch(&provider).await.expect("what is there");
        assert_eq!(turn.instance, "there");
    }
}

/// Item 14: by default a fetch does not wait, nothing listens, and nothing polls.
/// The server counts: each fetch is one claim, and between them there is nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_does_not_wait_by_default() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    drop(provider(&db, LongPollConfig::default()).await);
    let options = reveille_durable::Options::default().schema(db.schema().name());
    let provider = reveille_durable::PostgresProvider::with_database(role.database().clone(), options)
        .await
        .expect("start a provider");
    let before = role.calls_matching(CLAIM).await;
    let since = Instant::now();
    for _ in 0..5 {
        assert!(provider.fetch_orchestration_item(LEASE, NEVER, None).await.expect("a fetch").is_none());
    }
    assert!(since.elapsed() < PATIENCE, "after {:?}", since.elapsed());
    assert_eq!(role.calls_matching(CLAIM).await - before, 5);
    assert_eq!(provider.health().listener, ListenerState::Off);
    let calls = role.calls().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(role.calls().await, calls);
}
