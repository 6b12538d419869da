//! Connections cut around a commit: every write gets its true outcome.

use std::time::Duration;

use reveille_pg::Database;
use reveille_pg::testing::{Mode, Proxy, TestDb};
use reveille_wake::{Error, WriterOptions};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::fixture::{LEASE, OtherProgram, options, start, start_connected, take, waiter};
use crate::jobs::Jobs;
use crate::writer::{batch_is_running, marks};

/// A queue that reaches the server through a proxy.
async fn through(proxy: &Proxy, db: &TestDb) -> Jobs {
    let database = Database::connect_lazy(proxy.url(), reveille_pg::Options::default()).expect("a pool");
    start(&database, db.schema(), options()).await
}

/// A connection that breaks between a commit and its answer: the job exists once, with the id that was returned.
/// The proxy cuts when the server has committed the batch, before the client gets the answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_answered_and_not_repeated() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let jobs = through(&proxy, &db).await;
    let cut = proxy.cut_reply_to("needle");
    let id = jobs.enqueue("q", "needle", Duration::ZERO).await.expect("its true outcome");
    cut.happened().await;
    assert_eq!(OtherProgram::of(&db).await.ids().await, [id].into());
}

/// A connection that breaks before its request arrives: the write has not happened, so it is sent again, and happens
/// once.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_never_arrived_is_sent_again() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let jobs = through(&proxy, &db).await;
    let cut = proxy.cut_request_with("needle");
    let id = jobs.enqueue("q", "needle", Duration::ZERO).await.expect("its true outcome");
    cut.happened().await;
    assert_eq!(OtherProgram::of(&db).await.ids().await, [id].into());
}

/// The caller of a finish whose answer was lost learns that it succeeded. A second call with the same token fails,
/// whether the cut was before or after the commit.
/// The token itself is the marker at which the proxy cuts.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_valid_for_one_call_even_if_its_connection_breaks() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let jobs = through(&proxy, &db).await;
    for after_commit in [true, false] {
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        let job = take(&jobs, "q").await;
        let token = job.token.as_bytes().to_vec();
        let cut = if after_commit { proxy.cut_reply_to(token) } else { proxy.cut_request_with(token) };
        assert!(jobs.done("q", &job).await.expect("its true outcome"), "it was finished by this call");
        cut.happened().await;
        assert!(!jobs.done("q", &job).await.expect("an outcome"), "the token is used");
    }
    assert_eq!(OtherProgram::of(&db).await.jobs().await, 0);
}

/// Batches of many writes, cut before or after the commit at random: as many jobs as calls, each with the id its caller
/// got. A third of the writes are markers for a cut.
#[tokio::test(flavor = "multi_thread")]
async fn all_writes_of_broken_batches_get_their_true_outcome() {
    const WRITES: usize = 90;
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let jobs = through(&proxy, &db).await;
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
    let options = reveille_pg::Options::default().acquire_timeout(Duration::from_millis(300)).max_connections(1);
    Database::connect_lazy(proxy.url(), options).expect("a pool")
}

/// A server that is away for longer than a batch is retried: a write that was never sent fails as not happened.
/// A proxy refuses every connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_could_not_be_sent_has_not_happened() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let soon = WriterOptions { give_up_after: Duration::from_millis(500), ..WriterOptions::default() };
    // Before anything connects: after a cut connection the outcome would be unknown.
    proxy.set(Mode::Refuse).await;
    let marks = marks(&db, &impatient(&proxy), soon).await;
    let lost = marks.submit(1).await.expect_err("the server is away");
    assert!(matches!(&lost, Error::Unavailable { .. }) && lost.is_transient(), "{lost:?}");
    let marked: i64 = OtherProgram::of(&db).await.ask("select count(*) from {schema}.mark").await;
    assert_eq!(marked, 0);
}

/// A server that goes away after it got a write: the outcome is unknown, and the caller gets exactly that error.
/// A proxy cuts the answer, and then refuses every connection.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_is_reported_as_unknown() {
    const NUMBER: i64 = 0x1122_3344_5566_7788;
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let soon = WriterOptions { give_up_after: Duration::from_secs(2), ..WriterOptions::default() };
    let marks = marks(&db, &impatient(&proxy), soon).await;
    // The first write opens the only connection, which the second uses.
    marks.submit(0).await.expect("an outcome");
    proxy.set(Mode::Refuse).await;
    let cut = proxy.cut_reply_to(NUMBER.to_be_bytes());
    let lost = marks.submit(NUMBER).await;
    cut.happened().await;
    let lost = lost.expect_err("the server is away");
    assert!(matches!(&lost, Error::Unknown { .. }) && lost.is_transient(), "{lost:?}");
    let marked: i64 = OtherProgram::of(&db).await.ask("select max(number) from {schema}.mark").await;
    assert_eq!(marked, NUMBER, "it had happened");
}

/// Failures are retried until the deadline; then a waiter gets the error that the database could not be reached, not an
/// empty result.
/// A proxy refuses every connection, and then lets them in again.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_database_is_reported_at_the_deadline() {
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
    let id = OtherProgram::of(&db).await.insert("q").await;
    proxy.set(Mode::Pass).await;
    assert_eq!(waits.await.expect("served").id, id);
}

/// A connection that goes silent during a write: its caller gets the true outcome, and the write happens once.
/// A proxy drops everything once the server has begun, and lets new connections pass.
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
    batch_is_running(&db).await;
    proxy.set(Mode::Swallow).await;
    proxy.set(Mode::Pass).await;
    assert_eq!(caller.await.expect("no panic").expect("its true outcome"), 7);
    let marked: i64 = OtherProgram::of(&db).await.ask("select count(*) from {schema}.mark").await;
    assert_eq!(marked, 1);
}
