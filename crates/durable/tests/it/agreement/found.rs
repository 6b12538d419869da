//! Orders of calls that random sequences and reviews have found, each as a test of its own.

use std::time::Duration;

use duroxide::providers::{ExecutionMetadata, Provider, ProviderAdmin as _, SessionFetchConfig, TagFilter, WorkItem};
use sqlx::postgres::PgListener;
use tokio::time::{Instant, sleep, timeout};

use super::payload::{NAME, VERSION, activity, message, numbered, started};
use super::step::{Kind, Route};
use crate::fixture::{Fixture, PATIENCE};

const LEASE: Duration = Duration::from_secs(60);

async fn send(fixture: &Fixture, kind: Kind, to: &str) {
    fixture.provider.enqueue_for_orchestrator(message(kind, to, "x", 0), None).await.expect("sent");
}

fn named() -> ExecutionMetadata {
    let (name, version) = (Some(NAME.to_owned()), Some(VERSION.to_owned()));
    ExecutionMetadata { orchestration_name: name, orchestration_version: version, ..ExecutionMetadata::default() }
}

/// A first turn that is delayed, as by a runtime that does not know the orchestration, blocks its own instance and no
/// other. A message comes for it while its start is not due, and then another instance is started.
#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_start_blocks_no_other_instance() {
    let fixture = Fixture::new().await;
    let provider = &fixture.provider;
    send(&fixture, Kind::Start, "late").await;
    let (_, token, _) =
        provider.fetch_orchestration_item(LEASE, PATIENCE, None).await.expect("a fetch").expect("a turn");
    provider.abandon_orchestration_item(&token, Some(LEASE), false).await.expect("abandoned");
    send(&fixture, Kind::Raised, "late").await;
    send(&fixture, Kind::Start, "other").await;
    let fetched = provider.fetch_orchestration_item(LEASE, Duration::from_secs(5), None).await.expect("a fetch");
    assert_eq!(fetched.map(|(item, ..)| item.instance).as_deref(), Some("other"));
}

/// A worker that may not take a session's activities must not delay the one that may: its backlog continues without
/// pauses. One owner executes five activities that were scheduled together, 0.7 s each, while another waits for work.
#[tokio::test(flavor = "multi_thread")]
async fn the_backlog_of_a_session_is_not_held_up_by_other_owners() {
    let fixture = Fixture::new().await;
    let provider = fixture.provider.clone();
    let owner = |name: &str| SessionFetchConfig { owner_id: name.to_owned(), lock_timeout: LEASE };
    for id in 1..=6 {
        let item = activity("a", 1, id, "x", Route { tag: None, session: Some(0) });
        provider.enqueue_for_worker(item).await.expect("sent");
    }
    let (one, two) = (owner("one"), owner("two"));
    let mut pauses = Vec::new();
    let (_, mut token, _) =
        provider.fetch_work_item(LEASE, PATIENCE, Some(&one), &TagFilter::Any).await.expect("a fetch").expect("work");
    let idle = tokio::spawn({
        let provider = provider.clone();
        async move {
            loop {
                let found = provider.fetch_work_item(LEASE, PATIENCE, Some(&two), &TagFilter::Any).await;
                assert!(found.expect("a fetch").is_none(), "it belongs to another owner");
            }
        }
    });
    for _ in 0..5 {
        sleep(Duration::from_millis(700)).await;
        provider.ack_work_item(&token, None).await.expect("acked");
        let since = Instant::now();
        let fetched = provider.fetch_work_item(LEASE, PATIENCE, Some(&one), &TagFilter::Any).await;
        token = fetched.expect("a fetch").expect("work").1;
        pauses.push(since.elapsed());
    }
    idle.abort();
    // A machine that stalls briefly delays one of them.
    pauses.sort_unstable();
    assert!(pauses[2] < Duration::from_millis(200), "the next activities of the session came after {pauses:?}");
}

