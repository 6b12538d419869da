//! Two concurrent transactions, step by step, in the critical order.

use std::time::Duration;

use duroxide::providers::{Provider as _, ProviderAdmin as _};
use sqlx::Row as _;

use super::{LEASE, Side, number, run};
use crate::calls::{Done, ack, activity, begin, completion, fetch, fetch_work, raised, send, send_work, start};
use crate::fixture::Fixture;

/// A claim of activities for one waiter.
const ONE_WAITER: &str = "select * from {schema}.claim_work(array[''], 60000, array[gen_random_uuid()], array[null]::text[], array[0]::bigint[], null, false) where id is not null";

/// A claim does not park messages that another claim has leased since it began: the ack of that lease would bring them
/// back as new.
/// The claim sees an early event without its start, and also an ended lease, whose end a trigger makes it wait in. Then
/// the start comes, and a lease of both is written as a claim writes it that had the instance's lock before.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_parks_nothing_that_is_leased_meanwhile() {
    let Fixture { db, provider } = Fixture::new().await;
    begin(&provider, "other", LEASE).await;
    send(&provider, raised("other", "")).await;
    run(
        &db,
        "insert into {schema}.instance_locks
         select instance_id, gen_random_uuid(), now() - interval '1 s', array[id] from {schema}.orchestrator_queue",
    )
    .await;
    send(&provider, raised("early", "")).await;
    run(
        &db,
        "create function {schema}.wait_here() returns trigger language plpgsql as
         'begin perform pg_advisory_xact_lock(hashtextextended(tg_table_schema, 9)); return old; end'",
    )
    .await;
    run(
        &db,
        "create trigger wait_here before delete on {schema}.instance_locks for each row
         when (old.instance_id = 'other') execute function {schema}.wait_here()",
    )
    .await;
    let mut holder = Side::begin(&db).await;
    sqlx::query("select pg_advisory_xact_lock(hashtextextended($1, 9))")
        .bind(db.schema().name())
        .execute(&mut *holder.transaction)
        .await
        .expect("locked");

    let claim = tokio::spawn({
        let (pool, sql) = (
            db.database().pool().clone(),
            "select * from {schema}.claim_instances(array[gen_random_uuid(), gen_random_uuid()], 60000, null, null, null, false)",
        );
        let sql = db.schema().sql(sql);
        async move { sqlx::query(&sql).fetch_all(&pool).await.expect("a claim") }
    });
    holder.is_waited_for(&db).await;
    send(&provider, start("early", "")).await;
    let lease = "insert into {schema}.instance_locks
                 select 'early', gen_random_uuid(), now() + interval '60 s', array_agg(id) from {schema}.orchestrator_queue
                 where instance_id = 'early' returning lock_token::text";
    let fence: String =
        sqlx::query_scalar(db.schema().sql(lease)).fetch_one(db.database().pool()).await.expect("a lease");
    holder.commit().await;

    let claimed: Vec<Option<String>> =
        claim.await.expect("no panic").iter().map(|row| row.get("instance_id")).collect();
    assert_eq!(claimed, [Some("other".to_owned()), None]);
    ack(&provider, &format!("{fence}:early"), Done::first("early", "")).await.expect("acked");
    let left = "select count(*) from {schema}.orchestrator_queue where instance_id = 'early'";
    assert_eq!(number(&db, left).await, 0, "both messages were of the turn");
}

/// A claim leases the messages that an ack wrote after the claim had begun and before it chose the instance: one may be
/// the start of the next execution.
/// The claim's transaction begins before the second message is sent, so that message is due after its now().
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_leases_messages_written_since_it_began() {
    let Fixture { db, provider } = Fixture::new().await;
    begin(&provider, "a", LEASE).await;
    send(&provider, raised("a", "one")).await;
    let mut side = Side::begin(&db).await;
    let began = "select now() = statement_timestamp() from {schema}.instances";
    sqlx::query(db.schema().sql(began)).execute(&mut *side.transaction).await.expect("begun");
    send(&provider, raised("a", "two")).await;
    let claim = "select messages from {schema}.claim_instances(array[gen_random_uuid()], 60000, null, null, null, false) where instance_id = 'a'";
    let messages: Vec<String> =
        sqlx::query_scalar(db.schema().sql(claim)).fetch_one(&mut *side.transaction).await.expect("claimed");
    assert_eq!(messages.len(), 2, "{messages:?}");
}

