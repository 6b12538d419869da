//! Rings: floods of them, and how many are sent.

use std::time::Duration;

use pg::testing::TestDb;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use wake::{Payload, channel_name};

use crate::fixture::{
    Elsewhere, PATIENCE, Stranger, eventually, options, settled, start_connected, take, waiter, waiting,
};
use crate::jobs::Jobs;

/// Somebody outside who hears a queue's channel.
async fn outsider(db: &TestDb) -> PgListener {
    let pool = PgPoolOptions::new().max_connections(1).connect(db.url()).await.expect("connect");
    let mut outsider = PgListener::connect_with(&pool).await.expect("connect");
    outsider.listen(&channel_name(db.schema().name(), "jobs")).await.expect("listen");
    outsider
}

/// The payloads heard until nothing has come for a while.
async fn heard(mut outsider: PgListener) -> Vec<String> {
    let mut heard = Vec::new();
    while let Ok(notification) = timeout(Duration::from_secs(1), outsider.recv()).await {
        heard.push(notification.expect("the line holds").payload().to_owned());
    }
    heard
}

/// Claims and finishes so many jobs.
fn worker(jobs: &Jobs, count: usize) -> JoinHandle<()> {
    let jobs = jobs.clone();
    tokio::spawn(async move {
        for _ in 0..count {
            let job = take(&jobs, "q").await;
            assert!(jobs.done("q", &job).await.expect("done"));
        }
    })
}

/// A flood of notifications costs few looks, delays no work and is drained.
/// Ten thousand that ring a waiter, ten thousand that ring nobody here and ten thousand on other channels, in batches, while jobs
/// are added between them.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_notifications_is_coalesced_and_drained() {
    const BATCHES: usize = 40;
    const EACH: usize = 250;
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let waits = worker(&jobs, BATCHES);
    waiting(&jobs, 1).await;
    let before = jobs.claims.counts().polls;
    let channel = channel_name(db.schema().name(), "jobs");
    let flood = format!(
        "select pg_notify('{channel}', E'q\\n' || n || $1), pg_notify('{channel}', 'nobody' || n || $1), \
         pg_notify('{channel}_other' || n % 100, n || $1) from generate_series(1, {EACH}) n"
    );
    let mut stranger = Stranger::of(&db).await;
    for batch in 0..BATCHES {
        sqlx::query(sqlx::AssertSqlSafe(flood.clone()))
            .bind(format!("-{batch}"))
            .execute(&mut stranger.conn)
            .await
            .expect("notify");
        stranger.insert("q").await;
    }
    waits.await.expect("every job is served");
    // A ring that is heard late would still be counted: wait for a last one, which comes after all of them.
    let last = waiter(&jobs, "last");
    waiting(&jobs, 1).await;
    stranger.insert("last").await;
    last.await.expect("served");
    settled(&jobs).await;
    let polls = jobs.claims.counts().polls - before;
    assert!(polls < (BATCHES * EACH / 5) as u64, "{polls} looks for {} rings", BATCHES * EACH);
    let usage: f64 = stranger.ask("select pg_notification_queue_usage()").await;
    assert!(usage < 0.05, "the queue of notifications is {usage} full");
    assert!(jobs.wake.health().is_connected());
}

/// A quiet channel is rung inside each transaction: as many notifications as commits, each naming its queue.
/// Ten jobs, a tenth of a second apart, with somebody outside listening.
#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_channel_rings_once_per_commit() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let outsider = outsider(&db).await;
    for _ in 0..10 {
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(heard(outsider).await, vec!["q"; 10]);
}

/// A busy channel is rung after its commits, for many of them together, and every process still gets its work.
/// Jobs are added one by one as fast as they commit, while another process works on them; somebody outside counts the rings.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_channel_rings_for_many_commits_together() {
    const COMMITS: usize = 600;
    let db = TestDb::new().await;
    let wide = wake::Options { notify_window: Duration::from_millis(50), ..options() };
    let jobs = start_connected(db.database(), db.schema(), wide).await;
    let elsewhere = Elsewhere::start(&db, options()).await;
    crate::fixture::hearing(&elsewhere.jobs).await;
    let outsider = outsider(&db).await;
    let works = worker(&elsewhere.jobs, COMMITS);
    for _ in 0..COMMITS {
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    }
    works.await.expect("the other process gets everything");
    let heard = heard(outsider).await.len();
    assert!(heard > 0 && heard < COMMITS / 2, "{heard} rings for {COMMITS} commits");
}

/// A busy channel is rung for what writes did, not for what they might have done: other processes would look for nothing.
/// Jobs are added as fast as they commit, and between them a job that is done already is said to have failed; somebody outside listens.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_write_that_did_nothing_rings_nobody() {
    const COMMITS: usize = 200;
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    jobs.enqueue("never", "", Duration::ZERO).await.expect("added");
    let done = take(&jobs, "never").await;
    assert!(jobs.done("never", &done).await.expect("done"));
    for _ in 0..COMMITS {
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    }
    let outsider = outsider(&db).await;
    for _ in 0..COMMITS {
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        assert!(!jobs.failed("never", &done).await.expect("answered"), "it is done");
    }
    let heard = heard(outsider).await;
    // On a machine that stands still for a moment the channel is quiet, and a quiet one is told of everything in advance.
    let vain = heard.iter().filter(|payload| payload.contains("never")).count();
    assert!(heard.len() > 10 && vain * 4 < heard.len(), "{vain} of {}: {heard:?}", heard.len());
}

