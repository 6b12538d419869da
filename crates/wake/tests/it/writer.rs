//! Writes that are sent in batches and must not affect each other.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use reveille_pg::testing::{PrivateCluster, TestDb};
use reveille_pg::{Database, Migrator, Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, Error, Wake, WakeUp, WriteBatch, Writer, WriterOptions};
use sqlx::PgConnection;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::fixture::{LEASE, OtherProgram, PATIENCE, eventually, options, start, start_connected, take};
use crate::jobs::{Job, Jobs};

/// A write that the database refuses fails alone, with the reason; the others of its batch happen.
/// One of fifty bodies contains a character that PostgreSQL cannot store.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_write_fails_alone() {
    let db = TestDb::new().await;
    let jobs = start(db.database(), db.schema(), options()).await;
    let mut adds = JoinSet::new();
    for number in 0..50 {
        let jobs = jobs.clone();
        let body = if number == 25 { "a \0 in the middle".to_owned() } else { number.to_string() };
        adds.spawn(async move { (number, jobs.enqueue("q", &body, Duration::ZERO).await) });
    }
    for (number, added) in adds.join_all().await {
        match added {
            Ok(_) => assert_ne!(number, 25),
            Err(error) => {
                assert_eq!(number, 25, "{error}");
                assert!(matches!(&error, Error::Refused { .. }) && !error.is_transient(), "{error}");
            }
        }
    }
    assert_eq!(OtherProgram::of(&db).await.jobs().await, 49);
}

async fn some_jobs(jobs: &Jobs, count: usize) -> Vec<Job> {
    let mut adds = JoinSet::new();
    for _ in 0..count {
        let jobs = jobs.clone();
        adds.spawn(async move { jobs.enqueue("q", "", Duration::ZERO).await.expect("added") });
    }
    adds.join_all().await;
    let mut some = Vec::new();
    while some.len() < count {
        let claimed = jobs.claims.claim("q".to_owned(), count, LEASE, Instant::now() + PATIENCE).await;
        some.extend(claimed.expect("a claim").expect("jobs").accept());
    }
    some
}

/// A write whose row is locked waits for it alone; the others of its batch do not.
/// Ten jobs are finished while another transaction holds one of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_row_delays_only_its_own_write() {
    let db = TestDb::new().await;
    let jobs = start(db.database(), db.schema(), options()).await;
    let mut some = some_jobs(&jobs, 10).await;
    let locked = some.remove(4);
    let mut holder = OtherProgram::of(&db).await;
    holder.run(&format!("begin; select from {{schema}}.job where id = {} for update", locked.id)).await;

    let mut held = tokio::spawn({
        let jobs = jobs.clone();
        async move { jobs.done("q", &locked).await }
    });
    let mut free = JoinSet::new();
    for job in some {
        let jobs = jobs.clone();
        free.spawn(async move { jobs.done("q", &job).await });
    }
    let free = timeout(Duration::from_secs(5), free.join_all()).await.expect("the others do not wait for the lock");
    assert!(free.into_iter().all(|done| done.expect("an outcome")));
    timeout(Duration::from_millis(300), &mut held).await.expect_err("it waits for the lock");
    holder.run("commit").await;
    assert!(held.await.expect("no panic").expect("an outcome"));
    assert_eq!(OtherProgram::of(&db).await.jobs().await, 0);
}

/// A write whose caller went away happens all the same.
/// The future is dropped after its first poll.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_caller_went_away_happens() {
    let db = TestDb::new().await;
    let jobs = start(db.database(), db.schema(), options()).await;
    for expected in 1..=20 {
        tokio::select! {
            biased;
            _ = jobs.enqueue("q", "", Duration::ZERO) => {}
            () = std::future::ready(()) => {}
        }
        let mut other = OtherProgram::of(&db).await;
        eventually("the job is there", async || other.jobs().await == expected).await;
    }
}

