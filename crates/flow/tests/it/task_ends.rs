//! Ends of tasks by a time limit or an operator, and ends of attempts by a timeout.

use std::time::Duration;

use reveille_flow::{
    AttemptResult, ClaimRequest, ExecutionStatus, HealthStatus, InvestigationFilter, Operation, Outcome,
    RecommendedAction, Refused, TaskFilter, TaskState,
};
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Fixture, NAMESPACE, read, worker};
use crate::manual::who;

/// A step with this timeout of its attempts, and a retry a minute after a failure.
fn timed(seconds: &str, attempts: u32) -> String {
    format!(
        "[{{name: a, timeout_seconds: {seconds}, retry: {{max_attempts: {attempts}, backoff: linear, backoff_base_ms: 60000, jitter: 0}}}}]"
    )
}

impl Fixture {
    /// A task as it is shown, alone and in a list.
    async fn shown_task(&self, task: Uuid) -> (TaskState, ExecutionStatus, RecommendedAction, HealthStatus) {
        let alone = self.flow.task(task).await.expect("an answer").expect("a task").summary;
        let listed = self.tasks(&TaskFilter::default(), None, 100).await.expect("a list").tasks;
        let listed = listed.into_iter().find(|one| one.task_uuid == task).expect("it is listed");
        let of = |task: &reveille_flow::TaskSummary| {
            (task.status, task.execution_status, task.recommended_action, task.health_status)
        };
        assert_eq!(of(&alone), of(&listed));
        of(&alone)
    }

    /// Moves all times of a task into the past.
    async fn age(&self, task: Uuid, seconds: i32) {
        let interval = format!("interval '{seconds} s'");
        for sql in [
            format!("update {{schema}}.step set since = since - {interval} where task_id = $1"),
            format!(
                "update {{schema}}.task set created_at = created_at - {interval}, updated_at = updated_at - {interval},
                 due_at = due_at - {interval} where id = $1"
            ),
        ] {
            let sql = self.db.schema().sql(sql.leak());
            sqlx::query(&sql).bind(task).execute(self.db.database().pool()).await.expect("an older task");
        }
    }

    /// A task of two steps that exceeded its time while a worker had the first.
    async fn late() -> (Fixture, Uuid) {
        let flow = Fixture::new().await;
        let text = format!(
            "name: t\nnamespace_name: {NAMESPACE}\nidentity_strategy: always_unique\nlifecycle: {{max_duration_minutes: 1}}\n\
             steps: [{{name: a}}, {{name: b, dependencies: [a]}}]\n"
        );
        flow.register(&text).await.expect("a template");
        let task = flow.task().await;
        flow.next().await;
        flow.age(task, 61).await;
        let _orchestrator = flow.orchestrate();
        reveille_pg::testing::eventually("the task ends", async || flow.state_and_open_steps(task).await.0 == "error")
            .await;
        (flow, task)
    }
}

/// A task that was ended early is not shown as complete and healthy, but with the reason.
/// One task is cancelled, one takes too long, and one fails and is resolved manually.
#[tokio::test]
async fn an_ended_task_shows_how_it_ended() {
    let (flow, late) = Fixture::late().await;
    let shown = (TaskState::Error, ExecutionStatus::TimedOut, RecommendedAction::HandleFailures, HealthStatus::Blocked);
    assert_eq!(flow.shown_task(late).await, shown);

    let cancelled = flow.task().await;
    flow.cancel(cancelled, who()).await.expect("it is cancelled");
    let shown =
        (TaskState::Cancelled, ExecutionStatus::Cancelled, RecommendedAction::FinalizeTask, HealthStatus::Cancelled);
    assert_eq!(flow.shown_task(cancelled).await, shown);

    let resolved = flow.task().await;
    flow.fail(&flow.next().await, false).await;
    let shown = (
        TaskState::Error,
        ExecutionStatus::BlockedByFailures,
        RecommendedAction::HandleFailures,
        HealthStatus::Blocked,
    );
    assert_eq!(flow.shown_task(resolved).await, shown);
    flow.resolve(resolved, who()).await.expect("it is resolved");
    let shown = (
        TaskState::ResolvedManually,
        ExecutionStatus::ResolvedManually,
        RecommendedAction::FinalizeTask,
        HealthStatus::Healthy,
    );
    assert_eq!(flow.shown_task(resolved).await, shown);
}

