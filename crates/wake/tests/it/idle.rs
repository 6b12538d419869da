//! Waiting costs nothing, and an open transaction of another session costs little.

use std::time::Duration;

use reveille_pg::testing::TestDb;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::fixture::{
    LEASE, OtherProgram, connected, eventually, options, rechecked, start_as, start_connected, take, waiter,
};
use crate::jobs::Jobs;

/// How long an idle queue is observed: many times the intervals below, as a minute is with the default ones.
const WATCHED: Duration = Duration::from_secs(10);
/// How often the listener checks its connection.
const HEARTBEAT: Duration = Duration::from_secs(2);
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
/// The server counts the statements of this test's role, with the default options and more frequent heartbeats.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_sends_no_statement() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let frequent = reveille_wake::Options { heartbeat_interval: HEARTBEAT, ..reveille_wake::Options::default() };
    let jobs = start_as(&role, &db, frequent).await;
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

/// With a fallback every second, an idle queue sends exactly that: one statement for all groups together.
/// The server counts over ten intervals that begin half an interval after a fallback; on a busy machine fewer fall into
/// them.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_sends_the_fallbacks_statements_and_no_other() {
    let fallback = Duration::from_secs(1);
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let every_second =
        reveille_wake::Options { fallback_poll_interval: fallback, heartbeat_interval: HEARTBEAT, ..options() };
    let jobs = start_as(&role, &db, every_second).await;
    connected(&jobs).await;
    let mut waiters = waiters(&jobs);
    // The listener has just connected, which causes sweeps too; begin between two later ones.
    rechecked(&jobs).await;
    let rechecks = jobs.claims.counts().sweeps;
    eventually("a fallback", async || jobs.claims.counts().sweeps > rechecks).await;
    let begin = Instant::now() + fallback / 2;
    sleep_until(begin).await;

    let (before, polls) = (role.statements().await, jobs.claims.counts().polls);
    sleep_until(begin + WATCHED).await;
    let after = role.statements().await;
    let calls = |of: &[(String, i64)]| of.iter().map(|(_, calls)| calls).sum::<i64>();
    let is_sweep = |(statement, _): &&(String, i64)| statement.contains(SWEEP);
    let sweeps = |of: &[(String, i64)]| of.iter().filter(is_sweep).map(|(_, calls)| calls).sum::<i64>();
    let fallbacks = sweeps(&after) - sweeps(&before);
    let most = begin.elapsed().as_secs() as i64 + 1;
    assert!((5..=most).contains(&fallbacks), "{fallbacks} fallbacks: {after:?}");
    assert_eq!(calls(&after) - calls(&before), fallbacks, "{after:?}");
    assert_eq!(jobs.claims.counts().polls, polls);
    assert!(waiters.try_join_next().is_none(), "a waiter ended");
}

/// A transaction left open, holding a snapshot and one job's row, delays that job and no other.
/// As many jobs are added, claimed and finished as a minute has at a moderate rate; the last are hardly slower than the
/// first.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_transaction_delays_no_other_job() {
    const JOBS: usize = 1_500;
    const COMPARED: usize = JOBS / 6;
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let (mut idle, mut other) = (OtherProgram::of(&db).await, OtherProgram::of(&db).await);
    let held = other.insert("q").await;
    let hold = format!(
        "begin isolation level repeatable read; select txid_current(); \
         select from {{schema}}.job where id = {held} for update"
    );
    idle.run(&hold).await;

    let mut times = Vec::new();
    for _ in 0..JOBS {
        let waits = waiter(&jobs, "q");
        let since = Instant::now();
        let id = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        let job = waits.await.expect("served");
        assert_eq!(job.id, id);
        assert!(jobs.done("q", &job).await.expect("done"));
        times.push(since.elapsed());
    }
    let median = |times: &mut [Duration]| {
        times.sort();
        times[times.len() / 2]
    };
    let (before, after) = (median(&mut times[..COMPARED]), median(&mut times[JOBS - COMPARED..]));
    assert!(after < before * 2 + Duration::from_millis(20), "from {before:?} to {after:?}");

    idle.run("rollback").await;
    let since = Instant::now();
    assert_eq!(take(&jobs, "q").await.id, held);
    assert!(since.elapsed() < Duration::from_secs(20), "after {:?}", since.elapsed());
}
