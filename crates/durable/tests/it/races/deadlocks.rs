//! Transactions that lock several rows do so in one order, so that two never wait for each other.
//!
//! One side is a transaction that takes what the other wants, in the order of an ack or a write batch, and stops
//! half-way until the other waits. In a wrong order the server ends one of them. The other side is sent as it is: the
//! provider would hide its end by sending it again.

use reveille_pg::testing::TestDb;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{LEASE, SOON, Side, number, run};
use crate::calls::{activity, begin, send_work};
use crate::fixture::Fixture;

/// Sends a statement of the schema from elsewhere, once.
fn send_once(db: &TestDb, sql: &str) -> JoinHandle<()> {
    let (sql, pool) = (db.schema().sql(sql), db.database().pool().clone());
    tokio::spawn(async move {
        let done = sqlx::query(&sql).execute(&pool).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    })
}

/// A renewal and an ack of several sessions pass each other.
/// The names of the sessions are in another order than those of their workers and their rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_waits_for_sessions_in_their_order() {
    let Fixture { db, provider: _provider } = Fixture::new().await;
    run(
        &db,
        "insert into {schema}.sessions
         values ('b', 'one', now() + interval '30 s', now()), ('a', 'two', now() + interval '30 s', now())",
    )
    .await;
    let mut ack = Side::begin(&db).await;
    ack.run(&db, "update {schema}.sessions set last_activity_at = now() where session_id = 'a'").await;
    let renewal = include_str!("../../../db/statements/renew_sessions.sql");
    let renewal = renewal.replace("$1", "array['one', 'two']").replace("$2", "60000").replace("$3", "60000");
    let renewal = send_once(&db, &renewal);
    ack.is_waited_for(&db).await;
    ack.run(&db, "update {schema}.sessions set last_activity_at = now() where session_id = 'b'").await;
    ack.commit().await;
    renewal.await.expect("renewed");
    let renewed = "select count(*) from {schema}.sessions where locked_until > last_activity_at + interval '45 s'";
    assert_eq!(number(&db, renewed).await, 2);
}

/// The cleanup of sessions waits for no lock: it holds others, in no order.
/// One of two old sessions is locked; the other goes.
#[tokio::test(flavor = "multi_thread")]
async fn old_sessions_are_removed_without_waiting() {
    let Fixture { db, provider: _provider } = Fixture::new().await;
    run(
        &db,
        "insert into {schema}.sessions
         values ('a', 'one', now() - interval '1 s', now()), ('b', 'one', now() - interval '1 s', now())",
    )
    .await;
    let mut ack = Side::begin(&db).await;
    ack.run(&db, "select from {schema}.sessions where session_id = 'a' for update").await;
    let cleaning = number(&db, include_str!("../../../db/statements/clean_sessions.sql"));
    assert_eq!(timeout(SOON, cleaning).await.expect("it waits for no lock"), 1);
    ack.commit().await;
    assert_eq!(number(&db, "select count(*) from {schema}.sessions where session_id = 'a'").await, 1);
}

/// A delete of many lets acks end that have locked their leases before.
/// More instances than are locked one by one, one of which is being acked.
#[tokio::test(flavor = "multi_thread")]
async fn a_delete_of_many_waits_for_acks_before_it_locks_anything() {
    let Fixture { db, provider: _provider } = Fixture::new().await;
    run(&db, "insert into {schema}.instance_locks values ('a', gen_random_uuid(), now() + interval '60 s', '{}')")
        .await;
    let mut ack = Side::begin(&db).await;
    ack.run(&db, "select from {schema}.instance_locks where instance_id = 'a' for update").await;
    let delete = send_once(
        &db,
        "select {schema}.delete_instances(array(select 'unknown-' || i from generate_series(1, 1000) i) || array['a'], true)",
    );
    ack.is_waited_for(&db).await;
    assert_eq!(ack.run(&db, "delete from {schema}.instance_locks where instance_id = 'a'").await, 1);
    ack.commit().await;
    delete.await.expect("deleted");
}

/// A delete and an abandon of several activities lock them in one order.
/// The activities' rows are in another order than their instances' names; each of the two meets a transaction that has
/// the first.
#[tokio::test(flavor = "multi_thread")]
async fn activities_are_waited_for_in_the_order_of_their_instances() {
    let Fixture { db, provider } = Fixture::new().await;
    for instance in ["b", "a"] {
        send_work(&provider, activity(instance, 1)).await;
    }
    let lock = "select from {schema}.worker_queue where instance_id = $ for update";
    let (first, second) = (&lock.replace('$', "'a'"), &lock.replace('$', "'b'"));

    let mut other = Side::begin(&db).await;
    other.run(&db, first).await;
    let giving_back = send_once(
        &db,
        "select {schema}.abandon_work(null, '{}', '{}', true, array_agg(q.instance_id order by q.id), array_agg(q.id order by q.id),
             array_agg(q.lock_token order by q.id), array[false, false], array[null, null]::bigint[], array[true, true])
         from {schema}.worker_queue q",
    );
    other.is_waited_for(&db).await;
    other.run(&db, second).await;
    other.commit().await;
    giving_back.await.expect("given back");

    let mut other = Side::begin(&db).await;
    other.run(&db, first).await;
    let delete = send_once(&db, "select {schema}.delete_instances(array['b', 'a'], true)");
    other.is_waited_for(&db).await;
    other.run(&db, second).await;
    other.commit().await;
    delete.await.expect("deleted");
    assert_eq!(number(&db, "select count(*) from {schema}.worker_queue").await, 0);
}

/// Pruning waits for instances before it touches their histories, and in the order in which a write batch ends their
/// turns: by bytes.
/// A transaction has the first of two instances, as a write batch or a delete has it, and then wants the other and a
/// history.
#[tokio::test(flavor = "multi_thread")]
async fn pruning_locks_instances_first_and_in_the_order_of_a_write_batch() {
    let Fixture { db, provider } = Fixture::new().await;
    // By bytes `B` comes before `a`, in a dictionary behind it.
    for instance in ["a", "B"] {
        begin(&provider, instance, LEASE).await;
    }
    run(&db, "update {schema}.executions set status = 'ContinuedAsNew', completed_at = now()").await;
    run(&db, "update {schema}.instances set current_execution_id = 2").await;
    let mut batched_write = Side::begin(&db).await;
    batched_write.run(&db, "update {schema}.instances set updated_at = now() where instance_id = 'B'").await;
    let pruning = send_once(&db, "select {schema}.prune_executions(array['a', 'B'], null, null)");
    batched_write.is_waited_for(&db).await;
    batched_write.run(&db, "update {schema}.instances set updated_at = now() where instance_id = 'a'").await;
    assert_eq!(batched_write.run(&db, "delete from {schema}.history where instance_id = 'B'").await, 1);
    batched_write.commit().await;
    pruning.await.expect("pruned");
    assert_eq!(number(&db, "select count(*) from {schema}.history").await, 0);
}