/// The end of an activity of a deleted instance does not reach the next instance of that name.
/// An ack has ended the activity and not committed when the delete comes, which waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_activity_that_ends_during_a_delete_sends_no_message() {
    let Fixture { db, provider } = Fixture::new().await;
    begin(&provider, "a", LEASE).await;
    send_work(&provider, activity("a", 2)).await;
    fetch_work(&provider, LEASE).await;
    let mut side = Side::begin(&db).await;
    let acked = db.schema().sql(
        "select {schema}.ack_work(
             false,
             row(
                 array['a'], array[activity.id], array[activity.lock_token], array[false], array['a'], array[$1]
             )::{schema}.finished_activities)
         from {schema}.worker_queue activity",
    );
    let item = serde_json::to_string(&completion("a", 2, "done")).expect("JSON");
    let outcome: Vec<String> =
        sqlx::query_scalar(&acked).bind(item).fetch_one(&mut *side.transaction).await.expect("acked");
    assert_eq!(outcome, ["ok"]);

    let delete = tokio::spawn({
        let provider = provider.clone();
        async move { provider.delete_instances_atomic(&["a".to_owned()], true).await.expect("deleted") }
    });
    side.is_waited_for(&db).await;
    side.commit().await;
    delete.await.expect("no panic");
    assert_eq!(number(&db, "select count(*) from {schema}.orchestrator_queue").await, 0);
}

/// A turn's messages end with it, and its attempt counts, although the server's clock was set back during the turn.
/// Messages and leases are put as far into the future as the clock would have gone back.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_ends_with_its_messages_though_the_clock_went_back() {
    let Fixture { db, provider } = Fixture::new().await;
    begin(&provider, "a", LEASE).await;
    let clock_goes_back = async || {
        run(&db, "update {schema}.orchestrator_queue set visible_at = visible_at + interval '1 h'").await;
        run(&db, "update {schema}.instance_locks set locked_until = locked_until + interval '1 h'").await;
    };

    send(&provider, raised("a", "one")).await;
    let (_, token, _) = fetch(&provider, LEASE).await;
    clock_goes_back().await;
    provider.abandon_orchestration_item(&token, Some(Duration::ZERO), false).await.expect("abandoned");
    let attempts =
        number(&db, "select attempt_count::bigint from {schema}.orchestrator_queue where visible_at <= now()").await;
    assert_eq!(attempts, 1);

    let (_, token, _) = fetch(&provider, LEASE).await;
    clock_goes_back().await;
    ack(&provider, &token, Done::heard("a", 2, "one")).await.expect("acked");
    assert_eq!(number(&db, "select count(*) from {schema}.orchestrator_queue").await, 0);
}

/// A claim that finds the head of the queue locked takes the next one; and a claim for one waiter keeps one activity
/// from others.
/// Two claims for one waiter are open at a time; a third side counts what it could lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_takes_the_next_activity_if_the_first_is_locked() {
    let Fixture { db, provider } = Fixture::new().await;
    for id in 1..=4 {
        send_work(&provider, activity("a", id)).await;
    }
    let (mut one, mut two, mut rest) = (Side::begin(&db).await, Side::begin(&db).await, Side::begin(&db).await);
    assert_eq!(one.run(&db, ONE_WAITER).await, 1, "the first is free");
    assert_eq!(two.run(&db, ONE_WAITER).await, 1, "so is the second");
    assert_eq!(rest.run(&db, "select from {schema}.worker_queue for update skip locked").await, 2);
    rest.commit().await;
    two.commit().await;
    one.commit().await;
    let taken =
        number(&db, "select sum(activity_id)::bigint from {schema}.worker_queue where locked_until is not null").await;
    assert_eq!(taken, 1 + 2, "in order of waiting time");
}

/// A claim that leaves due work reports that, and one that leaves none reports when the first lease ends.
/// Claims for one waiter on two activities, one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_reports_whether_there_is_more() {
    let Fixture { db, provider } = Fixture::new().await;
    for id in 1..=2 {
        send_work(&provider, activity("a", id)).await;
    }
    let next_due =
        &ONE_WAITER.replace("select *", "select next_due_ms::bigint").replace("id is not null", "id is null");
    assert_eq!(number(&db, next_due).await, 0, "one is left");
    assert!((1..=60_000).contains(&number(&db, next_due).await), "none is left");
}

/// An activity that a session of another worker holds back is due when that session ends, not when its own lease did: a
/// due time in the past would be polled repeatedly.
/// An activity whose lease has ended, in a session that another worker has.
#[tokio::test(flavor = "multi_thread")]
async fn activities_of_a_session_are_due_when_the_session_ends() {
    let Fixture { db, provider } = Fixture::new().await;
    send_work(&provider, activity("a", 1)).await;
    run(&db, "update {schema}.worker_queue set session_id = 's', lock_token = gen_random_uuid(), locked_until = now() - interval '5 s'").await;
    run(&db, "insert into {schema}.sessions values ('s', 'elsewhere', now() + interval '60 s', now())").await;
    let claim = "select next_due_ms::bigint from {schema}.claim_work(array[''], 60000, array[gen_random_uuid()], array['here'], array[60000::bigint], null, false)";
    let next = number(&db, claim).await;
    assert!((1..=60_000).contains(&next), "due in {next} ms");
}
