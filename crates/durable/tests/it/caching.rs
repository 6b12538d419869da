//! Caches: they save statements and bytes, and never return stale data.

use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin, PruneOptions, TagFilter, WorkItem};
use reveille_durable::{LongPollConfig, Options, PostgresProvider};
use reveille_pg::testing::{CountingRole, TestDb};
use tokio::task::JoinSet;

use crate::calls::{Done, ack, activity, begin, fetch, raised, send, start};
use crate::fixture::{Fixture, eventually, provider};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3_600);
/// The lease of turns.
const LEASE: Duration = Duration::from_secs(120);
/// The steps of a chain.
const STEPS: u64 = 10;
/// The statement that loads histories, as statistics show it.
const LOADS: &str = "history.event_id > requested.after_event";
/// The statements of the two gauges.
const GAUGES: [&str; 2] = ["as messages", "as instances"];

/// A provider whose statements are counted, remembering so many bytes of histories.
async fn counted(db: &TestDb, role: &CountingRole, history_cache_bytes: Option<usize>) -> PostgresProvider {
    drop(provider(db, LongPollConfig::default()).await);
    // Only events cause polls.
    let long_poll = LongPollConfig { fallback_poll_interval: LONG, max_wait_time: LONG, ..LongPollConfig::enabled() };
    let options =
        Options::default().schema(db.schema().name()).long_poll(long_poll).history_cache_bytes(history_cache_bytes);
    let provider = PostgresProvider::with_database(role.database().clone(), options).await.expect("a provider");
    eventually("it hears", async || provider.health().is_connected()).await;
    provider
}

/// Takes an instance through a chain of turns, each of which must be given the whole history so far.
async fn chain(provider: &PostgresProvider, instance: &str) {
    begin(provider, instance, LEASE).await;
    for step in 2..STEPS {
        send(provider, raised(instance, "x")).await;
        let (item, token, _) = fetch(provider, LEASE).await;
        let ids: Vec<u64> = item.history.iter().map(|event| event.event_id).collect();
        assert_eq!(ids, Vec::from_iter(1..step));
        ack(provider, &token, Done::heard(instance, step, "x")).await.expect("a fresh lease");
    }
}

/// A chain of turns in one process never loads its history: what its own acks appended is cached.
/// The same chain without memory shows that loading would have been counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_turns_loads_no_history() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    chain(&counted(&db, &role, None).await, "remembered").await;
    assert_eq!(role.calls_matching(LOADS).await, 0);
    chain(&counted(&db, &role, Some(0)).await, "forgotten").await;
    assert_eq!(role.calls_matching(LOADS).await, STEPS as i64 - 2);
}

/// A reader loads only the events that its process does not have in its cache.
/// The cached rows are made unreadable in the table, without the trigger that would invalidate the caches; a process
/// without a cache fails on them.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_loads_only_new_events() {
    let Fixture { db, provider: here } = Fixture::new().await;
    begin(&here, "i", LEASE).await;
    let mut transaction = db.database().pool().begin().await.expect("begin");
    for statement in [
        "alter table {schema}.history disable trigger user",
        "update {schema}.history set events = 'unreadable'",
        "alter table {schema}.history enable trigger user",
    ] {
        sqlx::query(db.schema().sql(statement)).execute(&mut *transaction).await.expect("unreadable");
    }
    transaction.commit().await.expect("committed");
    for last in 1..=3 {
        let read = here.read("i").await.expect("what is remembered is not read");
        assert_eq!(Vec::from_iter(read.iter().map(|event| event.event_id)), Vec::from_iter(1..=last));
        let more = Done::heard("i", last + 1, "x").events;
        here.append_with_execution("i", 1, more).await.expect("appended");
    }
    let elsewhere = provider(&db, LongPollConfig::default()).await;
    elsewhere.read("i").await.expect_err("it is all sent to who remembers nothing");
}

/// A runtime's gauges are answered from memory while nothing happens, and tell of every write of this process at once.
/// Dispatchers wait, so that everything is noticed. Each kind of write is made, and what the gauges must tell then is
/// known.
#[tokio::test(flavor = "multi_thread")]
async fn gauges_reflect_every_write() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let provider = counted(&db, &role, None).await;
    begin(&provider, "i", LEASE).await;
    send(&provider, raised("i", "x")).await;
    let (_, token, _) = fetch(&provider, LEASE).await;
    let mut waiters = JoinSet::new();
    for tags in [TagFilter::tags(["unknown"]), TagFilter::tags(["other"])] {
        let provider = provider.clone();
        waiters.spawn(async move { provider.fetch_work_item(LEASE, LONG, None, &tags).await.map(drop) });
    }
    waiters.spawn({
        let provider = provider.clone();
        async move { provider.fetch_orchestration_item(LEASE, LONG, None).await.map(drop) }
    });
    eventually("they wait", async || {
        let waiting = provider.health().consumers.iter().map(|consumer| consumer.waiters).sum::<usize>();
        waiting == 3
    })
    .await;
    let counts = async || {
        let depths = provider.get_queue_depths().await.expect("depths");
        let metrics = provider.get_system_metrics().await.expect("metrics");
        (depths.orchestrator_queue, depths.worker_queue, metrics.total_instances, metrics.total_events)
    };
    let asked = async || {
        let [one, other] = GAUGES;
        role.calls_matching(one).await + role.calls_matching(other).await
    };
    let quiet = async |answer| {
        // Earlier events may cause one more poll.
        eventually("nothing is asked any more", async || {
            let before = asked().await;
            assert_eq!(counts().await, answer);
            asked().await == before
        })
        .await;
    };
    quiet((0, 0, 1, 1)).await;

    // None of these causes a poll: what is sent is not due, or for an instance that does not exist.
    let late = async |item: WorkItem| provider.enqueue_for_orchestrator(item, Some(LONG)).await.expect("sent");
    late(raised("i", "late")).await;
    assert_eq!(counts().await, (1, 0, 1, 1));
    provider.enqueue_for_worker(activity("i", 7)).await.expect("sent");
    assert_eq!(counts().await, (1, 1, 1, 1));
    provider.append_with_execution("i", 1, Done::heard("i", 2, "x").events).await.expect("appended");
    assert_eq!(counts().await, (1, 1, 1, 2));
    let mut transaction = provider.pool().begin().await.expect("begin");
    provider.enqueue_in(&mut transaction, start("later", ""), Some(LONG)).await.expect("sent");
    transaction.commit().await.expect("committed");
    assert_eq!(counts().await, (2, 1, 1, 2));
    ack(&provider, &token, Done::heard("i", 3, "x")).await.expect("a fresh lease");
    assert_eq!(counts().await, (2, 1, 1, 3));
    let tags = TagFilter::DefaultOnly;
    let fetched = provider.fetch_work_item(LEASE, Duration::ZERO, None, &tags).await.expect("a fetch");
    let (_, work, _) = fetched.expect("the activity");
    assert_eq!(counts().await, (2, 0, 1, 3));
    provider.abandon_work_item(&work, Some(LONG), false).await.expect("a fresh lease");
    assert_eq!(counts().await, (2, 1, 1, 3));
    let keep = PruneOptions { keep_last: Some(1), ..PruneOptions::default() };
    provider.prune_executions("i", keep).await.expect("pruned");
    provider.delete_instances_atomic(&["i".to_owned()], true).await.expect("deleted");
    assert_eq!(counts().await, (1, 0, 0, 0));
    quiet((1, 0, 0, 0)).await;
    waiters.shutdown().await;
}