/// A message that came during a long turn is due when the turn ends. Other work keeps the provider polling meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn messages_during_a_long_turn_are_due_at_its_end() {
    let fixture = Fixture::new().await;
    let provider = fixture.provider.clone();
    let mut longest = Duration::ZERO;
    for round in 0..3 {
        let long = format!("long-{round}");
        send(&fixture, Kind::Start, &long).await;
        let (_, token, _) =
            provider.fetch_orchestration_item(LEASE, PATIENCE, None).await.expect("a fetch").expect("a turn");
        send(&fixture, Kind::Raised, &long).await;
        for other in 0..23 {
            let other = format!("other-{round}-{other}");
            send(&fixture, Kind::Start, &other).await;
            let (item, token, _) =
                provider.fetch_orchestration_item(LEASE, PATIENCE, None).await.expect("a fetch").expect("a turn");
            assert_eq!(item.instance, other);
            let events = numbered(&other, 1, 1, vec![started("", 0)]);
            let acked = provider.ack_orchestration_item(&token, 1, events, vec![], vec![], named(), vec![]).await;
            acked.expect("acked");
            sleep(Duration::from_millis(100)).await;
        }
        let events = numbered(&long, 1, 1, vec![started("", 0)]);
        provider.ack_orchestration_item(&token, 1, events, vec![], vec![], named(), vec![]).await.expect("acked");
        let since = Instant::now();
        let fetched = provider.fetch_orchestration_item(LEASE, PATIENCE, None).await.expect("a fetch");
        let (_, token, _) = fetched.expect("a turn");
        longest = longest.max(since.elapsed());
        provider.ack_orchestration_item(&token, 1, vec![], vec![], vec![], named(), vec![]).await.expect("acked");
    }
    assert!(longest < Duration::from_millis(200), "the next turn came after {longest:?}");
}

/// A message that came before its instance was started, and was polled meanwhile, is claimed as soon as the first turn
/// is acked.
/// The fetch for it begins after the ack, and nothing else wakes it.
#[tokio::test(flavor = "multi_thread")]
async fn messages_before_a_start_are_due_when_it_is_acked() {
    let fixture = Fixture::new().await;
    let provider = &fixture.provider;
    send(&fixture, Kind::Raised, "a").await;
    let none = provider.fetch_orchestration_item(LEASE, Duration::from_millis(200), None).await.expect("a fetch");
    assert!(none.is_none(), "it is not started");
    // Longer than the time after which a provider polls again by itself.
    sleep(Duration::from_millis(1_500)).await;
    send(&fixture, Kind::Start, "a").await;
    let (_, token, _) =
        provider.fetch_orchestration_item(LEASE, PATIENCE, None).await.expect("a fetch").expect("a turn");
    let events = numbered("a", 1, 1, vec![started("", 0)]);
    provider.ack_orchestration_item(&token, 1, events, vec![], vec![], named(), vec![]).await.expect("acked");
    let fetched = provider.fetch_orchestration_item(LEASE, Duration::from_secs(5), None).await.expect("a fetch");
    assert_eq!(fetched.map(|(item, ..)| item.messages.len()), Some(1));
}

/// A long turn that sends nothing wakes no other process: it only makes its own process poll again.
/// The channel is listened to around its ack, between two notifications of the test itself.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_long_turn_notifies_no_other_process() {
    let fixture = Fixture::new().await;
    let (provider, pool) = (&fixture.provider, fixture.db.database().pool());
    let channel = reveille_wake::channel_name(fixture.db.schema().name(), "orch_work");
    let mut listener = PgListener::connect_with(pool).await.expect("a listener");
    listener.listen(&channel).await.expect("it listens");
    let mut heard_until = async |mark: &str| {
        sqlx::query("select pg_notify($1, $2)").bind(&channel).bind(mark).execute(pool).await.expect("notified");
        let mut heard = 0;
        while timeout(PATIENCE, listener.recv()).await.expect("in time").expect("heard").payload() != mark {
            heard += 1;
        }
        heard
    };
    send(&fixture, Kind::Start, "long").await;
    let (_, token, _) =
        provider.fetch_orchestration_item(LEASE, PATIENCE, None).await.expect("a fetch").expect("a turn");
    // Longer than what a claim reads anyhow.
    sleep(Duration::from_millis(600)).await;
    heard_until("before").await;
    let events = numbered("long", 1, 1, vec![started("", 0)]);
    provider.ack_orchestration_item(&token, 1, events, vec![], vec![], named(), vec![]).await.expect("acked");
    provider.flush().await;
    assert_eq!(heard_until("after").await, 0, "another process was woken");
}

