//! Many waiters, and waiters without work.

use std::time::Duration;

use duroxide::providers::{DispatcherCapabilityFilter, Provider, TagFilter};
use reveille_durable::LongPollConfig;
use reveille_pg::testing::TestDb;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::calls::{Done, ack, activity, begin, fetch, fetch_work, raised, send, start};
use crate::fixture::{Fixture, PATIENCE, eventually};

/// The lease of what is fetched: ends after every test.
const LEASE: Duration = Duration::from_secs(120);
/// Turns that one statement claims at most.
const TURNS_MAX: i64 = 100;
/// Waiters: more than one statement returns turns for.
const CROWD: usize = 250;

/// Under it only wake-ups bring work: a waiter that a poll left out would wait in vain.
fn wake_ups_only() -> LongPollConfig {
    let never = Duration::from_secs(3_600);
    LongPollConfig { fallback_poll_interval: never, notify_delivery_timeout: never, ..LongPollConfig::enabled() }
}

/// How many leases there are, and how many of them one statement took at most: leases of one statement end together.
async fn leases(db: &TestDb, table: &str) -> (i64, i64) {
    let count = format!(
        "select coalesce(sum(n), 0)::bigint, coalesce(max(n), 0)
         from (select count(*) as n from {{schema}}.{table} where locked_until is not null group by locked_until) leases"
    );
    sqlx::query_as(db.schema().sql(&count)).fetch_one(db.database().pool()).await.expect("count")
}

/// A crowd for which there is work all at once is served, all of it, by statements for many, of which none takes more
/// turns than it may.
/// All wait before one ack sends everything: one activity for each, and later a start for each.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_is_served_by_bounded_statements() {
    let Fixture { db, provider } = Fixture::with(wake_ups_only()).await;
    eventually("it hears", async || provider.health().is_connected()).await;
    let waiting = async |many: usize| {
        let waiting = || provider.health().consumers.iter().map(|consumer| consumer.waiters).sum::<usize>();
        eventually("they wait", async || waiting() == many).await;
    };
    begin(&provider, "sender", LEASE).await;
    send(&provider, raised("sender", "x")).await;
    let (_, token, _) = fetch(&provider, LEASE).await;
    let mut workers = JoinSet::new();
    for _ in 0..CROWD {
        let provider = provider.clone();
        workers.spawn(async move { drop(fetch_work(&provider, LEASE).await) });
    }
    waiting(CROWD).await;
    let work = (0..CROWD).map(|number| activity("sender", 10 + number as u64)).collect();
    ack(&provider, &token, Done { work, ..Done::heard("sender", 2, "x") }).await.expect("a fresh lease");
    workers.join_all().await;
    let (all, by_one) = leases(&db, "worker_queue").await;
    assert_eq!(all, CROWD as i64);
    assert!(by_one > 1, "every activity had a statement of its own");

    send(&provider, raised("sender", "y")).await;
    let (_, token, _) = fetch(&provider, LEASE).await;
    let mut dispatchers = JoinSet::new();
    for _ in 0..CROWD {
        let provider = provider.clone();
        dispatchers.spawn(async move { drop(fetch(&provider, LEASE).await) });
    }
    waiting(CROWD).await;
    let messages = (0..CROWD).map(|number| start(&format!("started-{number}"), "")).collect();
    ack(&provider, &token, Done { messages, ..Done::heard("sender", 3, "y") }).await.expect("a fresh lease");
    dispatchers.join_all().await;
    let (all, by_one) = leases(&db, "instance_locks").await;
    assert_eq!(all, CROWD as i64);
    assert!((2..=TURNS_MAX).contains(&by_one), "one statement took {by_one} turns");
}

/// A filter that accepts nothing gets nothing, waits with long polling, and returns at once without.
/// There is work for other filters.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_accepts_nothing_waits_and_gets_nothing() {
    const SHORT: Duration = Duration::from_millis(300);
    let no_version = DispatcherCapabilityFilter { supported_duroxide_versions: Vec::new() };
    for config in [LongPollConfig::enabled(), LongPollConfig::default()] {
        let waits = config.enabled;
        let Fixture { db: _db, provider } = Fixture::with(config).await;
        send(&provider, start("i", "")).await;
        provider.enqueue_for_worker(activity("i", 2)).await.expect("sent");
        let poll_timeout = if waits { SHORT } else { PATIENCE * 2 };
        let since = Instant::now();
        let fetched = timeout(PATIENCE, async {
            let turn = provider.fetch_orchestration_item(LEASE, poll_timeout, Some(&no_version)).await;
            let work = provider.fetch_work_item(LEASE, poll_timeout, None, &TagFilter::None).await;
            turn.expect("a fetch").is_none() && work.expect("a fetch").is_none()
        });
        assert!(fetched.await.expect("it returns"), "nothing was accepted");
        assert!(!waits || since.elapsed() >= SHORT * 2, "it waited {:?}", since.elapsed());
        fetch(&provider, LEASE).await;
        fetch_work(&provider, LEASE).await;
    }
}
