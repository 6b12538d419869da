//! Retries: their number, and their exact times.

use reveille_flow::{AttemptResult, Failure, StepState, TaskState};

use crate::fixture::{Fixture, failure};

/// The pauses of each kind, read from the table: without jitter, and up to the limit.
#[tokio::test]
async fn pauses_are_exact() {
    for (kind, pauses) in [
        ("none", [0, 0, 0, 0, 0, 0]),
        ("linear", [100, 200, 300, 400, 500, 600]),
        ("exponential", [100, 200, 400, 800, 1_000, 1_000]),
        ("fibonacci", [100, 100, 200, 300, 500, 800]),
    ] {
        let retry = format!("{{backoff: {kind}, backoff_base_ms: 100, max_backoff_ms: 1000, max_attempts: 7}}");
        let flow = Fixture::with(&format!("[{{name: a, retry: {retry}}}]")).await;
        let task = flow.task().await;
        let pause = flow.db.schema().sql(
            "select round(extract(epoch from s.due_at - s.since) * 1000)::bigint from {schema}.step s where s.task_id = $1",
        );
        let due = flow.db.schema().sql("update {schema}.step set due_at = now() where task_id = $1");
        for (attempt, expected) in (1..).zip(pauses) {
            let step = flow.next().await;
            assert_eq!(step.attempt, attempt);
            assert_eq!(flow.fail(&step, true).await.step, StepState::WaitingForRetry);
            let pool = flow.db.database().pool();
            let pause: i64 = sqlx::query_scalar(&pause).bind(task).fetch_one(pool).await.expect("a pause");
            assert_eq!(pause, expected, "{kind}, attempt {attempt}");
            sqlx::query(&due).bind(task).execute(pool).await.expect("make it due");
        }
    }
}

/// Attempts are counted exactly: the last allowed one ends the step, and not the one before.
#[tokio::test]
async fn the_last_attempt_is_the_last() {
    for (retry, attempts) in
        [("{max_attempts: 3, backoff: none}", 3), ("{max_attempts: 1}", 1), ("{retryable: false, max_attempts: 5}", 1)]
    {
        let flow = Fixture::with(&format!("[{{name: a, retry: {retry}}}]")).await;
        let task = flow.task().await;
        for attempt in 1..=attempts {
            let step = flow.next().await;
            let outcome = flow.fail(&step, true).await;
            let last = attempt == attempts;
            assert_eq!(outcome.step, if last { StepState::Error } else { StepState::WaitingForRetry });
            assert_eq!(outcome.task, last.then_some(TaskState::Error), "{retry}, attempt {attempt}");
        }
        assert!(flow.now(1).await.is_empty());
        assert_eq!(flow.state_and_open_steps(task).await, ("error".to_owned(), 1));
    }
}

/// A failure that must not be retried ends the step at once, whatever attempts are left.
#[tokio::test]
async fn a_permanent_failure_is_not_retried() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.task().await;
    let outcome = flow.fail(&flow.next().await, false).await;
    assert_eq!((outcome.step, outcome.task), (StepState::Error, Some(TaskState::Error)));
}

/// A pause that the handler chooses replaces the template's, and a waiting claim gets the step when it is over.
#[tokio::test]
async fn a_handler_chooses_its_pause() {
    let flow = Fixture::with("[{name: a, retry: {backoff_base_ms: 60000}}]").await;
    flow.task().await;
    let said = Failure { retry_delay_ms: Some(300), ..failure(true) };
    let step = flow.next().await;
    // Measured from before the report: its response may be late on a busy machine.
    let since = tokio::time::Instant::now();
    flow.say(&step, AttemptResult::Failed(said)).await.expect("it counts");
    assert_eq!(flow.next().await.attempt, 2);
    let waited = since.elapsed().as_millis();
    assert!((300..30_000).contains(&waited), "{waited} ms");
}

/// Jitter changes a pause, by no more than its fraction.
#[tokio::test]
async fn jitter_stays_within_its_fraction() {
    let flow = Fixture::new().await;
    let sql = flow.db.schema().sql(
        "select min(p.ms), max(p.ms) from (select {schema}.backoff_ms('linear', 1000, 100000, 10, 0.2) as ms from generate_series(1, 500)) p",
    );
    let (least, most): (i64, i64) = sqlx::query_as(&sql).fetch_one(flow.db.database().pool()).await.expect("pauses");
    assert!((8_000..9_000).contains(&least) && (11_000..=12_000).contains(&most), "{least} to {most}");
}