/// Two processes that finish the same jobs in opposite order never deadlock, and each token is valid once.
/// Many rounds on a server of their own, whose count of deadlocks stays zero.
#[tokio::test(flavor = "multi_thread")]
async fn batches_over_the_same_rows_in_opposite_order_do_not_deadlock() {
    const JOBS: usize = 200;
    let Some(cluster) = PrivateCluster::start().await else { return };
    let schema = Schema::new("jobs").expect("a name");
    let pool = || Database::connect_lazy(cluster.url(), reveille_pg::Options::default()).expect("a pool");
    sqlx::query("create schema jobs").execute(pool().pool()).await.expect("create the schema");
    let (here, there) = (start(&pool(), &schema, options()).await, start(&pool(), &schema, options()).await);
    for _ in 0..10 {
        let some = std::sync::Arc::new(some_jobs(&here, JOBS).await);
        let mut calls = JoinSet::new();
        for place in 0..JOBS {
            for (jobs, place) in [(here.clone(), place), (there.clone(), JOBS - 1 - place)] {
                let some = some.clone();
                calls.spawn(async move { (some[place].id, jobs.done("q", &some[place]).await.expect("an outcome")) });
            }
        }
        let mut finished: Vec<i64> =
            calls.join_all().await.into_iter().filter(|(_, ours)| *ours).map(|(id, _)| id).collect();
        finished.sort_unstable();
        let mut all: Vec<i64> = some.iter().map(|job| job.id).collect();
        all.sort_unstable();
        assert_eq!(finished, all, "exactly one call finishes each");
    }
    let mut other = OtherProgram::connect(cluster.url(), &schema).await;
    assert_eq!(other.jobs().await, 0);
    // A session reports a deadlock at once; other statistics may be late.
    let deadlocks: i64 = other.ask("select deadlocks from pg_stat_database where datname = current_database()").await;
    assert_eq!(deadlocks, 0);
}

/// A number whose batch panics.
pub(crate) const PANICS: i64 = -1;
/// A number whose outcome cannot be decoded.
const UNREADABLE: i64 = -2;

/// Marks numbers, slowly.
pub(crate) struct Marks(Sql);

impl BatchedWrite for Marks {
    type Write = i64;
    type Key = i64;
    type Outcome = i64;
    const RECORDS_OUTCOMES: bool = true;

    fn key(&self, number: &i64) -> i64 {
        *number
    }

    fn wake_ups(&self, _: &i64, _: Option<&i64>) -> Vec<WakeUp> {
        Vec::new()
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, i64>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let numbers: Vec<i64> = batch.writes.iter().map(|number| **number).collect();
        assert!(!numbers.contains(&PANICS), "a batch of a test");
        batch.result(self, &batch.query(&self.0).bind(numbers).fetch_one(conn).await?)
    }

    fn decode(&self, number: &i64, text: &str) -> Option<i64> {
        if *number == UNREADABLE { None } else { text.parse().ok() }
    }
}

/// A writer of marks, on `through`, which connects to the server of `db`.
pub(crate) async fn marks(db: &TestDb, through: &Database, options: WriterOptions) -> Writer<Marks> {
    Migrator::new(db.schema(), vec![Wake::component()]).run(db.database()).await.expect("create the tables");
    let wake = Wake::start(through, db.schema(), crate::fixture::options());
    OtherProgram::of(db).await.run("create table {schema}.mark (number bigint primary key)").await;
    let sql = "with slow as materialized (select pg_sleep(0.3)), marked as ( \
                 insert into {schema}.mark \
                 select number from slow, unnest($5::bigint[]) as given (number) returning number) \
               select outcomes, {schema}.finish_batch($1, outcomes, $2, $3) from ( \
                 select array_agg(number::text order by number) as outcomes \
                 from marked where $4 is not null) as batch";
    wake.writer("marks", Marks(db.schema().sql(sql)), options)
}

/// Waits until a batch of marks is running.
pub(crate) async fn batch_is_running(db: &TestDb) {
    let sleeping = "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and position($1 in query) > 0";
    eventually("a batch is running", async || {
        let asked = sqlx::query_scalar::<_, i64>(sleeping).bind(db.schema().name());
        asked.fetch_one(db.database().pool()).await.expect("ask") == 1
    })
    .await;
}

/// An outcome that cannot be decoded is an error for its own write only, and the write is not sent again.
/// Three writes in one batch, behind a slow one; the outcome of one of them is unreadable. All rows exist once.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_outcome_is_unknown_to_its_own_write_only() {
    let db = TestDb::new().await;
    let marks = marks(&db, db.database(), WriterOptions::default()).await;
    let first = tokio::spawn({
        let marks = marks.clone();
        async move { marks.submit(0).await }
    });
    batch_is_running(&db).await;
    let (one, unreadable, two) = tokio::join!(marks.submit(1), marks.submit(UNREADABLE), marks.submit(2));
    assert_eq!(first.await.expect("no panic").expect("an outcome"), 0);
    assert_eq!((one.expect("an outcome"), two.expect("an outcome")), (1, 2));
    assert!(matches!(unreadable, Err(Error::Unknown { .. })), "{unreadable:?}");
    let rows: i64 = OtherProgram::of(&db).await.ask("select count(*) from {schema}.mark").await;
    assert_eq!(rows, 4);
}

