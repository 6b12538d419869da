//! Processes whose clocks disagree: only the database's clock decides when work is due.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pg::testing::TestDb;
use tokio::process::Command;
use tokio::time::Instant;

use crate::fixture::{options, start_hearing, take};
use crate::process::{Process, jobs};

/// A library that sets a process's wall clock wrong. Removed when dropped.
struct WrongClock(PathBuf);

impl WrongClock {
    /// Compiled by the C compiler that Rust links with; `None`, with a line that the test is skipped, where there is none or where
    /// libraries cannot be put before others.
    async fn compile() -> Option<WrongClock> {
        let unique = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
        let library = std::env::temp_dir().join(format!("wrong-clock-{}-{unique}.so", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clock.c");
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status().await;
        if cfg!(target_os = "linux") && compiled.is_ok_and(|status| status.success()) {
            return Some(WrongClock(library));
        }
        pg::testing::skip("a C compiler on Linux")
    }

    /// A process of the queue whose clock is off by so many seconds.
    fn jobs(&self, db: &TestDb, seconds: i64, arguments: &[&str]) -> Process {
        let mut command = jobs(db, arguments);
        command.env("LD_PRELOAD", &self.0).env("CLOCK_SKEW", seconds.to_string());
        Process::start(command)
    }
}

impl Drop for WrongClock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const HOUR: i64 = 3_600;
const DELAY: Duration = Duration::from_millis(1_500);

/// Delays and leases are the same for processes whose clocks are hours apart.
/// One process an hour ahead adds a delayed job; one an hour behind gets it on time and dies holding it; this one gets it when that
/// lease has ended.
#[tokio::test(flavor = "multi_thread")]
async fn processes_whose_clocks_disagree_agree_on_due_times_and_leases() {
    let db = TestDb::new().await;
    let Some(clock) = WrongClock::compile().await else { return };
    let here = start_hearing(db.database(), db.schema(), options()).await;

    let behind = clock.jobs(&db, -HOUR, &["work", "q", "--hold", "--lease-ms", "1500", "--idle-ms", "60000"]);
    assert_eq!(behind.line(0).await.1, "ready");
    let ahead = clock.jobs(&db, HOUR, &["add", "q", "x", "--delay-ms", "1500"]);
    let (added, id) = ahead.line(0).await;
    let (had, said) = behind.line(1).await;
    assert_eq!(said, format!("{id} 1 x"));
    on_time(added, had);

    behind.kill().await;
    let job = take(&here, "q").await;
    on_time(had, Instant::now());
    assert_eq!((job.id.to_string(), job.attempt), (id, 2));
}

/// The shim does what the test above relies on: a program under it reads another time.
/// Asks `date`.
#[tokio::test]
async fn a_wrong_clock_is_wrong() {
    let Some(clock) = WrongClock::compile().await else { return };
    let mut date = Command::new("date");
    date.arg("+%s").env("LD_PRELOAD", &clock.0).env("CLOCK_SKEW", HOUR.to_string());
    let said = String::from_utf8(date.output().await.expect("date runs").stdout).expect("digits");
    let said: i64 = said.trim().parse().expect("seconds");
    let here = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
    assert!((said - here - HOUR).abs() < 60, "{said} is not an hour after {here}");
}

/// `then` is [`DELAY`] after `since`, as far as a busy machine lets it be.
fn on_time(since: Instant, then: Instant) {
    let took = then - since;
    assert!(took > DELAY / 2 && took < DELAY * 3, "{took:?} instead of {DELAY:?}");
}
