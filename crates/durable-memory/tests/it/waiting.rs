//! Waiting for work: on tokio's paused time, where a wait that should not be takes no time and shows all the same.

use std::time::Duration;

use duroxide::providers::Provider;
use reveille_durable_memory::{Clock, MemoryProvider, Polling};
use tokio::time::Instant;

use crate::items::{LEASE, activity, fetch, fetch_work, owner, send, send_later, start};

const HOUR: Duration = Duration::from_secs(3_600);
/// tokio's timers fire at the next millisecond.
const TICK: Duration = Duration::from_millis(2);

/// Lets every task run until it waits. On a single thread one round is enough for tasks that wait for nothing else.
async fn until_waiting() {
    tokio::task::yield_now().await;
}

/// Work that arrives while a fetch waits ends the wait at once.
/// A turn and a work item are awaited for an hour, and sent when both fetches sleep; no time passes.
#[tokio::test(start_paused = true)]
async fn arriving_work_ends_the_wait() {
    let provider = MemoryProvider::new(Polling::Long);
    let began = Instant::now();
    let turn = tokio::spawn({
        let provider = provider.clone();
        async move { fetch(&provider, HOUR).await }
    });
    let work = tokio::spawn({
        let provider = provider.clone();
        async move { fetch_work(&provider, HOUR, None).await }
    });
    until_waiting().await;
    send(&provider, start("a")).await;
    provider.enqueue_for_worker(activity(1, None)).await.unwrap();
    assert!(turn.await.unwrap().is_some());
    assert!(work.await.unwrap().is_some());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// An item that is due later is returned when it is due, without a wake-up.
/// A start is sent with a delay of three seconds to a fetch that would wait an hour.
#[tokio::test(start_paused = true)]
async fn a_waiting_fetch_wakes_at_the_due_time() {
    let provider = MemoryProvider::new(Polling::Long);
    let delay = Duration::from_secs(3);
    send_later(&provider, start("a"), delay).await;
    let began = Instant::now();
    assert!(fetch(&provider, HOUR).await.is_some());
    let waited = began.elapsed();
    assert!(waited >= delay - TICK && waited <= delay + TICK, "waited {waited:?}");
}

/// The end of a lease wakes waiters, and so does the end of a session.
/// Another holds a turn, and an item of a session whose second item is free; both fetches would wait an hour.
#[tokio::test(start_paused = true)]
async fn a_waiting_fetch_wakes_when_a_lock_ends() {
    let provider = MemoryProvider::new(Polling::Long);
    send(&provider, start("a")).await;
    let began = Instant::now();
    fetch(&provider, HOUR).await.unwrap();
    assert!(fetch(&provider, HOUR).await.is_some());
    assert!(began.elapsed() >= LEASE - TICK && began.elapsed() <= LEASE + TICK, "waited {:?}", began.elapsed());

    let session = Duration::from_secs(5);
    for id in [1, 2] {
        provider.enqueue_for_worker(activity(id, Some("s"))).await.unwrap();
    }
    let began = Instant::now();
    fetch_work(&provider, HOUR, Some(&owner("one", session))).await.unwrap();
    assert!(fetch_work(&provider, HOUR, Some(&owner("two", session))).await.is_some());
    assert!(began.elapsed() >= session - TICK && began.elapsed() <= session + TICK, "waited {:?}", began.elapsed());
}

/// Moving the clock wakes waiters for a due time.
/// On a stopped clock a delayed start is never due by itself; the test moves the clock when the fetch sleeps.
#[tokio::test(start_paused = true)]
async fn moving_the_clock_ends_the_wait() {
    let provider = MemoryProvider::with_clock(Polling::Long, Clock::stopped());
    send_later(&provider, start("a"), HOUR).await;
    let turn = tokio::spawn({
        let provider = provider.clone();
        async move { fetch(&provider, 2 * HOUR).await }
    });
    until_waiting().await;
    let began = Instant::now();
    provider.clock().advance(HOUR);
    assert!(turn.await.unwrap().is_some());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// Losing a race is no reason to return: the runtime would sleep before it asks again.
/// Two fetches wait for one start; the loser is given the second start, a minute later.
#[tokio::test(start_paused = true)]
async fn the_loser_of_a_race_continues_to_wait() {
    let provider = MemoryProvider::new(Polling::Long);
    let wait = || {
        let provider = provider.clone();
        tokio::spawn(async move { fetch(&provider, HOUR).await.map(|(item, ..)| item.instance) })
    };
    let (one, two) = (wait(), wait());
    until_waiting().await;
    send(&provider, start("a")).await;
    until_waiting().await;
    assert_eq!([&one, &two].iter().filter(|task| task.is_finished()).count(), 1, "one start, one winner");
    send(&provider, start("b")).await;
    let mut instances = [one.await.unwrap().unwrap(), two.await.unwrap().unwrap()];
    instances.sort_unstable();
    assert_eq!(instances, ["a", "b"]);
}

/// A fetch that was dropped while it waited has taken nothing with it.
/// A waiting fetch is aborted, then a start arrives, and the next fetch has it as its first claim.
#[tokio::test(start_paused = true)]
async fn a_dropped_fetch_holds_nothing() {
    let provider = MemoryProvider::new(Polling::Long);
    let dropped = tokio::spawn({
        let provider = provider.clone();
        async move { fetch(&provider, HOUR).await }
    });
    until_waiting().await;
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    send(&provider, start("a")).await;
    let (_, _, attempts) = fetch(&provider, Duration::ZERO).await.unwrap();
    assert_eq!(attempts, 1);
}

/// Without waiting, an empty fetch returns at once; with it, after its patience and no later.
/// Both kinds fetch from an empty store with a patience of a second.
#[tokio::test(start_paused = true)]
async fn only_waiting_fetches_use_the_poll_timeout() {
    let patience = Duration::from_secs(1);
    for (polling, expected) in [(Polling::Short, Duration::ZERO), (Polling::Long, patience)] {
        let provider = MemoryProvider::new(polling);
        let began = Instant::now();
        assert!(fetch(&provider, patience).await.is_none());
        assert!(fetch_work(&provider, Duration::ZERO, None).await.is_none());
        let waited = began.elapsed();
        assert!(waited >= expected && waited <= expected + TICK, "{polling:?} waited {waited:?}");
    }
}
