//! Commits that claim what they cause, for slots of the same process that wait.

use std::time::Duration;

use duroxide::providers::{Provider, TagFilter};
use reveille_durable::{LongPollConfig, Options, PostgresProvider};
use reveille_pg::testing::{CountingRole, Proxy, TestDb};
use tokio::task::JoinHandle;

use crate::calls::{Done, ack, activity, begin, completion, fetch, fetch_work, identity, raised, send, start};
use crate::fixture::{Fixture, PATIENCE, eventually};
use crate::races::LEASE;

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3_600);
/// Text of the statements that commit and claim, and of no other.
const COMMIT_AND_CLAIM: &str = "with committed as";
/// Text of the statement that loads histories.
const LOADS: &str = "history.event_id > requested.after_event";

/// Only wake-ups and due times cause polls.
fn long_poll() -> LongPollConfig {
    LongPollConfig {
        fallback_poll_interval: NEVER,
        notify_delivery_timeout: NEVER,
        max_wait_time: NEVER,
        ..LongPollConfig::enabled()
    }
}

/// A turn slot that waits, and what it gets: the instance and the attempt.
fn turn_slot(provider: &PostgresProvider) -> JoinHandle<(String, u32)> {
    let provider = provider.clone();
    tokio::spawn(async move {
        let turn = provider.fetch_orchestration_item(LEASE, PATIENCE, None).await.expect("a fetch");
        let (item, _, attempt) = turn.expect("a turn");
        (item.instance, attempt)
    })
}

/// An activity slot that waits, and what it gets: the activity and the attempt.
fn activity_slot(provider: &PostgresProvider) -> JoinHandle<(u64, u32)> {
    let provider = provider.clone();
    tokio::spawn(async move {
        let work = provider.fetch_work_item(LEASE, PATIENCE, None, &TagFilter::Any).await.expect("a fetch");
        let (item, _, attempt) = work.expect("an activity");
        (identity(&item).1, attempt)
    })
}

/// Waits until a slot sleeps.
async fn asleep(provider: &PostgresProvider, consumer: &str) {
    let sleeps = || provider.health().consumers.iter().any(|it| &*it.name == consumer && it.asleep == 1);
    eventually("the slot sleeps", async || sleeps()).await;
}

/// A connected provider whose statements are counted.
async fn counted() -> Option<(TestDb, CountingRole, PostgresProvider)> {
    let db = TestDb::new().await;
    let role = db.counting_role().await?;
    drop(crate::fixture::provider(&db, LongPollConfig::default()).await);
    let options = Options::default().schema(db.schema().name()).long_poll(long_poll());
    let provider = PostgresProvider::with_database(role.database().clone(), options).await.expect("a provider");
    eventually("it is connected", async || provider.health().is_connected()).await;
    Some((db, role, provider))
}

/// The start of an instance and a scheduled activity are claimed by the statements that commit them.
/// The server counts the statements of this test's role. Repeated, because a slot may poll just when the commit is sent.
#[tokio::test(flavor = "multi_thread")]
async fn commits_claim_what_they_cause() {
    let Some((_db, role, provider)) = counted().await else { return };
    let claims = async || role.calls_matching(COMMIT_AND_CLAIM).await;

    let mut round = 0;
    eventually("a start is claimed", async || {
        round += 1;
        let instance = format!("started-{round}");
        let slot = turn_slot(&provider);
        asleep(&provider, "orchestrations").await;
        send(&provider, start(&instance, "")).await;
        assert_eq!(slot.await.expect("no panic"), (instance, 1));
        claims().await > 0
    })
    .await;

    begin(&provider, "i", LEASE).await;
    let (before, mut event) = (claims().await, 1);
    eventually("an activity is claimed", async || {
        event += 1;
        send(&provider, raised("i", "x")).await;
        let (_, token, _) = fetch(&provider, LEASE).await;
        let slot = activity_slot(&provider);
        asleep(&provider, "activities").await;
        let scheduling = Done { work: vec![activity("i", event)], ..Done::heard("i", event, "x") };
        ack(&provider, &token, scheduling).await.expect("the lease is fresh");
        assert_eq!(slot.await.expect("no panic"), (event, 1));
        claims().await > before
    })
    .await;
}

