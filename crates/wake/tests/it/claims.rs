//! Claims that die and waiters that go away: their items reach another waiter.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reveille_pg::testing::TestDb;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::fixture::{
    LEASE, OtherProgram, PATIENCE, eventually, options, polls_ended, start_connected, take, waiter, waiting,
};

/// A claim that locks a due row and dies sends no notification; polls are repeated until the row is free.
/// Another program holds the row until the pauses between polls have grown to the longest, and is ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_whose_claimer_died_is_picked_up_within_a_second() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let (mut dying, mut other) = (OtherProgram::of(&db).await, OtherProgram::of(&db).await);
    let id = other.insert("q").await;
    dying.run(&format!("begin; select from {{schema}}.job where id = {id} for update")).await;
    let waits = waiter(&jobs, "q");
    let held = Instant::now();
    eventually("polls skip the row", async || jobs.claims.counts().skipped_polls >= 8).await;
    // The pauses double from 10 ms; other reasons to poll may shorten a few of them.
    assert!(held.elapsed() > Duration::from_millis(300), "eight polls in {:?} are too many", held.elapsed());

    let end = format!("select pg_terminate_backend({})", dying.backend().await);
    other.run(&end).await;
    let died = Instant::now();
    assert_eq!(waits.await.expect("served").id, id);
    assert!(died.elapsed() < Duration::from_secs(5), "after {:?}", died.elapsed());
}

/// Items of waiters that went away do not stay leased, and their attempts are not counted.
/// Waiters are dropped at random moments while jobs arrive; every job is done soon, at its first attempt.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_that_go_away_at_any_moment_lose_no_item() {
    const JOBS: usize = 400;
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let done = Arc::new(Mutex::new(HashSet::new()));
    let mut workers = JoinSet::new();
    for _ in 0..20 {
        let (jobs, done) = (jobs.clone(), done.clone());
        workers.spawn(async move {
            while done.lock().expect("no panic").len() < JOBS {
                let patience = Duration::from_micros(fastrand::u64(0..4_000));
                let claim = jobs.claim("q", LEASE, Instant::now() + PATIENCE);
                let Ok(claimed) = timeout(patience, claim).await else { continue };
                let Some(job) = claimed.expect("a claim") else { continue };
                assert_eq!(job.attempt, 1, "job {} counted an attempt of a waiter that went away", job.id);
                assert!(jobs.done("q", &job).await.expect("done"));
                done.lock().expect("no panic").insert(job.id);
            }
        });
    }
    let mut added = HashSet::new();
    for _ in 0..JOBS {
        added.insert(jobs.enqueue("q", "", Duration::ZERO).await.expect("added"));
    }
    let all = async { while workers.join_next().await.transpose().expect("no worker panics").is_some() {} };
    let in_time = timeout(PATIENCE, all).await;
    let done = done.lock().expect("no panic");
    assert!(in_time.is_ok(), "{} of {JOBS} done, counts {:?}", done.len(), jobs.claims.counts());
    assert_eq!(*done, added);
    assert!(jobs.claims.counts().given_back > 0, "no waiter went away with an item");
    assert_eq!(jobs.claims.health().waiters, 0);
}

/// Tests that measure time run alone.
mod alone {
    use super::*;

    /// Claimed items whose waiter is gone are with another waiter within 50 ms, as if they had never been claimed.
    /// The median of several times, from dropping the claim to its delivery to the other waiter.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_dropped_waiters_item_reaches_another_within_50_ms() {
        const ROUNDS: usize = 21;
        let db = TestDb::new().await;
        let jobs = start_connected(db.database(), db.schema(), options()).await;
        let mut took = Vec::new();
        for _ in 0..ROUNDS {
            let id = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
            let claimed = jobs.claims.claim("q".to_owned(), 1, LEASE, Instant::now() + PATIENCE).await;
            let claimed = claimed.expect("a claim").expect("a job");
            let other = waiter(&jobs, "q");
            eventually("the other waits", async || jobs.claims.health().waiters == 1).await;
            sleep(Duration::from_millis(10)).await;

            let dropped = Instant::now();
            drop(claimed);
            let job = other.await.expect("served");
            took.push(dropped.elapsed());
            assert_eq!((job.id, job.attempt), (id, 1));
            assert!(jobs.done("q", &job).await.expect("done"));
        }
        took.sort();
        assert!(took[ROUNDS / 2] < Duration::from_millis(50), "{took:?}");
    }

    /// The end of a lease is a due time like any other: another worker then gets the job of one that died.
    /// A lease of a second, claimed and forgotten; the next claim waits for its end and no longer.
    #[tokio::test(flavor = "multi_thread")]
    async fn the_end_of_a_lease_is_on_time() {
        let db = TestDb::new().await;
        let jobs = start_connected(db.database(), db.schema(), options()).await;
        let id = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        let lease = Duration::from_secs(1);
        let lost = jobs.claim("q", lease, Instant::now() + PATIENCE).await.expect("a claim").expect("a job");
        let claimed = Instant::now();
        let job = take(&jobs, "q").await;
        let late = claimed.elapsed().saturating_sub(lease);
        assert_eq!((lost.id, job.id, job.attempt), (id, id, 2));
        assert!(claimed.elapsed() > lease / 2 && late < Duration::from_millis(200), "{late:?} late");
        assert!(!jobs.done("q", &lost).await.expect("an old token"));
    }

    /// A waiter beside a worker that claims a job and dies gets the job when its lease ends, without a wake-up.
    /// Two wait in one group with a lease of a second each; one job comes, and the one that gets it forgets it.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_waiter_beside_a_dead_worker_has_its_job_when_the_lease_ends() {
        let db = TestDb::new().await;
        let jobs = start_connected(db.database(), db.schema(), options()).await;
        let lease = Duration::from_secs(1);
        let mut waits = JoinSet::new();
        for _ in 0..2 {
            let jobs = jobs.clone();
            waits.spawn(async move { jobs.claim("q", lease, Instant::now() + PATIENCE).await });
        }
        waiting(&jobs, 2).await;
        polls_ended(&jobs).await;
        let id = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        for attempt in [1, 2] {
            let job = waits.join_next().await.expect("a waiter").expect("alive").expect("a claim").expect("a job");
            assert_eq!((job.id, job.attempt), (id, attempt));
        }
    }
}
