//! Connections cut around a commit: every write is told what really became of it.

use std::time::Duration;

use pg::Database;
use pg::testing::{Proxy, TestDb};
use tokio::task::JoinSet;

use crate::fixture::{Stranger, options, start, take};
use crate::jobs::Jobs;

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

/// Flights of many members, cut at random sides of the commit: as many jobs as calls, each under the id its caller was told.
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
