//! When a consumer polls, and when it stops; and waking everybody.

use std::time::Duration;

use pg::testing::TestDb;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use wake::{AggressiveOn, Strategy};

use crate::fixture::{
    LEASE, PATIENCE, Stranger, briefly_polling, eventually, options, settled, start_connected, undoubted, waiter,
    waiting,
};

/// Under `EveryWake` a ring is followed by a while of polling, which ends by itself.
/// Sweeps are counted; after polling has ended there are no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_ring_is_followed_by_polling_under_every_wake() {
    let db = TestDb::new().await;
    let every = wake::Options { aggressive_on: AggressiveOn::EveryWake, ..briefly_polling() };
    let jobs = start_connected(db.database(), db.schema(), every).await;
    let waits = [waiter(&jobs, "q"), waiter(&jobs, "q")];
    waiting(&jobs, 2).await;
    undoubted(&jobs).await;
    let before = jobs.claims.counts().sweeps;

    jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    eventually("it polls", async || jobs.claims.health().polling).await;
    eventually("polling ends", async || !jobs.claims.health().polling).await;
    let sweeps = jobs.claims.counts().sweeps;
    assert!(sweeps >= before + 3, "{} sweeps are not polling", sweeps - before);
    settled(&jobs).await;
    assert!(jobs.claims.counts().sweeps <= sweeps + 1, "one may have been under way");

    jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    for wait in waits {
        wait.await.expect("served");
    }
}

/// Under `Faults`, the default, rings and due times cost no poll at all.
/// Jobs now and later are served; no sweep is made, and polling never begins.
#[tokio::test(flavor = "multi_thread")]
async fn rings_and_due_times_are_no_reason_to_poll_under_faults() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), briefly_polling()).await;
    undoubted(&jobs).await;
    let before = jobs.claims.counts().sweeps;
    for delay in [0, 100, 0, 200, 0] {
        let waits = waiter(&jobs, "q");
        jobs.enqueue("q", "", Duration::from_millis(delay)).await.expect("added");
        waits.await.expect("served");
        assert!(!jobs.claims.health().polling);
    }
    assert_eq!(jobs.claims.counts().sweeps, before);
}

/// A fallback that finds work means that rings get lost: the consumer polls, until that has proved needless.
/// A job is added as a sender leaves it that dies before it rings.
#[tokio::test(flavor = "multi_thread")]
async fn a_fallback_that_finds_work_is_followed_by_polling() {
    let db = TestDb::new().await;
    let second = wake::Options { fallback_poll_interval: Duration::from_secs(1), ..briefly_polling() };
    let jobs = start_connected(db.database(), db.schema(), second).await;
    let waits = [waiter(&jobs, "q"), waiter(&jobs, "q")];
    // Past the sweep that is made because the listener has just begun to hear.
    eventually("only fallbacks sweep", async || jobs.claims.counts().sweeps >= 3).await;
    let mut stranger = Stranger::of(&db).await;
    stranger.insert_unheard("q").await;
    eventually("the fallback finds it", async || jobs.claims.health().waiters == 1).await;
    assert!(jobs.claims.health().polling, "{:?}", jobs.claims.counts());
    eventually("polling ends", async || !jobs.claims.health().polling).await;

    stranger.insert_unheard("q").await;
    for wait in waits {
        wait.await.expect("served");
    }
}

/// A row that an unheard sender left behind is found by the look that follows every ring from elsewhere a second later.
/// A ring is heard, and then a job is added without one; there is no fallback and no polling.
#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_is_found_by_the_trailing_look() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let waits = [waiter(&jobs, "q"), waiter(&jobs, "q")];
    waiting(&jobs, 2).await;
    let mut stranger = Stranger::of(&db).await;
    let rung = stranger.insert("q").await;
    eventually("the ring is heard", async || jobs.claims.health().waiters == 1).await;
    let orphan = stranger.insert_unheard("q").await;
    let since = Instant::now();
    let mut served = Vec::new();
    for wait in waits {
        served.push(wait.await.expect("served").id);
    }
    served.sort_unstable();
    assert_eq!(served, [rung, orphan]);
    assert!(since.elapsed() < Duration::from_secs(4), "after {:?}", since.elapsed());
    assert!(!jobs.claims.health().polling);
}

