//! Several processes on one queue: they notify each other, and one finds what another has left behind.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reveille_pg::embedded::{Installation, Wanted};
use reveille_pg::testing::TestDb;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::fixture::{LEASE, NEVER, OtherProgram, eventually, options, start_connected, waiter, waiting};
use crate::jobs::Jobs;
use crate::process::{Process, jobs};

/// A job added by one process reaches a waiter of another at once.
/// The waiter does not poll and has no fallback; the time counts from the other process's report of its commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_wakes_the_first() {
    let db = TestDb::new().await;
    let here = start_connected(db.database(), db.schema(), options()).await;
    for _ in 0..3 {
        let waits = waiter(&here, "q");
        waiting(&here, 1).await;
        let other = Process::start(jobs(&db, &["add", "q", "hello"]));
        let (committed, id) = other.line(0).await;
        let job = waits.await.expect("served");
        assert_eq!((job.id.to_string(), job.body.as_str()), (id, "hello"));
        assert!(committed.elapsed() < Duration::from_secs(20), "after {:?}", committed.elapsed());
        other.ended().await;
        assert!(!here.claims.health().polling);
    }
}

/// The example without a command demonstrates the queue and checks its results.
/// It runs to its end and prints each of its steps.
#[tokio::test]
async fn the_example_runs() {
    let db = TestDb::new().await;
    let demo = Process::start(jobs(&db, &[]));
    let steps =
        ["\"now\"", "\"later\"", "attempt 1", "attempt 2", "attempt 3", "that dies", "\"orphan\" again", "done"];
    for (number, step) in steps.into_iter().enumerate() {
        let (_, said) = demo.line(number).await;
        assert!(said.contains(step), "{said:?} instead of {step:?}");
    }
    demo.ended().await;
}

/// Jobs added here are worked on by another process, which waits for them.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_process_wakes_the_second() {
    let db = TestDb::new().await;
    let here = start_connected(db.database(), db.schema(), options()).await;
    let worker = Process::start(jobs(&db, &["work", "q", "--idle-ms", "60000"]));
    assert_eq!(worker.line(0).await.1, "ready");
    for number in 1..=5 {
        let id = here.enqueue("q", "there", Duration::ZERO).await.expect("added");
        assert_eq!(worker.line(number).await.1, format!("{id} 1 there"));
    }
}

/// `psql` of the installation that the tests run on; `None` if the machine has none.
async fn psql() -> Option<PathBuf> {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let bin = match (variable("REVEILLE_PG_BIN"), variable("REVEILLE_TEST_PG")) {
        (Some(bin), _) => Some(PathBuf::from(bin)),
        (None, Some(major)) => {
            let major = major.parse().expect("REVEILLE_TEST_PG is a major version");
            Installation::find(Wanted::exactly(major)).await.ok().map(|found| found.bin)
        }
        (None, None) => Installation::find(Wanted::default()).await.ok().map(|found| found.bin),
    };
    // Not every installation has its clients beside the server; any psql is good enough.
    let path = std::env::var_os("PATH").unwrap_or_default();
    bin.into_iter().chain(std::env::split_paths(&path)).map(|bin| bin.join("psql")).find(|psql| psql.is_file())
}

/// Rows inserted and rescheduled by hand wake waiters like any other.
/// A real psql, or a plain connection where there is none, adds a job and makes one due that was due in an hour.
#[tokio::test(flavor = "multi_thread")]
async fn rows_changed_with_psql_wake_waiters() {
    let db = TestDb::new().await;
    let psql = psql().await;
    let here = start_connected(db.database(), db.schema(), options()).await;
    let run = async |sql: &str| {
        let Some(psql) = &psql else { return OtherProgram::of(&db).await.ask::<i64>(sql).await };
        let sql = db.schema().sql(sql);
        let mut command = Command::new(psql);
        command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"]);
        command.args(["--command", sql.as_str(), "--dbname", db.url()]).stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output().await.expect("psql runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("an id")
    };

    let waits = waiter(&here, "q");
    waiting(&here, 1).await;
    let id = run("insert into {schema}.job (queue, body) values ('q', 'by hand') returning id").await;
    assert_eq!(waits.await.expect("served").id, id);

    let id = here.enqueue("q", "much later", NEVER).await.expect("added");
    let waits = waiter(&here, "q");
    // Past the recheck that follows a notification, which must not be what finds it.
    sleep(reveille_wake::TRAILING + Duration::from_millis(200)).await;
    waiting(&here, 1).await;
    run(&format!("update {{schema}}.job set due_at = now() where id = {id} returning id")).await;
    assert_eq!(waits.await.expect("served").id, id);
}

/// Claims every job and collects the ids.
fn claim_all(jobs: &Jobs) -> Arc<Mutex<HashSet<i64>>> {
    let had: Arc<Mutex<HashSet<i64>>> = Arc::default();
    for _ in 0..2 {
        let (jobs, had) = (jobs.clone(), had.clone());
        tokio::spawn(async move {
            loop {
                let claimed = jobs.claims.claim("q".to_owned(), 500, LEASE, Instant::now() + NEVER).await;
                let Ok(Some(claimed)) = claimed else { return };
                had.lock().expect("no panic").extend(claimed.accept().iter().map(|job| job.id));
            }
        });
    }
    had
}

/// The writes of a sender killed between commit and notification are found soon.
/// A process that adds jobs so fast that it notifies after its commits is killed at random moments; everything it
/// reported as committed is claimed soon after, without fallback or aggressive polling.
#[tokio::test(flavor = "multi_thread")]
async fn a_sender_killed_between_commit_and_notification_loses_nothing() {
    let db = TestDb::new().await;
    let here = start_connected(db.database(), db.schema(), options()).await;
    let had = claim_all(&here);
    for round in 0..6 {
        let sender = Process::start(jobs(&db, &["flood", "q", "8"]));
        sender.line(100).await;
        sleep(Duration::from_millis(fastrand::u64(50..400))).await;
        let committed = sender.kill().await;
        let killed = Instant::now();
        eventually("everything committed is claimed", async || committed.is_subset(&had.lock().expect("no panic")))
            .await;
        assert!(killed.elapsed() < Duration::from_secs(20), "round {round}: {:?}", killed.elapsed());
        assert!(!here.claims.health().polling);
    }
    here.claims.close().await;
}
