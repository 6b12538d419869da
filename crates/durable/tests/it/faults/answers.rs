//! Connections cut around a commit: every write happens exactly once, and its caller gets the outcome.

use std::time::Duration;

use duroxide::RuntimeOptions;
use duroxide::providers::{ExecutionMetadata, Provider, ProviderAdmin, PruneOptions};
use reveille_durable::PostgresProvider;
use reveille_pg::testing::{Cut, Proxy, TestDb};
use tokio::time::timeout;

use super::load::{ACTIVITIES, Load};
use super::{LEASE, four_each, options};
use crate::calls::{
    Done, ack, activity, begin, completion, fetch, fetch_work, identity, raised, send, send_work, start,
};

/// Which side of the commit the connection is cut on.
#[derive(Debug, Clone, Copy)]
enum Side {
    /// The server never sees the request.
    Before,
    /// The server has committed, and its answer is lost.
    After,
}

const SIDES: [Side; 2] = [Side::After, Side::Before];

/// A provider behind a proxy.
struct Way {
    db: TestDb,
    proxy: Proxy,
    provider: PostgresProvider,
}

impl Way {
    async fn new() -> Way {
        let db = TestDb::new().await;
        let proxy = Proxy::start(&db).await;
        let provider = PostgresProvider::connect(proxy.url(), options(db.schema())).await.expect("a provider");
        Way { db, proxy, provider }
    }

    /// The next request that holds `marker` is cut.
    fn cut(&self, side: Side, marker: &str) -> Cut {
        match side {
            Side::Before => self.proxy.cut_request_with(marker),
            Side::After => self.proxy.cut_reply_to(marker),
        }
    }

    /// How many rows there are, asked past the proxy.
    async fn count(&self, of: &str) -> i64 {
        let count = self.db.schema().sql(&format!("select count(*) from {{schema}}.{of}"));
        sqlx::query_scalar(&count).fetch_one(self.db.database().pool()).await.expect("count")
    }
}

/// A turn whose ack is cut off happens once: its events, its activity, its message. The runtime gets no error, and a
/// second ack of the same token is refused for good.
/// An input that the events carry is the marker at which the proxy cuts, on either side of the commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_happens_once_however_its_connection_breaks() {
    let way = Way::new().await;
    for (round, side) in (1..).zip(SIDES) {
        let instance = format!("i-{round}");
        send(&way.provider, start(&instance, "")).await;
        let (_, token, _) = fetch(&way.provider, LEASE).await;
        let done = Done {
            work: vec![activity(&instance, 2)],
            messages: vec![raised("another", "hello")],
            ..Done::first(&instance, "needle")
        };
        let cut = way.cut(side, "needle");
        ack(&way.provider, &token, done.clone()).await.expect("no error for the runtime");
        cut.happened().await;
        let again = ack(&way.provider, &token, done).await.expect_err("a token is good for one ack");
        assert!(!again.is_retryable(), "{side:?}: {again}");

        let history = way.provider.read(&instance).await.expect("its history");
        assert_eq!(history.len(), 1, "{side:?}: {history:#?}");
        assert_eq!(way.count("worker_queue").await, round, "{side:?}");
        assert_eq!(way.count("orchestrator_queue").await, round, "{side:?}");
        assert_eq!(way.count("instance_locks").await, 0, "{side:?}");
    }
}

/// An activity whose ack is cut off ends once: its instance gets one message, the runtime gets no error, and a second
/// ack is rejected.
/// The result is the marker at which the proxy cuts.
#[tokio::test(flavor = "multi_thread")]
async fn an_activity_ends_once_however_its_connection_breaks() {
    let way = Way::new().await;
    for (round, side) in (1..).zip(SIDES) {
        send_work(&way.provider, activity("i", round as u64)).await;
        let (_, token, _) = fetch_work(&way.provider, LEASE).await;
        let completed = || Some(completion("i", round as u64, "needle"));
        let cut = way.cut(side, "needle");
        way.provider.ack_work_item(&token, completed()).await.expect("no error for the runtime");
        cut.happened().await;
        let again = way.provider.ack_work_item(&token, completed()).await.expect_err("a token is good for one ack");
        assert!(!again.is_retryable(), "{side:?}: {again}");
        assert_eq!(way.count("worker_queue").await, 0, "{side:?}");
        assert_eq!(way.count("orchestrator_queue").await, round, "{side:?}");
    }
}

/// A message and an activity whose sending is cut off are sent once.
/// What they carry is the marker at which the proxy cuts.
#[tokio::test(flavor = "multi_thread")]
async fn sent_work_arrives_once_however_its_connection_breaks() {
    let way = Way::new().await;
    for (round, side) in (1..).zip(SIDES) {
        let cut = way.cut(side, "needle");
        send(&way.provider, start(&format!("i-{round}"), "needle")).await;
        cut.happened().await;
        assert_eq!(way.count("orchestrator_queue").await, round, "{side:?}");

        let cut = way.cut(side, "haystack");
        send_work(&way.provider, activity("haystack", round as u64)).await;
        cut.happened().await;
        assert_eq!(way.count("worker_queue").await, round, "{side:?}");
    }
}