/// Under `Broadcast` every waiter looks when something rings, and exactly one gets it.
/// Looks are counted; the others wait on.
#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_wakes_everybody_and_serves_one() {
    const WAITERS: usize = 6;
    let db = TestDb::new().await;
    let broadcast = wake::Options { strategy: Strategy::Broadcast, ..options() };
    let jobs = start_connected(db.database(), db.schema(), broadcast).await;
    let mut waits = JoinSet::new();
    for _ in 0..WAITERS {
        let jobs = jobs.clone();
        waits.spawn(async move { jobs.claim("q", LEASE, Instant::now() + PATIENCE).await });
    }
    eventually("everybody has looked", async || jobs.claims.counts().empty_polls >= WAITERS as u64).await;
    let before = jobs.claims.counts();
    let id = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    let first = waits.join_next().await.expect("one").expect("no panic").expect("a claim").expect("a job");
    assert_eq!(first.id, id);
    eventually("everybody looks", async || jobs.claims.counts().polls >= before.polls + WAITERS as u64).await;
    settled(&jobs).await;
    assert_eq!(jobs.claims.counts().items, before.items + 1);
    assert_eq!(jobs.claims.health().waiters, WAITERS - 1);

    for _ in 1..WAITERS {
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    }
    for wait in waits.join_all().await {
        wait.expect("a claim").expect("a job");
    }
    eventually("a waiter's group goes with it", async || jobs.claims.health().groups == 0).await;
}

/// A look that skipped a locked row has not shown that there is nothing: polling goes on until the row is let go.
/// A fault begins polling that would end after half a second; a due row is held for three times as long.
#[tokio::test(flavor = "multi_thread")]
async fn polling_does_not_end_over_a_row_that_somebody_holds() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), briefly_polling()).await;
    let (mut holder, mut stranger) = (Stranger::of(&db).await, Stranger::of(&db).await);
    let id = stranger.insert_unheard("q").await;
    holder.run("begin; select from {schema}.job for update").await;
    let wait = waiter(&jobs, "q");
    eventually("the row is skipped", async || jobs.claims.counts().skipped_polls > 0).await;
    let listeners = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                     where application_name = 'reveille listener' and query like '%' || {schema_text} || '%'";
    eventually("the listener is killed", async || stranger.ask::<i64>(listeners).await > 0).await;
    eventually("it polls", async || jobs.claims.health().polling).await;
    let since = Instant::now();
    while since.elapsed() < briefly_polling().aggressive_poll_duration * 3 {
        assert!(jobs.claims.health().polling, "after {:?}", since.elapsed());
        sleep(Duration::from_millis(20)).await;
    }
    holder.run("commit").await;
    assert_eq!(wait.await.expect("served").id, id);
    eventually("polling ends", async || !jobs.claims.health().polling).await;
}

/// A waiter that is rung and cannot look in time is a fault: whatever kept it may keep it again, so the consumer polls.
/// The only thread is busy while the ring is there to be answered.
#[tokio::test(flavor = "current_thread")]
async fn a_late_look_is_followed_by_polling() {
    let db = TestDb::new().await;
    let patience = Duration::from_millis(100);
    let jobs = start_connected(
        db.database(),
        db.schema(),
        wake::Options { notify_delivery_timeout: patience, ..briefly_polling() },
    )
    .await;
    let wait = waiter(&jobs, "q");
    waiting(&jobs, 1).await;
    settled(&jobs).await;
    eventually("no fault of the start is left", async || !jobs.claims.health().polling).await;
    Stranger::of(&db).await.insert_unheard("q").await;
    jobs.wake.wake_up(&[jobs.wake.channel("jobs", wake::Payload::Keys).wake_up_keys(["q"])]);
    std::thread::sleep(patience * 3);
    wait.await.expect("served");
    assert!(jobs.claims.health().polling);
}
