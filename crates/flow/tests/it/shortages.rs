//! A server that is short of something: callers are answered in time, and nothing is lost.

use std::time::Duration;

use reveille_flow::{AttemptResult, StepReport};
use reveille_pg::shortage::{self, Shortage};
use serde_json::json;
use tokio::time::Instant;

use crate::fixture::{Fixture, submission};

/// How long a call may take while the disk is full: what it is worth waiting, and a busy machine.
const IN_TIME: Duration = Duration::from_secs(15);

/// A submission and the word of a worker fail in time while the disk is full, as something that passes. When there is room both count, once.
/// A trigger raises the server's error for whatever is written into a table.
#[tokio::test]
async fn submitting_and_settling_on_a_full_disk_fail_in_time() {
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    let step = flow.next().await;

    flow.db.fail_writes("task", "53100").await;
    let since = Instant::now();
    let failed = flow.submit(submission("t", json!({}))).await.expect_err("the disk is full");
    assert!(failed.is_transient() && since.elapsed() < IN_TIME, "{failed:?} after {:?}", since.elapsed());
    flow.db.fail_writes("attempt", "53100").await;
    let settle = async || {
        flow.report(vec![StepReport { token: step.token, result: AttemptResult::Complete(json!(1).into()) }]).await
    };
    let failed = settle().await.expect_err("the disk is full");
    assert!(failed.is_transient() && since.elapsed() < IN_TIME, "{failed:?} after {:?}", since.elapsed());
    assert_eq!(shortage::current(), Some(Shortage::DiskFull));

    flow.db.allow_writes("task").await;
    flow.db.allow_writes("attempt").await;
    settle().await.expect("an answer").remove(0).expect("it counts");
    assert_eq!(flow.standing(task).await.1, 0, "the task is done");
    flow.submit(submission("t", json!({}))).await.expect("a task");
    assert_eq!(shortage::current(), None);
}