/// The messages of a turn come in the order in which they were due, however the server groups them.
/// Two instances are claimed at once, those that are due later by the name that sorts first, by a server that does not
/// group by hashing.
#[tokio::test(flavor = "multi_thread")]
async fn the_messages_of_a_turn_come_in_order_by_any_plan() {
    const MESSAGES: usize = 50;
    let fixture = Fixture::new().await;
    for to in ["b", "a"] {
        send(&fixture, Kind::Start, to).await;
    }
    for number in 1..MESSAGES {
        for to in ["b", "a"] {
            let item = message(Kind::Raised, to, &number.to_string(), 0);
            fixture.provider.enqueue_for_orchestrator(item, None).await.expect("sent");
        }
    }
    let schema = fixture.db.schema();
    let mut transaction = fixture.db.database().pool().begin().await.expect("a transaction");
    sqlx::query("set local enable_hashagg = off").execute(&mut *transaction).await.expect("set");
    let claim = schema.sql(
        "select messages from {schema}.claim_instances(array(select gen_random_uuid() from generate_series(1, 20)), 60000, null, null, null, false) where instance_id is not null",
    );
    let claimed: Vec<Vec<String>> = sqlx::query_scalar(&claim).fetch_all(&mut *transaction).await.expect("claimed");
    let sent = schema.sql(
        "select array_agg(work_item order by id) from {schema}.orchestrator_queue group by instance_id order by min(id)",
    );
    let sent: Vec<Vec<String>> = sqlx::query_scalar(&sent).fetch_all(&mut *transaction).await.expect("sent");
    assert_eq!(claimed.iter().map(Vec::len).collect::<Vec<_>>(), [MESSAGES, MESSAGES]);
    assert_eq!(claimed, sent);
}

/// A message to a mailbox that comes before its instance is started is dropped, whatever else is on its way to the
/// instance; unless that is its start: then it waits.
/// One instance is sent something delayed, another its start; both then a message to a mailbox.
#[tokio::test(flavor = "multi_thread")]
async fn a_mailbox_is_kept_for_an_instance_that_is_about_to_start() {
    let fixture = Fixture::new().await;
    let provider = &fixture.provider;
    let delayed = async |kind, to, by| {
        provider.enqueue_for_orchestrator(message(kind, to, "x", 0), Some(by)).await.expect("sent");
    };
    delayed(Kind::Raised, "nothing", LEASE).await;
    delayed(Kind::Start, "late", Duration::from_millis(500)).await;
    for to in ["nothing", "late"] {
        send(&fixture, Kind::Queue, to).await;
    }
    let (item, token, _) =
        provider.fetch_orchestration_item(LEASE, PATIENCE, None).await.expect("a fetch").expect("a turn");
    assert_eq!(item.instance, "late");
    let events = numbered("late", 1, 1, vec![started("", 0)]);
    provider.ack_orchestration_item(&token, 1, events, vec![], vec![], named(), vec![]).await.expect("acked");
    let left = provider.get_queue_depths().await.expect("depths").orchestrator_queue;
    assert_eq!(left, 2, "what is delayed, and the mailbox of what has started");
    let fetched = provider.fetch_orchestration_item(LEASE, PATIENCE, None).await.expect("a fetch");
    let messages = fetched.map(|(item, ..)| item.messages).expect("a turn");
    assert!(matches!(messages[..], [WorkItem::QueueMessage { .. }]), "{messages:?}");
}

/// A history that was only appended is read like any other, though no turn has made an instance of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_was_only_appended_is_read() {
    let Fixture { db: _db, provider } = Fixture::new().await;
    let events = numbered("a", 1, 1, vec![started("", 0)]);
    provider.append_with_execution("a", 1, events.clone()).await.expect("appended");
    assert_eq!(provider.read_with_execution("a", 1).await.expect("read"), events);
    assert_eq!(provider.read("a").await.expect("read"), events);
    assert_eq!(provider.read_history("a").await.expect("read"), events);
}
