//! Fetches that are dropped at any time: the work claimed for them is available at once, and is not charged.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use duroxide::providers::{Provider, TagFilter};
use reveille_durable::PostgresProvider;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{LEASE, PATIENCE, connected};
use crate::calls::{Done, ack, activity, fetch, fetch_work, identity, send, send_work, start};
use crate::fixture::Fixture;

/// How soon "at once" is on a busy machine: far below [`LEASE`], and below the pauses of any polling.
const AT_ONCE: Duration = Duration::from_secs(5);
/// More awaits than a fetch has when there is something to fetch.
const POLLS_MAX: usize = 200;

/// Polls a future so often, each time it asks to be, and then drops it. `None`: it was dropped.
async fn polled<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut left = times;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

/// A fetch of a turn dropped at its first await, its second, and so on to its last: the turn comes to the next fetch at
/// once, as its first attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_a_dropped_fetch_is_available_at_once() {
    let Fixture { db: _db, provider } = Fixture::new().await;
    connected(&provider).await;
    for times in 0..POLLS_MAX {
        let instance = format!("i-{times}");
        send(&provider, start(&instance, "")).await;
        let fetched = polled(provider.fetch_orchestration_item(LEASE, PATIENCE, None), times).await;
        let is_last = fetched.is_some();
        let (item, token, attempt) = match fetched {
            Some(fetched) => fetched.expect("a fetch").expect("a turn"),
            None => timeout(AT_ONCE, fetch(&provider, LEASE)).await.expect("it comes at once"),
        };
        assert_eq!((item.instance.as_str(), attempt), (instance.as_str(), 1), "dropped after {times} polls");
        ack(&provider, &token, Done::first(&instance, "")).await.expect("the lease is fresh");
        if is_last {
            assert!(times > 1, "it was never dropped");
            return;
        }
    }
    panic!("a fetch took more than {POLLS_MAX} polls");
}

/// The same for activities.
#[tokio::test(flavor = "multi_thread")]
async fn an_activity_of_a_dropped_fetch_is_available_at_once() {
    let Fixture { db: _db, provider } = Fixture::new().await;
    connected(&provider).await;
    for times in 0..POLLS_MAX {
        send_work(&provider, activity("i", times as u64)).await;
        let fetching = provider.fetch_work_item(LEASE, PATIENCE, None, &TagFilter::DefaultOnly);
        let fetched = polled(fetching, times).await;
        let is_last = fetched.is_some();
        let (work, token, attempt) = match fetched {
            Some(fetched) => fetched.expect("a fetch").expect("an activity"),
            None => timeout(AT_ONCE, fetch_work(&provider, LEASE)).await.expect("it comes at once"),
        };
        assert_eq!((identity(&work), attempt), (("i", times as u64), 1), "dropped after {times} polls");
        provider.ack_work_item(&token, None).await.expect("the lease is fresh");
        if is_last {
            assert!(times > 1, "it was never dropped");
            return;
        }
    }
    panic!("a fetch took more than {POLLS_MAX} polls");
}

/// Fetches that are dropped at random times while work arrives lose nothing, and charge nothing.
async fn give_up_at_random<F>(provider: PostgresProvider, count: usize, take: fn(PostgresProvider, Duration) -> F)
where
    F: Future<Output = Option<String>> + Send + 'static,
{
    let done: Arc<Mutex<HashSet<String>>> = Arc::default();
    let mut takers = JoinSet::new();
    for _ in 0..10 {
        let (provider, done) = (provider.clone(), done.clone());
        takers.spawn(async move {
            while done.lock().expect("no panic").len() < count {
                let patience = Duration::from_micros(fastrand::u64(0..8_000));
                if let Some(name) = take(provider.clone(), patience).await {
                    assert!(done.lock().expect("no panic").insert(name.clone()), "{name} was had twice");
                }
            }
        });
    }
    let since = Instant::now();
    let all = async { while takers.join_next().await.transpose().expect("no taker panics").is_some() {} };
    assert!(timeout(PATIENCE, all).await.is_ok(), "{} of {count} done", done.lock().expect("no panic").len());
    assert!(since.elapsed() < LEASE);
}

/// Turns: each is had once, at its first attempt.
#[tokio::test(flavor = "multi_thread")]
async fn no_turn_is_lost_with_fetches_that_give_up_at_random() {
    const TURNS: usize = 100;
    let Fixture { db: _db, provider } = Fixture::new().await;
    connected(&provider).await;
    for number in 0..TURNS {
        send(&provider, start(&format!("i-{number}"), "")).await;
    }
    give_up_at_random(provider, TURNS, |provider, patience| async move {
        let fetching = provider.fetch_orchestration_item(LEASE, PATIENCE, None);
        let (item, token, attempt) = timeout(patience, fetching).await.ok()?.expect("a fetch")?;
        assert_eq!(attempt, 1, "{} was charged for a fetch that was dropped", item.instance);
        ack(&provider, &token, Done::first(&item.instance, "")).await.expect("the lease is fresh");
        Some(item.instance)
    })
    .await;
}

/// Activities: each is had once, at its first attempt.
#[tokio::test(flavor = "multi_thread")]
async fn no_activity_is_lost_with_fetches_that_give_up_at_random() {
    const ACTIVITIES: usize = 100;
    let Fixture { db: _db, provider } = Fixture::new().await;
    connected(&provider).await;
    for number in 0..ACTIVITIES {
        send_work(&provider, activity("i", number as u64)).await;
    }
    give_up_at_random(provider, ACTIVITIES, |provider, patience| async move {
        let fetching = provider.fetch_work_item(LEASE, PATIENCE, None, &TagFilter::DefaultOnly);
        let (work, token, attempt) = timeout(patience, fetching).await.ok()?.expect("a fetch")?;
        assert_eq!(attempt, 1, "{work:?} was charged for a fetch that was dropped");
        provider.ack_work_item(&token, None).await.expect("the lease is fresh");
        Some(identity(&work).1.to_string())
    })
    .await;
}
