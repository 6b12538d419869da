//! A server without some resource: callers are answered in time, and no work is lost.

use std::time::Duration;

use reveille_flow::{AttemptResult, StepReport};
use reveille_pg::shortage::{self, Shortage};
use serde_json::json;
use tokio::time::Instant;

use crate::fixture::{Fixture, submission};

/// How long a call may take while the disk is full: the retries, and a busy machine.
const IN_TIME: Duration = Duration::from_secs(15);

/// A submission and a report fail in time while the disk is full, as transient. When there is space both are applied,
/// once.
/// A trigger raises the server's error for every write to a table.
#[tokio::test]
async fn submissions_and_reports_on_a_full_disk_fail_in_time() {
    let flow = Fixture::with("[{name: a}]").await;
    let task = flow.task().await;
    let step = flow.next().await;

    flow.db.fail_writes("task", "53100").await;
    let since = Instant::now();
    let failed = flow.submit(submission("t", json!({}))).await.expect_err("the disk is full");
    assert!(failed.is_transient() && since.elapsed() < IN_TIME, "{failed:?} after {:?}", since.elapsed());
    flow.db.fail_writes("attempt", "53100").await;
    let report = async || {
        flow.report(vec![StepReport { token: step.token, result: AttemptResult::Complete(json!(1).into()) }]).await
    };
    let failed = report().await.expect_err("the disk is full");
    assert!(failed.is_transient() && since.elapsed() < IN_TIME, "{failed:?} after {:?}", since.elapsed());
    assert_eq!(shortage::current(), Some(Shortage::DiskFull));

    flow.db.allow_writes("task").await;
    flow.db.allow_writes("attempt").await;
    report().await.expect("an answer").remove(0).expect("it counts");
    assert_eq!(flow.state_and_open_steps(task).await.1, 0, "the task is done");
    flow.submit(submission("t", json!({}))).await.expect("a task");
    assert_eq!(shortage::current(), None);
}
