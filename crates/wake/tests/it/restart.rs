//! The server restarts: nothing is lost, nothing happens twice, and no caller gets an error.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reveille_pg::testing::{PrivateCluster, TestDb};
use reveille_pg::{Database, Schema};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::fixture::{LEASE, NEVER, OtherProgram, PATIENCE, connected, eventually, options, start_connected};
use crate::jobs::Jobs;
use crate::process::{Process, jobs};

async fn private() -> Option<(PrivateCluster, Schema, Jobs)> {
    let cluster = PrivateCluster::start().await?;
    let schema = Schema::new("jobs").expect("a name");
    let db = Database::connect_lazy(cluster.url(), reveille_pg::Options::default()).expect("a pool");
    sqlx::query("create schema jobs").execute(db.pool()).await.expect("create the schema");
    let jobs = start_connected(&db, &schema, options()).await;
    Some((cluster, schema, jobs))
}

/// A server that crashes and comes back under load: every acknowledged job is claimed and finished once, every reported
/// outcome is true, and waiters and writers see only a pause.
/// Two immediate restarts while jobs are added to two queues, one worked on, one only counted. Leases are short,
/// because a claim that was committed without an answer ends with its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_restart_under_load_loses_nothing_and_repeats_nothing() {
    const SHORT: Duration = Duration::from_secs(2);
    let Some((cluster, schema, jobs)) = private().await else { return };
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for number in 0..8 {
        let (jobs, over) = (jobs.clone(), over.clone());
        let queue = if number % 2 == 0 { "worked" } else { "counted" };
        writers.spawn(async move {
            let mut added = Vec::new();
            while !over.load(Ordering::Relaxed) {
                added.push((queue, jobs.enqueue(queue, "", Duration::ZERO).await.expect("added, perhaps late")));
                sleep(Duration::from_millis(5)).await;
            }
            added
        });
    }
    let finished: Arc<Mutex<HashMap<i64, u32>>> = Arc::default();
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let (jobs, finished) = (jobs.clone(), finished.clone());
        workers.spawn(async move {
            loop {
                let claimed = jobs.claim("worked", SHORT, Instant::now() + NEVER).await;
                let claimed = match claimed {
                    Err(reveille_wake::Error::Closed { .. }) => return,
                    claimed => claimed.expect("a claim, perhaps late"),
                };
                let job = claimed.expect("there is no deadline");
                if jobs.done("worked", &job).await.expect("an outcome, perhaps late") {
                    *finished.lock().expect("no panic").entry(job.id).or_default() += 1;
                }
            }
        });
    }
    for _ in 0..2 {
        sleep(Duration::from_millis(800)).await;
        cluster.restart_immediate().await.expect("restart");
    }
    sleep(Duration::from_millis(800)).await;
    over.store(true, Ordering::Relaxed);
    let added: Vec<(&str, i64)> = writers.join_all().await.into_iter().flatten().collect();
    let of = |queue| added.iter().filter(|(of, _)| *of == queue).map(|(_, id)| *id).collect::<HashSet<i64>>();
    let (worked, counted) = (of("worked"), of("counted"));
    assert_eq!(worked.len() + counted.len(), added.len(), "an id was given out twice");
    assert!(!worked.is_empty() && !counted.is_empty());

    eventually("all work is done", async || finished.lock().expect("no panic").len() >= worked.len()).await;
    connected(&jobs).await;
    jobs.claims.close().await;
    workers.join_all().await;
    let finished = finished.lock().expect("no panic").clone();
    assert!(finished.values().all(|times| *times == 1), "finished more than once: {finished:?}");
    assert_eq!(finished.into_keys().collect::<HashSet<i64>>(), worked);
    let mut other = OtherProgram::connect(cluster.url(), &schema).await;
    assert_eq!(other.ids().await, counted, "exactly the acknowledged jobs exist");
}

/// Waiters that sleep while the server restarts get work again, and the listener reconnects.
/// Another program adds a job as soon as the server is back.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_woken_again_after_a_server_restart() {
    let Some((cluster, schema, jobs)) = private().await else { return };
    let waits = crate::fixture::waiter(&jobs, "q");
    crate::fixture::waiting(&jobs, 1).await;
    cluster.restart_immediate().await.expect("restart");
    let id = OtherProgram::connect(cluster.url(), &schema).await.insert("q").await;
    assert_eq!(waits.await.expect("served").id, id);
    connected(&jobs).await;
}

/// Claims all jobs and checks that none came early. A timer that was forgotten would be found by the fallback poll
/// only, which comes later than `PATIENCE`.
async fn on_time(jobs: &Jobs, due: &HashMap<i64, Instant>) {
    for _ in 0..due.len() {
        let job = jobs.claim("q", LEASE, Instant::now() + PATIENCE).await.expect("a claim").expect("a job");
        let (now, due) = (Instant::now(), due[&job.id]);
        // The delay begins a moment before the id is known.
        assert!(now + Duration::from_millis(500) > due, "{:?} early", due - now);
    }
}

/// Timers fire on time after the server has restarted under a waiting queue.
/// Delayed jobs are due after an immediate restart, at different moments.
#[tokio::test(flavor = "multi_thread")]
async fn timers_fire_on_time_after_a_server_restart() {
    let Some((cluster, _, jobs)) = private().await else { return };
    let mut due = HashMap::new();
    for ms in [4_000, 4_500, 5_000] {
        let delay = Duration::from_millis(ms);
        let id = jobs.enqueue("q", "", delay).await.expect("added");
        due.insert(id, Instant::now() + delay);
    }
    let restarts = async {
        sleep(Duration::from_millis(300)).await;
        cluster.restart_immediate().await.expect("restart");
    };
    tokio::join!(restarts, on_time(&jobs, &due));
}

/// Timers set by a process that has ended fire on time for another that started later.
/// A process adds delayed jobs and ends; then this one starts its queue for the first time.
#[tokio::test(flavor = "multi_thread")]
async fn timers_fire_on_time_after_the_process_that_set_them_has_ended() {
    let db = TestDb::new().await;
    let setter = Process::start(jobs(&db, &["add", "q", "later", "--delay-ms", "3000", "--count", "3"]));
    let mut due = HashMap::new();
    for line in 0..3 {
        let (printed, id) = setter.line(line).await;
        due.insert(id.parse().expect("an id"), printed + Duration::from_millis(3_000));
    }
    assert_eq!(setter.ended().await.len(), 3);
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    on_time(&jobs, &due).await;
}