/// An attempt that takes too long is recorded as timed out, with an error, and the next one waits for the backoff.
/// The lease is longer than the timeout, and the engine is the only one that can notice.
#[tokio::test]
async fn a_timed_out_attempt_is_recorded_and_backs_off() {
    let flow = Fixture::with(&timed("0.3", 2)).await;
    let _orchestrator = flow.orchestrate();
    let task = flow.task().await;
    let step = flow.next().await;
    reveille_pg::testing::eventually("the attempt ends", async || flow.states(task).await["a"] == "waiting_for_retry")
        .await;
    let audit = flow.audit(task, "a", 0, 100).await.expect("an answer").expect("a step").attempts;
    assert_eq!(audit.iter().map(|attempt| attempt.outcome).collect::<Vec<_>>(), [Outcome::TimedOut]);
    let error = read(audit[0].error.as_ref().expect("an error"));
    assert_eq!((&error["type"], &error["retryable"]), (&json!("timeout"), &json!(true)), "{error}");
    assert_eq!(error["message"], "the attempt exceeded its timeout of 300 ms");
    let pause = flow.db.schema().sql(
        "select round(extract(epoch from s.due_at - s.since) * 1000)::bigint from {schema}.step s where s.task_id = $1",
    );
    let pause: i64 = sqlx::query_scalar(&pause).bind(task).fetch_one(flow.db.database().pool()).await.expect("a pause");
    assert_eq!(pause, 60_000);
    assert!(flow.now(1).await.is_empty());
    assert_eq!(flow.say(&step, AttemptResult::Complete(json!(1).into())).await, Err(Refused::Lost));
    let shown = flow.flow.task(task).await.expect("an answer").expect("a task");
    assert_eq!(read(shown.steps[0].last_error.as_ref().expect("an error"))["type"], "timeout");
    assert_eq!(shown.summary.health_status, HealthStatus::Recovering);
    let moves = flow.transitions(task).await.expect("an answer").expect("a task");
    let moves: Vec<&str> = moves.iter().filter(|one| one.step.is_some()).map(|one| one.to).collect();
    assert_eq!(moves, ["pending", "enqueued", "in_progress", "waiting_for_retry"]);
}

/// A lease that is renewed beyond the timeout still ends with the timeout.
#[tokio::test]
async fn a_renewed_attempt_times_out() {
    let flow = Fixture::with(&timed("0.6", 2)).await;
    let _orchestrator = flow.orchestrate();
    let task = flow.task().await;
    let short = ClaimRequest { lease: Duration::from_millis(500), ..worker() };
    let step = flow.claim(&short, 1, None).await.expect("a claim").remove(0);
    let alive = reveille_flow::Renewal { token: step.token, lease: Duration::from_secs(60), checkpoint: None };
    assert_eq!(flow.heartbeat(vec![alive]).await.expect("an answer"), [Ok(())]);
    reveille_pg::testing::eventually("the attempt ends", async || flow.states(task).await["a"] == "waiting_for_retry")
        .await;
    assert_eq!(flow.attempts(task).await, [(1, "timed_out".to_owned())]);
}

/// The lost lease of a dead worker is no timeout: its step is ready again at once, without a backoff.
#[tokio::test]
async fn a_lost_lease_is_no_timeout() {
    let flow = Fixture::with(&timed("30", 2)).await;
    let task = flow.task().await;
    let short = ClaimRequest { lease: Duration::from_millis(100), ..worker() };
    flow.claim(&short, 1, None).await.expect("a claim").remove(0);
    assert_eq!(flow.next().await.attempt, 2);
    assert_eq!(flow.attempts(task).await, [(1, "lease_ended".to_owned())]);
}

/// Every report after the timeout is rejected, even before the engine has noticed the timeout: no orchestrator runs.
#[tokio::test]
async fn a_report_after_the_timeout_is_refused() {
    let flow = Fixture::with(&timed("30", 2)).await;
    let task = flow.task().await;
    let step = flow.next().await;
    flow.age(task, 31).await;
    let checkpoint = serde_json::value::to_raw_value(&7).expect("JSON");
    for said in [
        AttemptResult::Complete(json!(1).into()),
        AttemptResult::Failed(crate::fixture::failure(false)),
        AttemptResult::Yielded(checkpoint),
        AttemptResult::GivenBack,
    ] {
        let words = format!("{said:?}");
        assert_eq!(flow.say(&step, said).await, Err(Refused::Lost), "{words}");
    }
    assert_eq!(flow.state_and_open_steps(task).await, ("open".to_owned(), 1));
    assert_eq!(flow.states(task).await["a"], "in_progress", "the engine ends it");
}