/// Work made visible by other means rings like any other, here and elsewhere.
/// A job is inserted unheard, then rung for.
#[tokio::test(flavor = "multi_thread")]
async fn a_ring_by_hand_reaches_every_process() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let elsewhere = Elsewhere::start(&db, options()).await;
    crate::fixture::hearing(&elsewhere.jobs).await;
    let mut stranger = Stranger::of(&db).await;
    let channel = jobs.wake.channel("jobs", Payload::Keys);
    for waits_here in [true, false] {
        let waits = waiter(if waits_here { &jobs } else { &elsewhere.jobs }, "q");
        waiting(if waits_here { &jobs } else { &elsewhere.jobs }, 1).await;
        let id = stranger.insert_unheard("q").await;
        jobs.wake.wake_up(&[channel.wake_up_keys(["q"])]);
        assert_eq!(waits.await.expect("served").id, id);
    }
}

/// A ring inside the caller's own transaction is heard exactly if that transaction commits.
/// A job is added in a transaction of the application's, which is rolled back once and committed once.
#[tokio::test(flavor = "multi_thread")]
async fn a_ring_in_the_callers_transaction_is_heard_when_it_commits() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let waits = waiter(&jobs, "q");
    waiting(&jobs, 1).await;
    let channel = jobs.wake.channel("jobs", Payload::Keys);
    let (channels, payloads) = wake::Wake::notifications(&[channel.wake_up_keys(["q"])]);
    let wake_up = db.schema().sql("select {schema}.notify($1, $2)");
    let polls = jobs.claims.counts().polls;
    for commit in [false, true] {
        let mut transaction = db.database().begin().await.expect("begin");
        sqlx::query("set local search_path = reveille_own").execute(&mut *transaction).await.expect("set");
        let insert = db.schema().sql("insert into {schema}.job (queue, body) values ('q', '')");
        sqlx::query(&insert).execute(&mut *transaction).await.expect("insert");
        sqlx::query(&wake_up).bind(&channels).bind(&payloads).execute(&mut *transaction).await.expect("ring");
        if commit {
            transaction.commit().await.expect("commit");
        } else {
            transaction.rollback().await.expect("roll back");
            settled(&jobs).await;
            assert_eq!(jobs.claims.counts().polls, polls, "nothing has happened");
        }
    }
    waits.await.expect("served");
    eventually("nobody waits", async || jobs.claims.health().waiters == 0).await;
}

/// Jobs added in the same process are claimed by its waiters without a look too many: own notifications are recognised.
/// Several rounds, because a notification that overtakes the answer of its own write, as happens on a busy machine, rings.
#[tokio::test(flavor = "multi_thread")]
async fn own_notifications_cost_no_second_look() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let mut polls = Vec::new();
    for _ in 0..15 {
        let waits = [waiter(&jobs, "q"), waiter(&jobs, "q")];
        waiting(&jobs, 2).await;
        let before = jobs.claims.counts().polls;
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        settled(&jobs).await;
        polls.push(jobs.claims.counts().polls - before);
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        for wait in waits {
            timeout(PATIENCE, wait).await.expect("in time").expect("served");
        }
    }
    polls.sort_unstable();
    assert_eq!(polls[polls.len() / 5], 1, "{polls:?}");
}

/// A schema may be called anything that PostgreSQL takes: channels, triggers and functions of an odd one work.
/// Jobs now, later and by another program, in a schema with quotes, blanks and accents.
#[tokio::test(flavor = "multi_thread")]
async fn everything_works_in_a_schema_with_an_odd_name() {
    let db = TestDb::with_odd_name().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let elsewhere = Elsewhere::start(&db, options()).await;
    crate::fixture::hearing(&elsewhere.jobs).await;
    let waits = waiter(&elsewhere.jobs, "q");
    waiting(&elsewhere.jobs, 1).await;
    let id = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    let job = waits.await.expect("served");
    assert_eq!(job.id, id);
    assert!(elsewhere.jobs.failed("q", &job).await.expect("failed"));
    let again = take(&jobs, "q").await;
    assert_eq!((again.id, again.attempt), (id, 2));
    assert!(jobs.done("q", &again).await.expect("done"));

    let waits = waiter(&jobs, "q");
    waiting(&jobs, 1).await;
    let id = Stranger::of(&db).await.insert("q").await;
    assert_eq!(waits.await.expect("served").id, id);
}

/// A notification queue that is full stops no write: it is sent again without its ring, which follows it as soon as it can.
/// A server with the smallest queue, and somebody who listens and does not read; before PostgreSQL 17 the size is fixed at 8 GB.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_notification_queue_stops_no_write() {
    let Some(installation) = pg::testing::installation_to_start().await else { return };
    if installation.version.major < 17 {
        pg::testing::skip::<()>("a server whose notification queue can be made small (PostgreSQL 17)");
        return;
    }
    let Some(cluster) = pg::testing::PrivateCluster::start_with(&[("max_notify_queue_pages", "64")]).await else {
        return;
    };
    let schema = pg::Schema::new("jobs").expect("a name");
    let db = pg::Database::connect_lazy(cluster.url(), pg::Options::default()).expect("a pool");
    let jobs = start_connected(&db, &schema, options()).await;
    let (mut disconnected, mut loud) =
        (Stranger::connect(cluster.url(), &schema).await, Stranger::connect(cluster.url(), &schema).await);
    disconnected.run("listen anything; begin; select 1").await;
    let shout = "select pg_notify('anything', repeat('x', 7000) || n) from generate_series(1, 10) as n";
    while loud.try_run(shout).await.is_ok() {}
    let wait = waiter(&jobs, "q");
    let id = timeout(PATIENCE, jobs.enqueue("q", "", Duration::ZERO)).await.expect("in time").expect("added");
    assert_eq!(wait.await.expect("served").id, id);
    disconnected.run("commit").await;
    timeout(PATIENCE, jobs.wake.flush()).await.expect("the ring follows when there is room");
}
