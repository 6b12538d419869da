//! When aggressive polling begins and ends; and the broadcast strategy.

use std::time::Duration;

use reveille_pg::testing::TestDb;
use reveille_wake::{AggressiveOn, Strategy};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::fixture::{
    LEASE, OtherProgram, PATIENCE, briefly_polling, eventually, options, polls_ended, rechecked, start_connected,
    waiter, waiting,
};

/// Under `EveryWake` a wake-up is followed by aggressive polling, which ends by itself.
/// Sweeps are counted; after it has ended there are no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_wake_up_is_followed_by_polling_under_every_wake() {
    let db = TestDb::new().await;
    let every = reveille_wake::Options { aggressive_on: AggressiveOn::EveryWake, ..briefly_polling() };
    let jobs = start_connected(db.database(), db.schema(), every).await;
    let waits = [waiter(&jobs, "q"), waiter(&jobs, "q")];
    waiting(&jobs, 2).await;
    rechecked(&jobs).await;
    let before = jobs.claims.counts().sweeps;

    jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    eventually("aggressive polling begins", async || jobs.claims.health().polling).await;
    eventually("aggressive polling ends", async || !jobs.claims.health().polling).await;
    let sweeps = jobs.claims.counts().sweeps;
    assert!(sweeps >= before + 3, "{} sweeps are not polling", sweeps - before);
    polls_ended(&jobs).await;
    assert!(jobs.claims.counts().sweeps <= sweeps + 1, "one may have been running");

    jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    for wait in waits {
        wait.await.expect("served");
    }
}

/// Under `Faults`, the default, wake-ups and due times cause no aggressive polling.
/// Jobs now and later are served; no sweep is made, and polling never begins.
#[tokio::test(flavor = "multi_thread")]
async fn wake_ups_and_due_times_cause_no_polling_under_faults() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), briefly_polling()).await;
    rechecked(&jobs).await;
    let before = jobs.claims.counts().sweeps;
    for delay in [0, 100, 0, 200, 0] {
        let waits = waiter(&jobs, "q");
        jobs.enqueue("q", "", Duration::from_millis(delay)).await.expect("added");
        waits.await.expect("served");
        assert!(!jobs.claims.health().polling);
    }
    assert_eq!(jobs.claims.counts().sweeps, before);
}

/// A fallback that finds work means that wake-ups get lost: the consumer polls aggressively for a while.
/// A job is added without a notification.
#[tokio::test(flavor = "multi_thread")]
async fn a_fallback_that_finds_work_is_followed_by_polling() {
    let db = TestDb::new().await;
    let second = reveille_wake::Options { fallback_poll_interval: Duration::from_secs(1), ..briefly_polling() };
    let jobs = start_connected(db.database(), db.schema(), second).await;
    let waits = [waiter(&jobs, "q"), waiter(&jobs, "q")];
    // Past the sweep after the listener has connected.
    eventually("only fallbacks sweep", async || jobs.claims.counts().sweeps >= 3).await;
    let mut other = OtherProgram::of(&db).await;
    other.insert_without_notify("q").await;
    eventually("the fallback finds it", async || jobs.claims.health().waiters == 1).await;
    assert!(jobs.claims.health().polling, "{:?}", jobs.claims.counts());
    eventually("aggressive polling ends", async || !jobs.claims.health().polling).await;

    other.insert_without_notify("q").await;
    for wait in waits {
        wait.await.expect("served");
    }
}

/// A row that was written without a notification is found by the recheck a second after an earlier notification.
/// A notification is received, and then a job is added without one; there is no fallback and no aggressive polling.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_without_notification_is_found_by_the_recheck() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let waits = [waiter(&jobs, "q"), waiter(&jobs, "q")];
    waiting(&jobs, 2).await;
    let mut other = OtherProgram::of(&db).await;
    let notified = other.insert("q").await;
    eventually("the notification is received", async || jobs.claims.health().waiters == 1).await;
    let orphan = other.insert_without_notify("q").await;
    let since = Instant::now();
    let mut served = Vec::new();
    for wait in waits {
        served.push(wait.await.expect("served").id);
    }
    served.sort_unstable();
    assert_eq!(served, [notified, orphan]);
    assert!(since.elapsed() < Duration::from_secs(20), "after {:?}", since.elapsed());
    assert!(!jobs.claims.health().polling);
}