/// A last attempt that times out fails the step, with the timeout as its error, and causes an investigation.
#[tokio::test]
async fn a_last_attempt_that_times_out_fails() {
    let flow = Fixture::with(&timed("30", 1)).await;
    let task = flow.task().await;
    flow.next().await;
    flow.age(task, 31).await;
    let due = flow.db.schema().sql("update {schema}.step set due_at = now() where task_id = $1");
    sqlx::query(&due).bind(task).execute(flow.db.database().pool()).await.expect("it is due");
    let _orchestrator = flow.orchestrate();
    reveille_pg::testing::eventually("the task ends", async || flow.state_and_open_steps(task).await.0 == "error")
        .await;
    let audit = flow.audit(task, "a", 0, 100).await.expect("an answer").expect("a step").attempts;
    assert_eq!(audit[0].outcome, Outcome::TimedOutForGood);
    let entry = flow.investigations(&InvestigationFilter::default(), 10).await.expect("a list").entries.remove(0);
    assert_eq!((entry.task_uuid, entry.reason.as_str()), (task, "retries_exhausted"));
    assert_eq!(read(&entry.snapshot)["error"]["type"], "timeout");
}

/// A task that took too long can be resumed: cancelled steps are open again, it has its full time, and it can be
/// completed. Its history has all of that.
#[tokio::test]
async fn a_task_that_took_too_long_can_be_resumed() {
    let (flow, task) = Fixture::late().await;
    assert_eq!(flow.states(task).await.into_values().collect::<Vec<_>>(), ["cancelled", "cancelled"]);
    let resumed = flow.resume(task, who()).await.expect("it continues");
    assert_eq!((resumed.status, resumed.execution_status), (TaskState::EnqueuingSteps, ExecutionStatus::HasReadySteps));
    flow.check_invariants(task, "the resumption").await;
    let sql = flow.db.schema().sql(
        "select t.due_at between now() + interval '50 s' and now() + interval '60 s' from {schema}.task t where t.id = $1",
    );
    let extended: bool =
        sqlx::query_scalar(&sql).bind(task).fetch_one(flow.db.database().pool()).await.expect("a time");
    assert!(extended, "it has its minute again");
    assert_eq!(flow.waves().await, [["a"], ["b"]]);
    assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
    let moves = flow.transitions(task).await.expect("an answer").expect("a task");
    let of = |step: Option<&str>| -> Vec<&str> {
        moves.iter().filter(|one| one.step.as_deref() == step).map(|one| one.to).collect()
    };
    assert_eq!(of(Some("a"))[..5], ["pending", "enqueued", "in_progress", "cancelled", "pending"]);
    assert_eq!(of(Some("b"))[..3], ["pending", "cancelled", "pending"]);
    assert!(of(None).contains(&"error"), "{:?}", of(None));
    assert_eq!(of(None).last(), Some(&"complete"));
    let refused = flow.resume(task, who()).await.expect_err("it is complete");
    assert!(matches!(refused, reveille_flow::Error::NotAllowed { operation: "resume", .. }), "{refused}");
}

/// Every operation on one step resumes a task that took too long.
#[tokio::test]
async fn an_operation_on_a_step_resumes_a_late_task() {
    for operation in [
        Operation::ResetForRetry,
        Operation::ResolveManually,
        Operation::CompleteManually { result: json!("by hand").into() },
    ] {
        let (flow, task) = Fixture::late().await;
        let reset = operation == Operation::ResetForRetry;
        flow.operate(task, "a", operation, who()).await.expect("it continues");
        flow.check_invariants(task, "the operation").await;
        let waves = flow.waves().await;
        assert_eq!(waves.concat(), if reset { vec!["a", "b"] } else { vec!["b"] });
        assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
    }
}

/// A task in which a step failed is resumed with that step, and all others that failed with it.
#[tokio::test]
async fn a_failed_task_can_be_resumed() {
    let flow = Fixture::with("[{name: a}, {name: b}, {name: c, dependencies: [a, b]}]").await;
    let task = flow.task().await;
    let steps = flow.now(2).await;
    flow.fail(&steps[0], false).await;
    flow.fail(&steps[1], false).await;
    flow.resume(task, who()).await.expect("it continues");
    flow.check_invariants(task, "the resumption").await;
    assert_eq!(flow.waves().await, [vec!["a", "b"], vec!["c"]]);
    assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
}
