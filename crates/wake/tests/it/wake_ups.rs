//! Wake-ups: floods of them, and how many notifications are sent.

use std::time::Duration;

use reveille_pg::testing::TestDb;
use reveille_wake::{Payload, channel_name};
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::fixture::{
    OtherProcess, OtherProgram, PATIENCE, eventually, options, polls_ended, start_connected, take, waiter, waiting,
};
use crate::jobs::Jobs;

/// A foreign listener on a queue's channel.
async fn foreign_listener(db: &TestDb) -> PgListener {
    let pool = PgPoolOptions::new().max_connections(1).connect(db.url()).await.expect("connect");
    let mut listener = PgListener::connect_with(&pool).await.expect("connect");
    listener.listen(&channel_name(db.schema().name(), "jobs")).await.expect("listen");
    listener
}

/// The payloads received until none has come for a while.
async fn received(mut listener: PgListener) -> Vec<String> {
    let mut received = Vec::new();
    while let Ok(notification) = timeout(Duration::from_secs(1), listener.recv()).await {
        received.push(notification.expect("the connection holds").payload().to_owned());
    }
    received
}

/// Claims and finishes this many jobs.
fn worker(jobs: &Jobs, count: usize) -> JoinHandle<()> {
    let jobs = jobs.clone();
    tokio::spawn(async move {
        for _ in 0..count {
            let job = take(&jobs, "q").await;
            assert!(jobs.done("q", &job).await.expect("done"));
        }
    })
}

/// A flood of notifications causes few polls, delays no work and is drained.
/// Ten thousand that wake a waiter, ten thousand that wake none here and ten thousand on other channels, in batches,
/// while jobs are added between them.
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
        "select pg_notify('{channel}', E'q\\n' || n || $1), pg_notify('{channel}', 'unused' || n || $1), \
         pg_notify('{channel}_other' || n % 100, n || $1) from generate_series(1, {EACH}) n"
    );
    let mut other = OtherProgram::of(&db).await;
    for batch in 0..BATCHES {
        sqlx::query(sqlx::AssertSqlSafe(flood.clone()))
            .bind(format!("-{batch}"))
            .execute(&mut other.conn)
            .await
            .expect("notify");
        other.insert("q").await;
    }
    waits.await.expect("every job is served");
    // A notification received late would still be counted: wait for a last one, which comes after all of them.
    let last = waiter(&jobs, "last");
    waiting(&jobs, 1).await;
    other.insert("last").await;
    last.await.expect("served");
    polls_ended(&jobs).await;
    let polls = jobs.claims.counts().polls - before;
    assert!(polls < (BATCHES * EACH / 5) as u64, "{polls} polls for {} notifications", BATCHES * EACH);
    let usage: f64 = other.ask("select pg_notification_queue_usage()").await;
    assert!(usage < 0.05, "the notification queue is {usage} full");
    assert!(jobs.wake.health().is_connected());
}

/// A quiet channel is notified inside each transaction: as many notifications as commits, each with the key of its
/// queue. Ten jobs, a tenth of a second apart, with a foreign listener.
#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_channel_is_notified_once_per_commit() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let listener = foreign_listener(&db).await;
    for _ in 0..10 {
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(received(listener).await, vec!["q"; 10]);
}

/// A busy channel is notified after its commits, for many of them together, and every process still gets its work.
/// Jobs are added one by one as fast as they commit, while another process works on them; a foreign listener counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_channel_is_notified_for_many_commits_together() {
    const COMMITS: usize = 600;
    let db = TestDb::new().await;
    let wide = reveille_wake::Options { notify_window: Duration::from_millis(50), ..options() };
    let jobs = start_connected(db.database(), db.schema(), wide).await;
    let remote = OtherProcess::start(&db, options()).await;
    crate::fixture::connected(&remote.jobs).await;
    let listener = foreign_listener(&db).await;
    let works = worker(&remote.jobs, COMMITS);
    for _ in 0..COMMITS {
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    }
    works.await.expect("the other process gets everything");
    let received = received(listener).await.len();
    assert!(received > 0 && received < COMMITS / 2, "{received} notifications for {COMMITS} commits");
}

/// A busy channel is notified of actual outcomes, not of possible ones: other processes would poll for nothing.
/// Jobs are added as fast as they commit, and between them a job that is done already is reported as failed; a foreign
/// listener counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_write_without_effect_does_not_notify() {
    const COMMITS: usize = 200;
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    jobs.enqueue("never", "", Duration::ZERO).await.expect("added");
    let done = take(&jobs, "never").await;
    assert!(jobs.done("never", &done).await.expect("done"));
    for _ in 0..COMMITS {
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    }
    let listener = foreign_listener(&db).await;
    for _ in 0..COMMITS {
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        assert!(!jobs.failed("never", &done).await.expect("answered"), "it is done");
    }
    let received = received(listener).await;
    // If the machine pauses for a moment the channel is quiet, and a quiet one is notified of possible outcomes in
    // advance.
    let vain = received.iter().filter(|payload| payload.contains("never")).count();
    assert!(received.len() > 10 && vain * 4 < received.len(), "{vain} of {}: {received:?}", received.len());
}