/// Closing waits for the outcome of every admitted write and rejects new ones.
/// Three slow batches are in progress; when closing has returned, all their rows exist and all callers have their
/// outcome.
#[tokio::test(flavor = "multi_thread")]
async fn closing_waits_for_every_outcome() {
    let db = TestDb::new().await;
    let marks = marks(&db, db.database(), WriterOptions { max_writes: 2, ..WriterOptions::default() }).await;
    let mut callers = JoinSet::new();
    let admitted = Arc::new(Semaphore::new(0));
    for number in 0..6 {
        let (marks, admitted) = (marks.clone(), admitted.clone());
        callers.spawn(async move {
            let mut submitted = pin!(marks.submit(number));
            // It is admitted when it is first polled.
            let first = poll_fn(|cx| Poll::Ready(submitted.as_mut().poll(cx))).await;
            admitted.add_permits(1);
            match first {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => submitted.await,
            }
        });
    }
    // The first batch is running, and the other writes are admitted.
    batch_is_running(&db).await;
    drop(admitted.acquire_many(6).await.expect("all are admitted"));
    marks.close().await;
    let marked: i64 = OtherProgram::of(&db).await.ask("select count(*) from {schema}.mark").await;
    assert_eq!(marked, 6);
    let mut outcomes = Vec::new();
    for outcome in callers.join_all().await {
        outcomes.push(outcome.expect("an outcome"));
    }
    outcomes.sort_unstable();
    assert_eq!(outcomes, [0, 1, 2, 3, 4, 5]);
    let late = marks.submit(7).await.expect_err("closed");
    assert!(matches!(&late, Error::Closed { what } if &**what == "marks"), "{late}");
}

/// Writes submitted while a batch is being sent go into the next: many writes, few batches.
/// A hundred slow writes at once take the time of two or three.
#[tokio::test(flavor = "multi_thread")]
async fn writes_are_collected_while_a_batch_is_sent() {
    let db = TestDb::new().await;
    let marks = marks(&db, db.database(), WriterOptions::default()).await;
    let mut callers = JoinSet::new();
    for number in 0..100 {
        let marks = marks.clone();
        callers.spawn(async move { marks.submit(number).await });
    }
    for outcome in callers.join_all().await {
        outcome.expect("an outcome");
    }
    let batches: i64 = OtherProgram::of(&db).await.ask("select count(distinct xmin::text) from {schema}.mark").await;
    assert!(batches <= 5, "a hundred writes took {batches} batches");
}

/// Jobs are added, claimed and finished by many callers at a time.
/// Two hundred round trips by twenty callers; nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn round_trips_of_many_callers_leave_nothing_behind() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let mut callers = JoinSet::new();
    for _ in 0..20 {
        let jobs = jobs.clone();
        callers.spawn(async move {
            for _ in 0..10 {
                jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
                let job = take(&jobs, "q").await;
                assert!(jobs.done("q", &job).await.expect("done"));
            }
        });
    }
    callers.join_all().await;
    assert_eq!(OtherProgram::of(&db).await.jobs().await, 0);
}

/// A connection discards its plans when a table has grown to twice its size, and not before.
/// Compares the sizes that the plans were made for, with a check at every call.
#[tokio::test]
async fn plans_are_discarded_when_a_table_has_grown() {
    let db = TestDb::new().await;
    start(db.database(), db.schema(), options()).await;
    let mut other = OtherProgram::of(&db).await;
    let age = db.schema().sql("select set_config('reveille.plans_good_until', '0', false), {schema}.age_plans()::text");
    let mut made_for = async || -> String {
        sqlx::query(&age).execute(&mut other.conn).await.expect("a check");
        let sizes = sqlx::query_scalar("select current_setting('reveille.plans_made_for')");
        sizes.fetch_one(&mut other.conn).await.expect("the sizes")
    };
    let small = made_for().await;
    assert_eq!(made_for().await, small);
    let grow = db.schema().sql(
        "insert into {schema}.write_batch (id, outcomes) \
         select gen_random_uuid(), array[repeat('x', 1000)] from generate_series(1, 100)",
    );
    sqlx::query(&grow).execute(db.database().pool()).await.expect("the table grows");
    let grown = made_for().await;
    assert_ne!(grown, small);
    assert_eq!(made_for().await, grown);
}