/// An ack that claims the next turn of its own instance, for a message that it sends, finds the history in the cache, with
/// the events of the turn that it acks. Nothing is loaded.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_claimed_by_the_ack_of_the_last_needs_no_load() {
    let Some((_db, role, provider)) = counted().await else { return };
    begin(&provider, "i", LEASE).await;
    send(&provider, raised("i", "first")).await;
    let (_, mut token, _) = fetch(&provider, LEASE).await;
    let mut event = 1;
    eventually("an ack claims", async || {
        event += 1;
        let slot = tokio::spawn({
            let provider = provider.clone();
            async move { fetch(&provider, LEASE).await }
        });
        asleep(&provider, "orchestrations").await;
        let again = Done { messages: vec![raised("i", "next")], ..Done::heard("i", event, "x") };
        ack(&provider, &token, again).await.expect("the lease is fresh");
        let (item, next, _) = slot.await.expect("no panic");
        assert_eq!(item.history.len() as u64, event);
        token = next;
        role.calls_matching(COMMIT_AND_CLAIM).await > 0
    })
    .await;
    assert_eq!(role.calls_matching(LOADS).await, 0);
}

/// What a statement has committed and claimed is not stuck if its answer is lost: the outcome is resolved, and the claim
/// is given back at once and uncounted. The proxy cuts the answer; leases are long.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_a_commit_whose_answer_is_lost_comes_back_at_once() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let options = Options::default().schema(db.schema().name()).long_poll(long_poll());
    let provider = PostgresProvider::connect(proxy.url(), options).await.expect("a provider");
    eventually("it is connected", async || provider.health().is_connected()).await;
    for round in 0..5 {
        let instance = format!("needle-{round}");
        let slot = turn_slot(&provider);
        asleep(&provider, "orchestrations").await;
        let cut = proxy.cut_reply_to(instance.as_str());
        send(&provider, start(&instance, "")).await;
        cut.happened().await;
        assert_eq!(slot.await.expect("no panic"), (instance, 1));
    }
}

/// A claim in a commit does not make the commit asynchronous, and sees what the commit has written.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_claims_is_durable() {
    let Fixture { db, provider } = Fixture::new().await;
    begin(&provider, "i", LEASE).await;
    let mut transaction = db.database().pool().begin().await.expect("begin");
    for (sql, expected) in [
        ("select {schema}.claim_instances(array[gen_random_uuid()], 1000, null, null, null, in_write => true)", "on"),
        (
            "select {schema}.claim_work(
                null, 1000, array[gen_random_uuid()], array[null::text], array[0::bigint], null, in_write => true)",
            "on",
        ),
        ("select {schema}.claim_instances(array[gen_random_uuid()], 1000, null, null, null, in_write => false)", "off"),
    ] {
        sqlx::query(db.schema().sql(sql)).execute(&mut *transaction).await.expect("claimed");
        let setting: String = sqlx::query_scalar("select current_setting('synchronous_commit')")
            .fetch_one(&mut *transaction)
            .await
            .expect("a setting");
        assert_eq!(setting, expected, "{sql}");
    }
}

/// The result of an activity comes back as a turn in the commit of its ack, with the history that the turn needs.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_a_commit_claims_has_its_history() {
    let Fixture { db: _db, provider } = Fixture::with(long_poll()).await;
    eventually("it is connected", async || provider.health().is_connected()).await;
    begin(&provider, "i", LEASE).await;
    crate::calls::send_work(&provider, activity("i", 1)).await;
    let (_, token, _) = fetch_work(&provider, LEASE).await;
    let slot = tokio::spawn({
        let provider = provider.clone();
        async move { fetch(&provider, LEASE).await.0 }
    });
    asleep(&provider, "orchestrations").await;
    provider.ack_work_item(&token, Some(completion("i", 1, "done"))).await.expect("the lease is fresh");
    let item = slot.await.expect("no panic");
    assert_eq!(item.messages, [completion("i", 1, "done")]);
    assert_eq!(item.history.len(), 1);
}
