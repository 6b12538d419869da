//! Waiting costs nothing, and an open transaction of another session costs little.

use std::time::Duration;

use reveille_pg::testing::TestDb;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::fixture::{
    LEASE, OtherProgram, connected, eventually, options, rechecked, start_as, start_connected, take, waiter,
};
use crate::jobs::Jobs;

/// How long an idle queue is observed.
const WATCHED: Duration = Duration::from_secs(60);
/// Text that only the sweep statement contains. Its leading comment would be clearer, but PostgreSQL 18 omits that in
/// the statistics.
const SWEEP: &str = "with ordinality";
/// A consumer that waits comes back this often.
const COMES_BACK: Duration = Duration::from_secs(1);

/// Eight waiters in two groups that come back every second, until dropped.
fn waiters(jobs: &Jobs) -> JoinSet<()> {
    let mut waiters = JoinSet::new();
    for number in 0..8 {
        let jobs = jobs.clone();
        waiters.spawn(async move {
            let queue = if number < 4 { "a" } else { "b" };
            loop {
                let nothing = jobs.claim(queue, LEASE, Instant::now() + COMES_BACK).await.expect("a claim");
                assert!(nothing.is_none(), "no job was added");
            }
        });
    }
    waiters
}

/// Waiting sends no statement, however many waiters there are and however often they come back.
/// The server counts the statements of this test's role over a minute, with the default options.
#[tokio::test(flavor = "multi_thread")]
async fn a_minute_of_waiting_makes_no_statement() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let jobs = start_as(&role, &db, reveille_wake::Options::default()).await;
    connected(&jobs).await;
    let mut waiters = waiters(&jobs);
    eventually("both groups are known to be empty", async || jobs.claims.counts().empty_polls >= 2).await;
    rechecked(&jobs).await;

    let before = role.statements().await;
    sleep(WATCHED).await;
    assert_eq!(role.statements().await, before);
    assert!(!before.is_empty(), "statements of this role are counted");
    assert!(waiters.try_join_next().is_none(), "a waiter ended");
}

/// With a fallback every five seconds, an idle queue sends exactly that: one statement for all groups together.
/// The server counts over a minute that begins half an interval after a fallback, so that twelve fall into it.
#[tokio::test(flavor = "multi_thread")]
async fn a_minute_of_waiting_makes_the_fallbacks_statements_and_no_other() {
    let fallback = Duration::from_secs(5);
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let five = reveille_wake::Options { fallback_poll_interval: fallback, ..options() };
    let jobs = start_as(&role, &db, five).await;
    connected(&jobs).await;
    let mut waiters = waiters(&jobs);
    // The listener has just connected, which causes sweeps too; begin between two later ones.
    rechecked(&jobs).await;
    let rechecks = jobs.claims.counts().sweeps;
    eventually("a fallback", async || jobs.claims.counts().sweeps > rechecks).await;
    let begin = Instant::now() + fallback / 2;
    sleep_until(begin).await;

    let (calls, sweeps, polls) = (role.calls().await, role.calls_matching(SWEEP).await, jobs.claims.counts().polls);
    sleep_until(begin + WATCHED).await;
    let statements = role.statements().await;
    assert_eq!(role.calls_matching(SWEEP).await - sweeps, 12, "{statements:?}");
    assert_eq!(role.calls().await - calls, 12, "{statements:?}");
    assert_eq!(jobs.claims.counts().polls, polls);
    assert!(waiters.try_join_next().is_none(), "a waiter ended");
}

/// A transaction left open for a minute, holding a snapshot and one job's row, delays that job and no other.
/// Jobs are added, claimed and finished all the while; the last ten seconds are hardly slower than the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_idle_for_a_minute_delays_no_other_job() {
    const SPAN: Duration = Duration::from_secs(10);
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let (mut idle, mut other) = (OtherProgram::of(&db).await, OtherProgram::of(&db).await);
    let held = other.insert("q").await;
    let hold = format!(
        "begin isolation level repeatable read; select txid_current(); \
         select from {{schema}}.job where id = {held} for update"
    );
    idle.run(&hold).await;

    let began = Instant::now();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    while began.elapsed() < WATCHED {
        let waits = waiter(&jobs, "q");
        let since = Instant::now();
        let id = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        let job = waits.await.expect("served");
        assert_eq!(job.id, id);
        assert!(jobs.done("q", &job).await.expect("done"));
        if began.elapsed() < SPAN {
            first.push(since.elapsed());
        } else if began.elapsed() > WATCHED - SPAN {
            last.push(since.elapsed());
        }
        sleep(Duration::from_millis(20)).await;
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[times.len() / 2]
    };
    let (before, after) = (median(&mut first), median(&mut last));
    assert!(after < before * 2 + Duration::from_millis(20), "from {before:?} to {after:?}");

    idle.run("rollback").await;
    let since = Instant::now();
    assert_eq!(take(&jobs, "q").await.id, held);
    assert!(since.elapsed() < Duration::from_secs(3), "after {:?}", since.elapsed());
}
