//! Long transactions that lock an instance: it waits, and all others continue.

use std::time::Duration;

use duroxide::OrchestrationStatus;
use duroxide::providers::Provider;
use reveille_durable::PostgresProvider;
use reveille_pg::testing::{Proxy, TestDb};
use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::load::Load;
use super::{LEASE, SHORT_LEASE, connected, options};
use crate::calls::{Done, ack, activity, begin, fetch, fetch_work, identity, raised, send, send_work, start};
use crate::fixture::Fixture;

/// Orchestrations that go on.
const ORCHESTRATIONS: usize = 10;
/// Long enough for a call that is held to have gone as far as it can, and for one that is not to have ended.
const SHORT_TIME: Duration = Duration::from_millis(500);
/// What is not held must be done by then: before the ten seconds after which the server ends a wait for a lock.
const SOON: Duration = Duration::from_secs(8);

/// A user at `psql`, in a transaction that locks rows.
struct Holder(PgConnection);

impl Holder {
    /// Locks the rows of an instance in a table, for update.
    async fn of(db: &TestDb, table: &str, instance: &str) -> Holder {
        let mut conn = PgConnection::connect(db.url()).await.expect("connect");
        sqlx::query("begin").execute(&mut conn).await.expect("begin");
        let lock = format!("select 1 from {{schema}}.{table} where instance_id = $1 for update");
        let lock = db.schema().sql(&lock);
        let locked = sqlx::query(&lock).bind(instance).execute(&mut conn).await.expect("lock");
        assert_ne!(locked.rows_affected(), 0, "there is nothing to hold");
        Holder(conn)
    }

    async fn let_go(mut self) {
        sqlx::query("rollback").execute(&mut self.0).await.expect("roll back");
    }
}

/// A call that is held: it has not ended after a short time.
async fn is_held<T>(call: &mut JoinHandle<T>) {
    assert!(timeout(SHORT_TIME, call).await.is_err(), "it did not wait for the lock");
}

async fn soon<T>(call: impl Future<Output = T>) -> T {
    timeout(SOON, call).await.expect("it waited for a lock")
}

/// An orchestration started in a transaction that stays open does not exist yet, blocks nothing, and begins when it
/// commits; an event raised in it comes with it.
/// Others run from beginning to end while the transaction is open.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_that_starts_an_orchestration_blocks_nothing() {
    let Fixture { db: _db, provider } = Fixture::new().await;
    connected(&provider).await;
    let load = Load::start(&provider).await;
    let mut transaction = provider.pool().begin().await.expect("a transaction");
    provider.start_orchestration_in(&mut transaction, "count-100", "Count", None, "100").await.expect("started");
    provider.raise_event_in(&mut transaction, "count-100", "unheard", "x").await.expect("raised");
    load.complete(ORCHESTRATIONS).await;
    let status = load.client().get_orchestration_status("count-100").await.expect("an answer");
    assert_eq!(status, OrchestrationStatus::NotFound);
    transaction.commit().await.expect("committed");
    load.finish(100).await;
    load.stop().await;
}

/// A lease with a locked row cannot be acked until the lock is released; other acks and everything else continue.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_lease_holds_up_only_its_own_turn() {
    let Fixture { db, provider } = Fixture::without_pipelining().await;
    send(&provider, start("held", "")).await;
    let (_, token, _) = fetch(&provider, LEASE).await;
    let holder = Holder::of(&db, "instance_locks", "held").await;
    let mut held = tokio::spawn({
        let (provider, token) = (provider.clone(), token.clone());
        async move { ack(&provider, &token, Done::first("held", "")).await }
    });
    is_held(&mut held).await;
    soon(begin(&provider, "other", LEASE)).await;
    let load = Load::start(&provider).await;
    soon(load.complete(ORCHESTRATIONS)).await;
    holder.let_go().await;
    held.await.expect("no panic").expect("acked, if late");
    load.stop().await;
}

/// An activity with a locked row is not claimed until the lock is released; others are.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_activity_is_skipped() {
    let Fixture { db, provider } = Fixture::new().await;
    send_work(&provider, activity("held", 1)).await;
    let holder = Holder::of(&db, "worker_queue", "held").await;
    send_work(&provider, activity("other", 1)).await;
    let (work, token, _) = soon(fetch_work(&provider, LEASE)).await;
    assert_eq!(identity(&work), ("other", 1));
    soon(provider.ack_work_item(&token, None)).await.expect("acked");
    holder.let_go().await;
    let (work, _, attempt) = soon(fetch_work(&provider, LEASE)).await;
    assert_eq!((identity(&work), attempt), (("held", 1), 1));
}

/// A running activity with a locked row cannot be acked until the lock is released; others can.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_activity_holds_up_only_its_own_ack() {
    let Fixture { db, provider } = Fixture::without_pipelining().await;
    for instance in ["held", "other"] {
        send_work(&provider, activity(instance, 1)).await;
    }
    let (first, second) = (fetch_work(&provider, LEASE).await, fetch_work(&provider, LEASE).await);
    assert_eq!((identity(&first.0), identity(&second.0)), (("held", 1), ("other", 1)));
    let holder = Holder::of(&db, "worker_queue", "held").await;
    let mut held = tokio::spawn({
        let provider = provider.clone();
        async move { provider.ack_work_item(&first.1, None).await }
    });
    is_held(&mut held).await;
    soon(provider.ack_work_item(&second.1, None)).await.expect("acked");
    holder.let_go().await;
    held.await.expect("no panic").expect("acked, if late");
}

