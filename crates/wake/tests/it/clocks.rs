//! Processes whose clocks disagree: only the database's clock decides when work is due.

use std::time::Duration;

use reveille_pg::testing::{TestDb, WrongClock};
use tokio::time::Instant;

use crate::fixture::{options, start_connected, take};
use crate::process::{Process, jobs};

const HOUR: i64 = 3_600;
const DELAY: Duration = Duration::from_millis(1_500);

/// A process of the queue whose clock is this many seconds ahead.
fn jobs_ahead(clock: &WrongClock, db: &TestDb, seconds: i64, arguments: &[&str]) -> Process {
    let mut command = jobs(db, arguments);
    command.envs(clock.shifted_by(seconds));
    Process::start(command)
}

/// Delays and leases are the same for processes whose clocks are hours apart.
/// A process an hour ahead adds a delayed job; one an hour behind gets it on time and dies holding it; this one gets it
/// when that lease has ended.
#[tokio::test(flavor = "multi_thread")]
async fn processes_whose_clocks_disagree_agree_on_due_times_and_leases() {
    let db = TestDb::new().await;
    let Some(clock) = WrongClock::compile().await else { return };
    let here = start_connected(db.database(), db.schema(), options()).await;

    let behind = jobs_ahead(&clock, &db, -HOUR, &["work", "q", "--hold", "--lease-ms", "1500", "--idle-ms", "60000"]);
    assert_eq!(behind.line(0).await.1, "ready");
    let ahead = jobs_ahead(&clock, &db, HOUR, &["add", "q", "x", "--delay-ms", "1500"]);
    let (added, id) = ahead.line(0).await;
    let (claimed, line) = behind.line(1).await;
    assert_eq!(line, format!("{id} 1 x"));
    on_time(added, claimed);

    behind.kill().await;
    let job = take(&here, "q").await;
    on_time(claimed, Instant::now());
    assert_eq!((job.id.to_string(), job.attempt), (id, 2));
}

/// `then` is [`DELAY`] after `since`, within what a busy machine allows.
fn on_time(since: Instant, then: Instant) {
    let took = then - since;
    assert!(took > DELAY / 2 && took < DELAY * 10, "{took:?} instead of {DELAY:?}");
}
