//! Pipelined acks: they return before their commit, and nothing else is different.

use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin as _, TagFilter};
use reveille_durable::{LongPollConfig, Options, PostgresProvider};
use reveille_pg::testing::TestDb;
use sqlx::{Postgres, Transaction};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::calls::{Done, ack, activity, begin, completion, fetch, fetch_work, send, send_work, start};
use crate::fixture::{Fixture, PATIENCE, eventually};
use crate::races::LEASE;

/// Long enough for a call that waits for a commit to have gone as far as it can.
const SHORT_TIME: Duration = Duration::from_millis(300);

/// A transaction that locks the activities of an instance, so that their acks cannot commit.
async fn lock_activities(db: &TestDb, instance: &str) -> Transaction<'static, Postgres> {
    let mut lock = db.database().pool().begin().await.expect("begin");
    let sql = db.schema().sql("select from {schema}.worker_queue where instance_id = $1 for update");
    let locked = sqlx::query(&sql).bind(instance).execute(&mut *lock).await.expect("lock");
    assert_ne!(locked.rows_affected(), 0, "there is nothing to lock");
    lock
}

async fn activities(db: &TestDb) -> i64 {
    let sql = db.schema().sql("select count(*) from {schema}.worker_queue");
    sqlx::query_scalar(&sql).fetch_one(db.database().pool()).await.expect("a number")
}

/// The token of a leased activity of an instance that exists.
async fn leased(provider: &PostgresProvider, instance: &str) -> String {
    begin(provider, instance, LEASE).await;
    send_work(provider, activity(instance, 1)).await;
    fetch_work(provider, LEASE).await.1
}

fn acking(provider: &PostgresProvider, token: &str, instance: &'static str) -> JoinHandle<bool> {
    let (provider, token) = (provider.clone(), token.to_owned());
    tokio::spawn(async move { provider.ack_work_item(&token, Some(completion(instance, 1, ""))).await.is_ok() })
}

async fn returns(ack: JoinHandle<bool>) -> bool {
    timeout(PATIENCE, ack).await.expect("it waits for its commit").expect("no panic")
}

async fn waits(ack: &mut JoinHandle<bool>) {
    assert!(timeout(SHORT_TIME, ack).await.is_err(), "it does not wait for its commit");
}

/// An ack returns while its commit is held up, and takes effect when that is possible.
/// A transaction of another program locks the activity.
#[tokio::test(flavor = "multi_thread")]
async fn an_ack_returns_before_its_commit() {
    let Fixture { db, provider } = Fixture::new().await;
    let token = leased(&provider, "i").await;
    let lock = lock_activities(&db, "i").await;
    assert!(returns(acking(&provider, &token, "i")).await);
    assert_eq!(activities(&db).await, 1);
    lock.rollback().await.expect("rollback");
    assert_eq!(fetch(&provider, LEASE).await.0.messages, [completion("i", 1, "")]);
    assert_eq!(activities(&db).await, 0);
}

/// `flush` and every read wait for acks under way: what this process has acked is seen.
/// The ack is held up by a lock until the calls have begun.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acked_is_seen() {
    let Fixture { db, provider } = Fixture::new().await;
    let token = leased(&provider, "i").await;
    let lock = lock_activities(&db, "i").await;
    assert!(returns(acking(&provider, &token, "i")).await);
    let flushed = tokio::spawn({
        let provider = provider.clone();
        async move { provider.flush().await }
    });
    let depths = tokio::spawn({
        let provider = provider.clone();
        async move { provider.get_queue_depths().await.expect("an answer") }
    });
    tokio::time::sleep(SHORT_TIME).await;
    assert!(!flushed.is_finished() && !depths.is_finished());
    lock.rollback().await.expect("rollback");
    flushed.await.expect("no panic");
    let depths = depths.await.expect("no panic");
    assert_eq!((depths.worker_queue, depths.orchestrator_queue), (0, 1));
}

