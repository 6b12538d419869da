//! Connections cut around a commit: every write is told what really became of it.

use std::time::Duration;

use pg::Database;
use pg::testing::{Mode, Proxy, TestDb};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wake::{Error, WriterOptions};

use crate::fixture::{LEASE, Stranger, options, start, start_connected, take, waiter};
use crate::jobs::Jobs;
use crate::writer::{marks, under_way};

/// A queue that reaches the server by way of a proxy.
async fn behind(proxy: &Proxy, db: &TestDb) -> Jobs {
    let database = Database::connect_lazy(proxy.url(), pg::Options::default()).expect("a pool");
    start(&database, db.schema(), options()).await
}

/// A connection that breaks between a commit and its answer: the job is there once, and its id is the one answered.
/// The proxy cuts when the server has finished with the flight, before the client hears of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_answered_and_not_repeated() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let jobs = behind(&proxy, &db).await;
    let cut = proxy.cut_reply_to("needle");
    let id = jobs.enqueue("q", "needle", Duration::ZERO).await.expect("its true outcome");
    cut.happened().await;
    assert_eq!(Stranger::of(&db).await.ids().await, [id].into());
}

/// A connection that breaks before its request arrives: the write has not happened, so it is sent again, and happens once.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_never_arrived_is_sent_again() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let jobs = behind(&proxy, &db).await;
    let cut = proxy.cut_request_with("needle");
    let id = jobs.enqueue("q", "needle", Duration::ZERO).await.expect("its true outcome");
    cut.happened().await;
    assert_eq!(Stranger::of(&db).await.ids().await, [id].into());
}

/// A finished job whose answer was lost was finished: its caller hears so. A second call with the same token is another matter and
/// is refused, whether the cut was before or after the commit.
/// The token itself is the marker at which the proxy cuts.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_for_one_call_however_often_its_connection_breaks() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let jobs = behind(&proxy, &db).await;
    for after_commit in [true, false] {
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        let job = take(&jobs, "q").await;
        let token = job.token.as_bytes().to_vec();
        let cut = if after_commit { proxy.cut_reply_to(token) } else { proxy.cut_request_with(token) };
        assert!(jobs.done("q", &job).await.expect("its true outcome"), "it was finished by this call");
        cut.happened().await;
        assert!(!jobs.done("q", &job).await.expect("an outcome"), "a second call comes too late");
    }
    assert_eq!(Stranger::of(&db).await.jobs().await, 0);
}

/// Writer of many members, cut at random sides of the commit: as many jobs as calls, each under the id its caller was told.
/// A third of the members is a marker for a cut.
#[tokio::test(flavor = "multi_thread")]
async fn members_of_broken_flights_all_hear_the_truth() {
    const WRITES: usize = 90;
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let jobs = behind(&proxy, &db).await;
    let mut writes = JoinSet::new();
    for number in 0..WRITES {
        let body = format!("needle-{number:04}");
        match number % 6 {
            0 => drop(proxy.cut_reply_to(body.clone())),
            3 => drop(proxy.cut_request_with(body.clone())),
            _ => {}
        }
        let jobs = jobs.clone();
        writes.spawn(async move {
            let id = jobs.enqueue("q", &body, Duration::ZERO).await.expect("its true outcome");
            (id, body)
        });
    }
    let mut told: Vec<(i64, String)> = writes.join_all().await;
    let there = db.schema().sql("select id, body from {schema}.job order by id");
    let there: Vec<(i64, String)> =
        sqlx::query_as(&there).fetch_all(db.database().pool()).await.expect("read the jobs");
    told.sort();
    assert_eq!(told, there);
}

/// A pool of one connection, behind a proxy, that soon gives up waiting for it.
fn impatient(proxy: &Proxy) -> Database {
    let options =
        pg::Options { acquire_timeout: Duration::from_millis(300), max_connections: 1, ..pg::Options::default() };
    Database::connect_lazy(proxy.url(), options).expect("a pool")
}

/// A server that is away for longer than a flight is tried: a write that was never sent has not happened, and its caller hears so.
/// A proxy refuses every connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_could_not_be_sent_has_not_happened() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let soon = WriterOptions { give_up_after: Duration::from_millis(500), ..WriterOptions::default() };
    // Before anything connects: of a connection that is cut one cannot know whether it carried the write.
    proxy.set(Mode::Refuse).await;
    let marks = marks(&db, &impatient(&proxy), soon).await;
    let lost = marks.submit(1).await.expect_err("the server is away");
    assert!(matches!(&lost, Error::Unavailable { .. }) && lost.is_transient(), "{lost:?}");
    let marked: i64 = Stranger::of(&db).await.ask("select count(*) from {schema}.mark").await;
    assert_eq!(marked, 0);
}

/// A server that is away since it was sent a write: nobody can know what became of it, and the caller hears exactly that.
/// A proxy cuts the answer, and then refuses every connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_outcome_cannot_be_learnt_is_not_guessed() {
    const NUMBER: i64 = 0x1122_3344_5566_7788;
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let soon = WriterOptions { give_up_after: Duration::from_secs(2), ..WriterOptions::default() };
    let marks = marks(&db, &impatient(&proxy), soon).await;
    // The first opens the connection that the second goes by; nobody else gets in.
    marks.submit(0).await.expect("an outcome");
    proxy.set(Mode::Refuse).await;
    let cut = proxy.cut_reply_to(NUMBER.to_be_bytes());
    let lost = marks.submit(NUMBER).await;
    cut.happened().await;
    let lost = lost.expect_err("the server is away");
    assert!(matches!(&lost, Error::Unknown { .. }) && lost.is_transient(), "{lost:?}");
    let marked: i64 = Stranger::of(&db).await.ask("select max(number) from {schema}.mark").await;
    assert_eq!(marked, NUMBER, "it had happened");
}

/// Failures are absorbed until the deadline; then a waiter hears that the database could not be reached, and not that there is no work.
/// A proxy refuses every connection, and then lets them in again.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_hears_of_an_unreachable_database_at_its_deadline_only() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let jobs = start_connected(&impatient(&proxy), db.schema(), options()).await;
    proxy.set(Mode::Refuse).await;
    proxy.cut();
    let asked = Instant::now();
    let deadline = Duration::from_millis(1_500);
    let lost = jobs.claim("q", LEASE, asked + deadline).await.expect_err("the server is away");
    assert!(matches!(&lost, Error::Unavailable { .. }) && lost.is_transient(), "{lost:?}");
    assert!(asked.elapsed() >= deadline);

    let waits = waiter(&jobs, "q");
    let id = Stranger::of(&db).await.insert("q").await;
    proxy.set(Mode::Pass).await;
    assert_eq!(waits.await.expect("served").id, id);
}

/// A connection that goes silent while a write is being carried out: its caller hears the true outcome, and it happens once.
/// A proxy swallows everything once the server has begun, and lets new connections pass.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_on_a_connection_that_went_silent_is_answered_and_not_repeated() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let soon = WriterOptions { attempt_timeout: Duration::from_secs(1), ..WriterOptions::default() };
    let marks = marks(&db, &impatient(&proxy), soon).await;
    let caller = tokio::spawn({
        let marks = marks.clone();
        async move { marks.submit(7).await }
    });
    under_way(&db).await;
    proxy.set(Mode::Swallow).await;
    proxy.set(Mode::Pass).await;
    assert_eq!(caller.await.expect("no panic").expect("its true outcome"), 7);
    let marked: i64 = Stranger::of(&db).await.ask("select count(*) from {schema}.mark").await;
    assert_eq!(marked, 1);
}