/// Work committed by other means can be announced, here and in other processes.
/// A job is inserted without a notification, then a wake-up is sent for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_explicit_wake_up_reaches_every_process() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let remote = OtherProcess::start(&db, options()).await;
    crate::fixture::connected(&remote.jobs).await;
    let mut other = OtherProgram::of(&db).await;
    let channel = jobs.wake.channel("jobs", Payload::Keys);
    for waits_here in [true, false] {
        let waits = waiter(if waits_here { &jobs } else { &remote.jobs }, "q");
        waiting(if waits_here { &jobs } else { &remote.jobs }, 1).await;
        let id = other.insert_without_notify("q").await;
        jobs.wake.wake_up(&[channel.wake_up_keys(["q"])]);
        assert_eq!(waits.await.expect("served").id, id);
    }
}

/// A notification inside the caller's own transaction is sent exactly if that transaction commits.
/// A job is added in a transaction of the application's, which is rolled back once and committed once.
#[tokio::test(flavor = "multi_thread")]
async fn a_notification_in_the_callers_transaction_is_sent_when_it_commits() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let waits = waiter(&jobs, "q");
    waiting(&jobs, 1).await;
    let channel = jobs.wake.channel("jobs", Payload::Keys);
    let (channels, payloads) = reveille_wake::Wake::notifications(&[channel.wake_up_keys(["q"])]);
    let notify = db.schema().sql("select {schema}.notify($1, $2)");
    let polls = jobs.claims.counts().polls;
    for commit in [false, true] {
        let mut transaction = db.database().begin().await.expect("begin");
        sqlx::query("set local search_path = reveille_own").execute(&mut *transaction).await.expect("set");
        let insert = db.schema().sql("insert into {schema}.job (queue, body) values ('q', '')");
        sqlx::query(&insert).execute(&mut *transaction).await.expect("insert");
        sqlx::query(&notify).bind(&channels).bind(&payloads).execute(&mut *transaction).await.expect("notify");
        if commit {
            transaction.commit().await.expect("commit");
        } else {
            transaction.rollback().await.expect("roll back");
            polls_ended(&jobs).await;
            assert_eq!(jobs.claims.counts().polls, polls, "nothing has happened");
        }
    }
    waits.await.expect("served");
    eventually("no waiter is left", async || jobs.claims.health().waiters == 0).await;
}

/// Jobs added in the same process are claimed by its waiters without an extra poll: own notifications are recognised.
/// Several rounds, because a notification that arrives before its write returns, as happens on a busy machine, causes a
/// poll.
#[tokio::test(flavor = "multi_thread")]
async fn own_notifications_cause_no_second_poll() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let mut polls = Vec::new();
    for _ in 0..15 {
        let waits = [waiter(&jobs, "q"), waiter(&jobs, "q")];
        waiting(&jobs, 2).await;
        let before = jobs.claims.counts().polls;
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        polls_ended(&jobs).await;
        polls.push(jobs.claims.counts().polls - before);
        jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        for wait in waits {
            timeout(PATIENCE, wait).await.expect("in time").expect("served");
        }
    }
    polls.sort_unstable();
    assert_eq!(polls[polls.len() / 5], 1, "{polls:?}");
}

/// A schema may have any name that PostgreSQL accepts: channels, triggers and functions of an unusual one work.
/// Jobs now, later and by another program, in a schema with quotes, blanks and accents.
#[tokio::test(flavor = "multi_thread")]
async fn everything_works_in_a_schema_with_an_unusual_name() {
    let db = TestDb::with_odd_name().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let remote = OtherProcess::start(&db, options()).await;
    crate::fixture::connected(&remote.jobs).await;
    let waits = waiter(&remote.jobs, "q");
    waiting(&remote.jobs, 1).await;
    let id = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    let job = waits.await.expect("served");
    assert_eq!(job.id, id);
    assert!(remote.jobs.failed("q", &job).await.expect("failed"));
    let again = take(&jobs, "q").await;
    assert_eq!((again.id, again.attempt), (id, 2));
    assert!(jobs.done("q", &again).await.expect("done"));

    let waits = waiter(&jobs, "q");
    waiting(&jobs, 1).await;
    let id = OtherProgram::of(&db).await.insert("q").await;
    assert_eq!(waits.await.expect("served").id, id);
}

/// A full notification queue stops no write: the write is sent again without its notification, which follows later. A
/// server with the smallest queue, and a session that listens and does not read; before PostgreSQL 17 the size is fixed
/// at 8 GB.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_notification_queue_stops_no_write() {
    let Some(installation) = reveille_pg::testing::installation_to_start().await else { return };
    if installation.version.major < 17 {
        reveille_pg::testing::skip::<()>("a server whose notification queue can be made small (PostgreSQL 17)");
        return;
    }
    let Some(cluster) = reveille_pg::testing::PrivateCluster::start_with(&[("max_notify_queue_pages", "64")]).await
    else {
        return;
    };
    let schema = reveille_pg::Schema::new("jobs").expect("a name");
    let db = reveille_pg::Database::connect_lazy(cluster.url(), reveille_pg::Options::default()).expect("a pool");
    let jobs = start_connected(&db, &schema, options()).await;
    let (mut idle_listener, mut sender) =
        (OtherProgram::connect(cluster.url(), &schema).await, OtherProgram::connect(cluster.url(), &schema).await);
    idle_listener.run("listen anything; begin; select 1").await;
    let fill = "select pg_notify('anything', repeat('x', 7000) || n) from generate_series(1, 10) as n";
    while sender.try_run(fill).await.is_ok() {}
    let wait = waiter(&jobs, "q");
    let id = timeout(PATIENCE, jobs.enqueue("q", "", Duration::ZERO)).await.expect("in time").expect("added");
    assert_eq!(wait.await.expect("served").id, id);
    idle_listener.run("commit").await;
    timeout(PATIENCE, jobs.wake.flush()).await.expect("the notification follows when there is room");
}