/// A fetch that may not wait waits for acks under way, and finds the message of one.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_finds_the_message_of_an_ack_under_way() {
    let Fixture { db, provider } = Fixture::new().await;
    let token = leased(&provider, "i").await;
    let lock = lock_activities(&db, "i").await;
    assert!(returns(acking(&provider, &token, "i")).await);
    let fetched = tokio::spawn({
        let provider = provider.clone();
        async move { provider.fetch_orchestration_item(LEASE, Duration::ZERO, None).await.expect("a fetch") }
    });
    tokio::time::sleep(SHORT_TIME).await;
    assert!(!fetched.is_finished());
    lock.rollback().await.expect("rollback");
    assert!(fetched.await.expect("no panic").is_some());
}

/// Of two acks with one token the second is rejected, though the first has not committed when it is made.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_ack_is_rejected() {
    let Fixture { db, provider } = Fixture::new().await;
    let token = leased(&provider, "i").await;
    let lock = lock_activities(&db, "i").await;
    assert!(returns(acking(&provider, &token, "i")).await);
    let mut second = acking(&provider, &token, "i");
    waits(&mut second).await;
    provider.renew_work_item_lock("no token", LEASE).await.expect_err("invalid");
    let renewal = tokio::spawn({
        let (provider, token) = (provider.clone(), token.clone());
        async move { provider.renew_work_item_lock(&token, LEASE).await }
    });
    lock.rollback().await.expect("rollback");
    assert!(!returns(second).await);
    renewal.await.expect("no panic").expect_err("the lease has ended");
    provider.abandon_work_item(&token, None, false).await.expect_err("the lease has ended");
}

/// No more acks than the option allows are under way: one more waits for its commit. Zero turns pipelining off.
#[tokio::test(flavor = "multi_thread")]
async fn acks_under_way_are_bounded() {
    for bound in [1, 0] {
        let options = Options::default().long_poll(LongPollConfig::enabled()).pipelined_acks(bound);
        let Fixture { db, provider } = Fixture::with_options(options).await;
        let (one, two) = (leased(&provider, "one").await, leased(&provider, "two").await);
        let locks = (lock_activities(&db, "one").await, lock_activities(&db, "two").await);
        let mut first = acking(&provider, &one, "one");
        if bound == 1 {
            assert!(returns(first).await);
        } else {
            waits(&mut first).await;
        }
        let mut second = acking(&provider, &two, "two");
        waits(&mut second).await;
        locks.0.rollback().await.expect("rollback");
        waits(&mut second).await;
        locks.1.rollback().await.expect("rollback");
        assert!(returns(second).await);
    }
}

/// An ack waits for its commit if its lease may expire before that.
#[tokio::test(flavor = "multi_thread")]
async fn an_ack_of_a_short_lease_waits() {
    const SHORT_LEASE: Duration = Duration::from_millis(900);
    let Fixture { db, provider } = Fixture::new().await;
    begin(&provider, "i", LEASE).await;
    send_work(&provider, activity("i", 1)).await;
    let token = fetch_work(&provider, SHORT_LEASE).await.1;
    let _lock = lock_activities(&db, "i").await;
    assert!(!returns(acking(&provider, &token, "i")).await, "the lease expires while the row is locked");
}

/// An ack that the database refuses seems to succeed once; then its turn is claimed again at once, and the second ack
/// returns the error, with which the runtime fails the orchestration.
/// A trigger fails every write into the history with an error that is not transient.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_ack_is_reported_by_the_second_attempt() {
    let Fixture { db, provider } = Fixture::new().await;
    send(&provider, start("i", "")).await;
    let (_, token, attempt) = fetch(&provider, LEASE).await;
    assert_eq!(attempt, 1);
    db.fail_writes("history", "22001").await;
    ack(&provider, &token, Done::first("i", "")).await.expect("it is pipelined");
    let (_, token, attempt) = fetch(&provider, LEASE).await;
    assert_eq!(attempt, 2);
    let error = ack(&provider, &token, Done::first("i", "")).await.expect_err("refused");
    assert!(!error.is_retryable(), "{error}");
    db.allow_writes("history").await;
    ack(&provider, &token, Done::first("i", "")).await.expect("the lease has not ended");
    assert_eq!(provider.read("i").await.expect("a history").len(), 1);
}

