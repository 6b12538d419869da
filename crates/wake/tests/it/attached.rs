//! Writes that claim for waiters of their process in the same statement.

use std::time::Duration;

use reveille_pg::testing::TestDb;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::fixture::{
    LEASE, OtherProcess, OtherProgram, connected, eventually, options, start_as, start_connected, take, waiter, waiting,
};
use crate::jobs::{Job, Jobs};

/// A text of the statement that claims in a write, and of no other.
const AND_CLAIM: &str = "cross join lateral";

/// A job for a worker that waits is one statement: it is added and claimed together. A job for nobody is added alone.
/// The server counts the statements of this test's role. Repeated, because a worker may poll just when a job is added.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_for_a_sleeping_worker_is_one_statement() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let jobs = start_as(&role, &db, options()).await;
    connected(&jobs).await;
    let other = waiter(&jobs, "elsewhere");
    eventually("a job is claimed where it is added", async || {
        let worker = waiter(&jobs, "q");
        asleep(&jobs, 2).await;
        let id = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        let job = worker.await.expect("a job");
        assert_eq!((job.id, job.attempt), (id, 1));
        assert!(jobs.done("q", &job).await.expect("an outcome"));
        role.calls_matching(AND_CLAIM).await > 0
    })
    .await;

    let claims = role.calls_matching(AND_CLAIM).await;
    jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    jobs.enqueue("elsewhere", "", LEASE).await.expect("added");
    assert_eq!(role.calls_matching(AND_CLAIM).await, claims, "no worker waits for these now");
    other.abort();
}

/// A write claims by the rule of every claim: the job that has been due longest, not its own.
/// A notification that never arrived leaves an older job.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_claims_older_work_first() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let worker = waiter(&jobs, "q");
    asleep(&jobs, 1).await;
    let older = OtherProgram::of(&db).await.insert_without_notify("q").await;
    let newer = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    assert_eq!(worker.await.expect("a job").id, older);
    assert_eq!(take(&jobs, "q").await.id, newer);
}

/// A write that claims for a sleeping worker, and waits for a lock of another program.
struct Held {
    db: TestDb,
    jobs: Jobs,
    worker: JoinHandle<Job>,
    holder: OtherProgram,
    adding: JoinHandle<i64>,
}

impl Held {
    async fn new() -> Held {
        let db = TestDb::new().await;
        let jobs = start_connected(db.database(), db.schema(), options()).await;
        let worker = waiter(&jobs, "q");
        asleep(&jobs, 1).await;
        let mut holder = OtherProgram::of(&db).await;
        holder.run("begin; lock table {schema}.write_batch in share mode").await;
        let adding = tokio::spawn({
            let jobs = jobs.clone();
            async move { jobs.enqueue("q", "", Duration::ZERO).await.expect("added") }
        });
        until_waiting_for_lock(&db).await;
        Held { db, jobs, worker, holder, adding }
    }
}

/// Work that a write's statement claims for a worker that went away is due again at once, and its attempt is not
/// counted. The statement waits for a lock of another transaction while the worker leaves.
#[tokio::test(flavor = "multi_thread")]
async fn work_claimed_for_a_worker_that_left_is_given_back() {
    let Held { db: _db, jobs, worker, mut holder, adding } = Held::new().await;
    worker.abort();
    eventually("the worker has left", async || jobs.claims.health().waiters == 0).await;
    holder.run("commit").await;
    let id = adding.await.expect("added");
    let job = take(&jobs, "q").await;
    assert_eq!((job.id, job.attempt), (id, 1));
}

/// A write that waits for a lock does not keep its workers from other work, and its own work is not lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_write_does_not_hold_its_workers() {
    let Held { db, jobs, worker, mut holder, adding } = Held::new().await;
    let other = OtherProgram::of(&db).await.insert("q").await;
    assert_eq!(worker.await.expect("a job").id, other, "while the write still waits");
    assert!(!adding.is_finished());
    holder.run("commit").await;
    let id = adding.await.expect("added");
    let job = take(&jobs, "q").await;
    assert_eq!((job.id, job.attempt), (id, 1));
}

/// A claim that the database refuses does not fail the writes of its statement.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_claim_does_not_fail_the_write() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let worker = waiter(&jobs, "q");
    asleep(&jobs, 1).await;
    let mut other = OtherProgram::of(&db).await;
    other.run("alter function {schema}.claim rename to claim_away").await;
    let id = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    worker.await.expect_err("its own claim is refused as well");
    other.run("alter function {schema}.claim_away rename to claim").await;
    assert_eq!(take(&jobs, "q").await.id, id);
}

/// A statement that writes and claims commits durably: only a claim of its own need not wait for the disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_claims_waits_for_the_disk() {
    let db = TestDb::new().await;
    drop(start_connected(db.database(), db.schema(), options()).await);
    let mut other = OtherProgram::of(&db).await;
    for (in_write, expected) in [(true, "on"), (false, "off")] {
        other.run(&format!("begin; select {{schema}}.claim('q', 1, 1000, {in_write})")).await;
        assert_eq!(other.ask::<String>("select current_setting('synchronous_commit')").await, expected);
        other.run("commit").await;
    }
}

/// Workers of a process that only waits get their share of the work that another one writes and claims for itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_writes_leaves_work_to_others() {
    const JOBS: usize = 200;
    let db = TestDb::new().await;
    let here = start_connected(db.database(), db.schema(), options()).await;
    let there = OtherProcess::start(&db, options()).await;
    connected(&there.jobs).await;
    let mut workers = tokio::task::JoinSet::new();
    for (at, jobs) in [here.clone(), there.jobs.clone()].into_iter().enumerate() {
        for _ in 0..2 {
            let jobs = jobs.clone();
            workers.spawn(async move {
                let mut finished = 0;
                while let Some(job) = jobs.claim("q", LEASE, Instant::now() + Duration::from_secs(2)).await.expect("ok")
                {
                    assert!(jobs.done("q", &job).await.expect("an outcome"));
                    finished += 1;
                }
                (at, finished)
            });
        }
    }
    waiting(&here, 2).await;
    waiting(&there.jobs, 2).await;
    let mut adds = tokio::task::JoinSet::new();
    for _ in 0..JOBS {
        let jobs = here.clone();
        adds.spawn(async move { jobs.enqueue("q", "", Duration::ZERO).await.expect("added") });
    }
    adds.join_all().await;
    let mut finished = [0, 0];
    for (at, count) in workers.join_all().await {
        finished[at] += count;
    }
    assert_eq!(finished.iter().sum::<usize>(), JOBS);
    assert!(finished[1] > 0, "{finished:?}");
}

/// Waits until so many groups of waiters sleep.
async fn asleep(jobs: &Jobs, groups: usize) {
    eventually("the waiters sleep", async || jobs.claims.health().asleep == groups).await;
}

/// Waits until a statement of the test's schema waits for a table lock.
async fn until_waiting_for_lock(db: &TestDb) {
    let mut other = OtherProgram::of(db).await;
    let waits = "select exists (
        select from pg_locks
        where not granted and relation = to_regclass('{schema}.write_batch'))";
    eventually("a statement waits for the lock", async || other.ask::<bool>(waits).await).await;
}