/// A deletion and a pruning whose connection breaks answer what they know: not that nothing was there to delete.
/// The instance is the marker at which the proxy cuts; a second try answers what the first has left.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_never_claims_to_have_removed_nothing() {
    let way = Way::new().await;
    for (side, left) in [(Side::After, 0), (Side::Before, 1)] {
        begin(&way.provider, "needle", LEASE).await;
        go_on(&way.provider, "needle").await;
        let keep_one = || PruneOptions { keep_last: Some(1), ..PruneOptions::default() };
        let cut = way.cut(side, "needle");
        let error = way.provider.prune_executions("needle", keep_one()).await.expect_err("an unknown outcome");
        cut.happened().await;
        assert!(error.is_retryable() && error.message.contains("unknown"), "{side:?}: {error}");
        let pruned = way.provider.prune_executions("needle", keep_one()).await.expect("pruned");
        assert_eq!(pruned.executions_deleted, left, "{side:?}");
        assert_eq!(way.count("executions").await, 1, "{side:?}");

        let delete = async || way.provider.delete_instances_atomic(&["needle".to_owned()], true).await;
        let cut = way.cut(side, "needle");
        let error = delete().await.expect_err("an unknown outcome");
        cut.happened().await;
        assert!(error.is_retryable() && error.message.contains("unknown"), "{side:?}: {error}");
        assert_eq!(delete().await.expect("deleted").instances_deleted, left, "{side:?}");
        assert_eq!(way.count("instances").await, 0, "{side:?}");
    }
}

/// Continues an instance as new: its first execution ends, and a second begins.
async fn go_on(provider: &PostgresProvider, instance: &str) {
    let continued = ExecutionMetadata { status: Some("ContinuedAsNew".to_owned()), ..ExecutionMetadata::default() };
    send(provider, raised(instance, "x")).await;
    let (_, token, _) = fetch(provider, LEASE).await;
    ack(provider, &token, Done { metadata: continued, ..Done::heard(instance, 2, "x") }).await.expect("a fresh lease");
    send(provider, raised(instance, "y")).await;
    let (_, token, _) = fetch(provider, LEASE).await;
    let Done { events, metadata, .. } = Done::first(instance, "");
    let acked = provider.ack_orchestration_item(&token, 2, events, Vec::new(), Vec::new(), metadata, Vec::new());
    acked.await.expect("a fresh lease");
}

/// A claim whose answer is cut off is given back by the next poll, long before its lease expires, and the unused attempt
/// does not count. The proxy cuts the claim statement, recognized by its unique lease time.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_was_lost_is_given_back_by_the_next_poll() {
    const UNIQUE: Duration = Duration::from_millis(LEASE.as_millis() as u64 + 4_321);
    let way = Way::new().await;
    send(&way.provider, start("turn", "")).await;
    send_work(&way.provider, activity("work", 1)).await;
    let lease = (UNIQUE.as_millis() as i64).to_be_bytes();

    let cut = way.proxy.cut_reply_to(lease);
    let (item, _, attempt) = fetch(&way.provider, UNIQUE).await;
    cut.happened().await;
    assert_eq!((item.instance.as_str(), attempt), ("turn", 1));

    let cut = way.proxy.cut_reply_to(lease);
    let (work, _, attempt) = fetch_work(&way.provider, UNIQUE).await;
    cut.happened().await;
    assert_eq!((identity(&work), attempt), (("work", 1), 1));
}

/// A whole runtime whose connections break around its writes completes everything, and executes nothing twice.
/// Starts and first turns are markers for cuts on alternating sides of the commit. Leases are long, so that nothing
/// lost would come back in time.
#[tokio::test(flavor = "multi_thread")]
async fn orchestrations_complete_although_connections_break_around_their_commits() {
    const ORCHESTRATIONS: usize = 20;
    let way = Way::new().await;
    let long = RuntimeOptions { orchestrator_lock_timeout: LEASE, worker_lock_timeout: LEASE, ..four_each() };
    let load = Load::with(&way.provider, long).await;
    let mut cuts = Vec::new();
    for number in 0..ORCHESTRATIONS {
        let (one, other) = (SIDES[number % 2], SIDES[(number / 2) % 2]);
        // Each counts from its own number, which is its input and that of its first activities.
        let from = |item: &str, fields: &str| format!(r#""{item}":{{{fields},"input":"{number}""#);
        cuts.push(way.cut(one, &from("StartOrchestration", r#""orchestration":"Count""#)));
        cuts.push(way.cut(other, &from("ActivityExecute", r#""execution_id":1,"id":2,"name":"Step""#)));
    }
    load.complete(ORCHESTRATIONS).await;
    assert_eq!(load.executed(), ORCHESTRATIONS * ACTIVITIES);
    load.stop().await;
    let mut happened = 0;
    for cut in cuts {
        happened += usize::from(timeout(Duration::ZERO, cut.happened()).await.is_ok());
    }
    // Starts go one by one. Turns may share a statement, which is cut once.
    assert!(happened > ORCHESTRATIONS, "{happened} cuts");
}