/// The acks of an instance are committed in the order of the calls, whatever the order of the activities.
#[tokio::test(flavor = "multi_thread")]
async fn acks_of_an_instance_keep_their_order() {
    let Fixture { db, provider } = Fixture::new().await;
    begin(&provider, "i", LEASE).await;
    let mut tokens = Vec::new();
    for id in 1..=9 {
        send_work(&provider, activity("i", id)).await;
        let (_, token, _) = fetch_work(&provider, LEASE).await;
        tokens.push((id, token));
    }
    tokens.reverse();
    for (id, token) in &tokens {
        provider.ack_work_item(token, Some(completion("i", *id, ""))).await.expect("acked");
    }
    provider.flush().await;
    let sql = db.schema().sql("select work_item from {schema}.orchestrator_queue order by visible_at, id");
    let messages: Vec<String> = sqlx::query_scalar(&sql).fetch_all(db.database().pool()).await.expect("messages");
    let expected: Vec<_> = tokens.iter().map(|(id, _)| completion("i", *id, "")).collect();
    let (item, ..) = fetch(&provider, LEASE).await;
    assert_eq!(item.messages, expected, "{messages:?}");
}

/// The read that the runtime makes after the claim of an activity is answered from memory; a read of another task, and a
/// second one, are not.
/// The history is changed behind the provider's back, which the database would tell.
#[tokio::test(flavor = "multi_thread")]
async fn the_read_after_a_claim_is_answered_from_memory() {
    let Fixture { db, provider } = Fixture::new().await;
    begin(&provider, "i", LEASE).await;
    provider.flush().await;
    let sql = db.schema().sql("delete from {schema}.history");
    sqlx::query(&sql).execute(db.database().pool()).await.expect("delete");
    send_work(&provider, activity("i", 1)).await;
    let runtime = tokio::spawn({
        let provider = provider.clone();
        async move {
            let tags = TagFilter::DefaultOnly;
            let fetched = provider.fetch_work_item(LEASE, PATIENCE, None, &tags).await.expect("a fetch");
            assert!(fetched.is_some());
            let client = provider.clone();
            let client = tokio::spawn(async move { client.read("i").await.expect("a history").len() });
            let other = client.await.expect("no panic");
            let first = provider.read("i").await.expect("a history").len();
            (other, first, provider.read("i").await.expect("a history").len())
        }
    });
    let (other, first, second) = runtime.await.expect("no panic");
    assert_eq!((other, second), (0, 0), "these must ask the database");
    assert_eq!(first, 1, "it is answered from memory");
}

/// More acks than may be under way, as fast as one worker can make them: each is applied once.
#[tokio::test(flavor = "multi_thread")]
async fn acks_of_many_activities_are_all_applied() {
    const ACTIVITIES: u64 = 300;
    let Fixture { db, provider } = Fixture::new().await;
    begin(&provider, "i", LEASE).await;
    for id in 1..=ACTIVITIES {
        send_work(&provider, activity("i", id)).await;
    }
    for _ in 1..=ACTIVITIES {
        let (item, token, _) = fetch_work(&provider, LEASE).await;
        let id = crate::calls::identity(&item).1;
        provider.ack_work_item(&token, Some(completion("i", id, ""))).await.expect("acked");
    }
    eventually("every activity is gone", async || activities(&db).await == 0).await;
    let (item, ..) = fetch(&provider, LEASE).await;
    assert_eq!(item.messages.len() as u64, ACTIVITIES);
}