/// Locks of one provider's caller do not hold up another provider either.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_instance_does_not_hold_up_another_process() {
    let Fixture { db, provider } = Fixture::without_pipelining().await;
    let proxy = Proxy::start(&db).await;
    let elsewhere =
        PostgresProvider::connect(proxy.url(), options(db.schema()).pipelined_acks(0)).await.expect("a provider");
    send(&provider, start("held", "")).await;
    let (_, token, _) = fetch(&provider, LEASE).await;
    let holder = Holder::of(&db, "instance_locks", "held").await;
    let mut held = tokio::spawn(async move { ack(&provider, &token, Done::first("held", "")).await });
    is_held(&mut held).await;
    soon(begin(&elsewhere, "other", LEASE)).await;
    holder.let_go().await;
    held.await.expect("no panic").expect("acked, if late");
}

/// An expired lease with a locked row is not claimed again until the lock is released; others are claimed meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_lease_that_has_ended_holds_up_no_claim() {
    let Fixture { db, provider } = Fixture::new().await;
    send(&provider, start("held", "")).await;
    let (_, dead, _) = fetch(&provider, SHORT_LEASE).await;
    let holder = Holder::of(&db, "instance_locks", "held").await;
    tokio::time::sleep(SHORT_LEASE).await;
    soon(begin(&provider, "other", LEASE)).await;
    holder.let_go().await;
    let (item, token, attempt) = soon(fetch(&provider, LEASE)).await;
    assert_eq!((item.instance.as_str(), attempt), ("held", 2));
    ack(&provider, &dead, Done::first("held", "")).await.expect_err("the lease has expired");
    ack(&provider, &token, Done::first("held", "")).await.expect("the lease is fresh");
}

/// A locked message is read by a turn, whose ack then waits to remove it; others continue.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_message_holds_up_only_its_own_turn() {
    let Fixture { db, provider } = Fixture::without_pipelining().await;
    begin(&provider, "held", LEASE).await;
    send(&provider, raised("held", "x")).await;
    let holder = Holder::of(&db, "orchestrator_queue", "held").await;
    let (item, token, _) = soon(fetch(&provider, LEASE)).await;
    assert_eq!(item.instance, "held");
    let mut held = tokio::spawn({
        let provider = provider.clone();
        async move { ack(&provider, &token, Done::heard("held", 2, "x")).await }
    });
    is_held(&mut held).await;
    soon(begin(&provider, "other", LEASE)).await;
    holder.let_go().await;
    held.await.expect("no panic").expect("acked, if late");
}

/// A locked row of an instance blocks the turn that would change it, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_instance_holds_up_only_its_own_turn() {
    let Fixture { db, provider } = Fixture::new().await;
    begin(&provider, "held", LEASE).await;
    let holder = Holder::of(&db, "instances", "held").await;
    send(&provider, raised("held", "x")).await;
    let (_, token, _) = soon(fetch(&provider, LEASE)).await;
    let ends = ending("held");
    let mut held = tokio::spawn({
        let provider = provider.clone();
        async move { ack(&provider, &token, ends).await }
    });
    is_held(&mut held).await;
    soon(begin(&provider, "other", LEASE)).await;
    holder.let_go().await;
    held.await.expect("no panic").expect("acked, if late");
}

/// A turn that ends its instance.
fn ending(instance: &str) -> Done {
    Done::completed(instance, 2, "x")
}

/// A waiter for an instance is answered in time although its history cannot be read: by an error that says to try
/// again, and the next try succeeds.
/// A transaction locks the table of histories, so that the end can be seen and not how it came.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_in_time_although_the_history_is_locked() {
    let Fixture { db, provider } = Fixture::new().await;
    begin(&provider, "held", LEASE).await;
    send(&provider, raised("held", "x")).await;
    let (_, token, _) = fetch(&provider, LEASE).await;
    ack(&provider, &token, ending("held")).await.expect("the lease is fresh");
    let lock = db.schema().sql("lock table {schema}.history in access exclusive mode");
    let mut holder = db.database().pool().begin().await.expect("begin");
    sqlx::query(&lock).execute(&mut *holder).await.expect("lock");
    for patience in [Duration::ZERO, SHORT_TIME] {
        let waited = soon(provider.wait_for_completion("held", patience)).await;
        let error = waited.expect_err("how it ended cannot be read");
        assert!(error.is_transient(), "{error:?}");
    }
    holder.rollback().await.expect("roll back");
    let ended = provider.wait_for_completion("held", SOON).await.expect("an answer");
    assert!(matches!(ended, Some(OrchestrationStatus::Completed { .. })), "{ended:?}");
}

/// A locked message prevents the next claim of its own instance, and of no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_message_of_a_lease_that_has_ended_holds_up_no_claim() {
    let Fixture { db, provider } = Fixture::new().await;
    send(&provider, start("held", "")).await;
    fetch(&provider, SHORT_LEASE).await;
    let holder = Holder::of(&db, "orchestrator_queue", "held").await;
    tokio::time::sleep(SHORT_LEASE).await;
    soon(begin(&provider, "other", LEASE)).await;
    holder.let_go().await;
    let (item, _, attempt) = soon(fetch(&provider, LEASE)).await;
    assert_eq!((item.instance.as_str(), attempt), ("held", 2));
}
