//! Writes that travel together, and those that must not harm each other.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pg::testing::{PrivateCluster, TestDb};
use pg::{Database, Migrator, Schema, Sql};
use sqlx::PgConnection;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use wake::{BatchResult, BatchedWrite, Error, Wake, WakeUp, WriteBatch, Writer, WriterOptions};

use crate::fixture::{LEASE, PATIENCE, Stranger, eventually, options, start, start_connected, take};
use crate::jobs::{Job, Jobs};

/// A member that the database refuses fails alone, with the reason; the others of its flight happen.
/// One of fifty bodies holds a character that PostgreSQL cannot store.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_member_fails_alone() {
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
    assert_eq!(Stranger::of(&db).await.jobs().await, 49);
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

/// A member whose row somebody else has locked waits for it alone; the others of its flight do not.
/// Ten jobs are finished while another transaction holds one of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_row_delays_its_own_member_only() {
    let db = TestDb::new().await;
    let jobs = start(db.database(), db.schema(), options()).await;
    let mut some = some_jobs(&jobs, 10).await;
    let locked = some.remove(4);
    let mut holder = Stranger::of(&db).await;
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
    let free = timeout(Duration::from_secs(5), free.join_all()).await.expect("nobody waits for the lock");
    assert!(free.into_iter().all(|done| done.expect("an outcome")));
    timeout(Duration::from_millis(300), &mut held).await.expect_err("it waits for the lock");
    holder.run("commit").await;
    assert!(held.await.expect("no panic").expect("an outcome"));
    assert_eq!(Stranger::of(&db).await.jobs().await, 0);
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
        let mut stranger = Stranger::of(&db).await;
        eventually("the job is there", async || stranger.jobs().await == expected).await;
    }
}

/// Two processes that finish the same jobs in opposite order never wait for each other in a circle, and each token is good once.
/// Many rounds on a server of their own, whose count of deadlocks stays zero.
#[tokio::test(flavor = "multi_thread")]
async fn flights_over_the_same_rows_in_opposite_order_do_not_deadlock() {
    const JOBS: usize = 200;
    let Some(cluster) = PrivateCluster::start().await else { return };
    let schema = Schema::new("jobs").expect("a name");
    let pool = || Database::connect_lazy(cluster.url(), pg::Options::default()).expect("a pool");
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
    let mut stranger = Stranger::connect(cluster.url(), &schema).await;
    assert_eq!(stranger.jobs().await, 0);
    // Whoever meets a deadlock reports it at once; other statistics may be late, this one is not.
    let deadlocks: i64 =
        stranger.ask("select deadlocks from pg_stat_database where datname = current_database()").await;
    assert_eq!(deadlocks, 0);
}

/// A number whose flight panics.
pub(crate) const PANICS: i64 = -1;

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
    ) -> pg::Result<BatchResult<Self::Outcome>> {
        let numbers: Vec<i64> = batch.writes.iter().map(|number| **number).collect();
        assert!(!numbers.contains(&PANICS), "a flight of a test");
        batch.result(self, &batch.query(&self.0).bind(numbers).fetch_one(conn).await?)
    }

    fn decode(&self, _: &i64, text: &str) -> Option<i64> {
        text.parse().ok()
    }
}

/// Writer of marks, on `through`, which leads to the server of `db`.
pub(crate) async fn marks(db: &TestDb, through: &Database, options: WriterOptions) -> Writer<Marks> {
    Migrator::new(db.schema(), vec![Wake::component()]).run(db.database()).await.expect("make the engine's tables");
    let wake = Wake::start(through, db.schema(), crate::fixture::options());
    Stranger::of(db).await.run("create table {schema}.mark (number bigint primary key)").await;
    let sql = "with slow as materialized (select pg_sleep(0.3)), marked as ( \
                 insert into {schema}.mark select number from slow, unnest($5::bigint[]) as n (number) returning number) \
               select outcomes, {schema}.finish_batch($1, outcomes, $2, $3) from ( \
                 select array_agg(number::text order by number) as outcomes from marked where $4 is not null) all_of_them";
    wake.writer("marks", Marks(db.schema().sql(sql)), options)
}