/// Under `Broadcast` every waiter polls after a wake-up, and exactly one gets the job.
/// Polls are counted; the others keep waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_wakes_every_waiter_and_serves_one() {
    const WAITERS: usize = 6;
    let db = TestDb::new().await;
    let broadcast = reveille_wake::Options { strategy: Strategy::Broadcast, ..options() };
    let jobs = start_connected(db.database(), db.schema(), broadcast).await;
    let mut waits = JoinSet::new();
    for _ in 0..WAITERS {
        let jobs = jobs.clone();
        waits.spawn(async move { jobs.claim("q", LEASE, Instant::now() + PATIENCE).await });
    }
    eventually("every waiter has polled", async || jobs.claims.counts().empty_polls >= WAITERS as u64).await;
    let before = jobs.claims.counts();
    let id = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    let first = waits.join_next().await.expect("one").expect("no panic").expect("a claim").expect("a job");
    assert_eq!(first.id, id);
    eventually("every waiter polls", async || jobs.claims.counts().polls >= before.polls + WAITERS as u64).await;
    polls_ended(&jobs).await;
    assert_eq!(jobs.claims.counts().items, before.items + 1);
    assert_eq!(jobs.claims.health().waiters, WAITERS - 1);

    for _ in 1..WAITERS {
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    }
    for wait in waits.join_all().await {
        wait.expect("a claim").expect("a job");
    }
    eventually("the groups are forgotten with their waiters", async || jobs.claims.health().groups == 0).await;
}

/// A poll that skipped a locked row is not empty: aggressive polling continues until the row is free.
/// A fault begins aggressive polling that would end after half a second; a due row is locked for three times as long.
#[tokio::test(flavor = "multi_thread")]
async fn polling_continues_while_a_due_row_is_locked() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), briefly_polling()).await;
    let (mut holder, mut other) = (OtherProgram::of(&db).await, OtherProgram::of(&db).await);
    let id = other.insert_without_notify("q").await;
    holder.run("begin; select from {schema}.job for update").await;
    let wait = waiter(&jobs, "q");
    eventually("the row is skipped", async || jobs.claims.counts().skipped_polls > 0).await;
    let listeners = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                     where application_name = 'reveille listener' and query like '%' || {schema_text} || '%'";
    eventually("the listener is killed", async || other.ask::<i64>(listeners).await > 0).await;
    eventually("aggressive polling begins", async || jobs.claims.health().polling).await;
    let since = Instant::now();
    while since.elapsed() < briefly_polling().aggressive_poll_duration * 3 {
        assert!(jobs.claims.health().polling, "after {:?}", since.elapsed());
        sleep(Duration::from_millis(20)).await;
    }
    holder.run("commit").await;
    assert_eq!(wait.await.expect("served").id, id);
    eventually("aggressive polling ends", async || !jobs.claims.health().polling).await;
}

/// A group that is woken and cannot poll in time is a fault, because that may happen again: the consumer polls
/// aggressively. The only thread is blocked when the wake-up arrives.
#[tokio::test(flavor = "current_thread")]
async fn a_late_poll_is_followed_by_polling() {
    let db = TestDb::new().await;
    let patience = Duration::from_millis(100);
    let jobs = start_connected(
        db.database(),
        db.schema(),
        reveille_wake::Options { notify_delivery_timeout: patience, ..briefly_polling() },
    )
    .await;
    let wait = waiter(&jobs, "q");
    waiting(&jobs, 1).await;
    polls_ended(&jobs).await;
    eventually("no fault is left from the start", async || !jobs.claims.health().polling).await;
    OtherProgram::of(&db).await.insert_without_notify("q").await;
    jobs.wake.wake_up(&[jobs.wake.channel("jobs", reveille_wake::Payload::Keys).wake_up_keys(["q"])]);
    std::thread::sleep(patience * 3);
    wait.await.expect("served");
    assert!(jobs.claims.health().polling);
}