/// Waits until a flight of marks is being carried out.
pub(crate) async fn under_way(db: &TestDb) {
    let sleeping = "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and position($1 in query) > 0";
    eventually("a flight is under way", async || {
        let asked = sqlx::query_scalar::<_, i64>(sleeping).bind(db.schema().name());
        asked.fetch_one(db.database().pool()).await.expect("ask") == 1
    })
    .await;
}

/// Closing lets everything underway come to its outcome, and nothing new in.
/// Three slow flights are under way; when closing has returned, all their rows are there and all callers know.
#[tokio::test(flavor = "multi_thread")]
async fn closing_waits_for_every_outcome() {
    let db = TestDb::new().await;
    let marks = marks(&db, db.database(), WriterOptions { max_writes: 2, ..WriterOptions::default() }).await;
    let mut callers = JoinSet::new();
    let aboard = Arc::new(Semaphore::new(0));
    for number in 0..6 {
        let (marks, aboard) = (marks.clone(), aboard.clone());
        callers.spawn(async move {
            let mut submitted = pin!(marks.submit(number));
            // It boards when it is first polled.
            let first = poll_fn(|cx| Poll::Ready(submitted.as_mut().poll(cx))).await;
            aboard.add_permits(1);
            match first {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => submitted.await,
            }
        });
    }
    // The first is in the air, and the others have boarded behind it.
    under_way(&db).await;
    drop(aboard.acquire_many(6).await.expect("all aboard"));
    marks.close().await;
    let marked: i64 = Stranger::of(&db).await.ask("select count(*) from {schema}.mark").await;
    assert_eq!(marked, 6);
    let mut told = Vec::new();
    for outcome in callers.join_all().await {
        told.push(outcome.expect("an outcome"));
    }
    told.sort_unstable();
    assert_eq!(told, [0, 1, 2, 3, 4, 5]);
    let late = marks.submit(7).await.expect_err("closed");
    assert!(matches!(&late, Error::Closed { what } if &**what == "marks"), "{late}");
}

/// Whatever is submitted while a flight is in the air goes out with the next: many writes, few flights.
/// A hundred slow writes at once take the time of two or three.
#[tokio::test(flavor = "multi_thread")]
async fn writes_collect_while_a_flight_is_in_the_air() {
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
    let writer: i64 = Stranger::of(&db).await.ask("select count(distinct xmin::text) from {schema}.mark").await;
    assert!(writer <= 5, "a hundred writes took {writer} batches");
}

/// A job added where another waits is claimed and finished through flights and back, many at a time.
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
    assert_eq!(Stranger::of(&db).await.jobs().await, 0);
}

/// A connection makes its plans anew when a table has grown to twice its size, and not while none has.
/// What plans were made for is what the connection keeps; the time to look is always over here.
#[tokio::test]
async fn plans_are_made_anew_for_tables_that_have_grown() {
    let db = TestDb::new().await;
    start(db.database(), db.schema(), options()).await;
    let mut stranger = Stranger::of(&db).await;
    let poll =
        db.schema().sql("select set_config('reveille.plans_good_until', '0', false), {schema}.age_plans()::text");
    let mut made_for = async || -> String {
        sqlx::query(&poll).execute(&mut stranger.conn).await.expect("a look");
        let kept = sqlx::query_scalar("select current_setting('reveille.plans_made_for')");
        kept.fetch_one(&mut stranger.conn).await.expect("what is kept")
    };
    let small = made_for().await;
    assert_eq!(made_for().await, small);
    let grow = db.schema().sql(
        "insert into {schema}.write_batch (id, outcomes) select gen_random_uuid(), array[repeat('x', 1000)] from generate_series(1, 100)",
    );
    sqlx::query(&grow).execute(db.database().pool()).await.expect("it grows");
    let grown = made_for().await;
    assert_ne!(grown, small);
    assert_eq!(made_for().await, grown);
}
