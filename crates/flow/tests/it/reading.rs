//! Reading tasks and steps.

use std::time::Duration;

use reveille_flow::{
    AttemptResult, ClaimRequest, ExecutionStatus, Failure, HealthStatus, Outcome, RecommendedAction, StepState,
    Submission, TaskState,
};
use serde_json::{Value, json, value::RawValue};
use uuid::Uuid;

use crate::fixture::{Fixture, failure, read, submission, worker};

/// A task as the API writes it.
async fn shown(flow: &Fixture, task: Uuid) -> Value {
    serde_json::to_value(flow.flow.task(task).await.expect("an answer").expect("a task")).expect("JSON")
}

/// A task has all documented fields, from its submission to its end.
#[tokio::test]
async fn a_task_is_shown_in_full() {
    let flow = Fixture::with("[{name: a, retry: {max_attempts: 2}}, {name: b, dependencies: [a]}]").await;
    let submitted = Submission {
        initiator: Some("me".to_owned()),
        source_system: Some("here".to_owned()),
        reason: Some("why not".to_owned()),
        tags: vec!["x".to_owned(), "y".to_owned()],
        priority: 3,
        correlation_id: Some("c".to_owned()),
        parent_correlation_id: Some("p".to_owned()),
        ..submission("t", json!({"a": [1, 2]}))
    };
    let task = flow.submit(submitted).await.expect("a task").task_uuid;
    let shown_now = shown(&flow, task).await;
    let named: Vec<&str> = shown_now.as_object().expect("an object").keys().map(String::as_str).collect();
    let promised = "task_uuid name namespace version status created_at updated_at completed_at context initiator \
        source_system reason priority tags correlation_id parent_correlation_id total_steps pending_steps \
        in_progress_steps completed_steps failed_steps ready_steps execution_status recommended_action \
        completion_percentage health_status steps";
    let mut promised: Vec<&str> = promised.split_whitespace().collect();
    promised.sort_unstable();
    let mut named_sorted = named.clone();
    named_sorted.sort_unstable();
    assert_eq!(named_sorted, promised);
    for (name, value) in [
        ("task_uuid", json!(task)),
        ("name", json!("t")),
        ("namespace", json!("tests")),
        ("version", json!("1.0.0")),
        ("status", json!("enqueuing_steps")),
        ("completed_at", json!(null)),
        ("context", json!({"a": [1, 2]})),
        ("initiator", json!("me")),
        ("source_system", json!("here")),
        ("reason", json!("why not")),
        ("priority", json!(3)),
        ("tags", json!(["x", "y"])),
        ("correlation_id", json!("c")),
        ("parent_correlation_id", json!("p")),
        ("total_steps", json!(2)),
        ("pending_steps", json!(2)),
        ("ready_steps", json!(1)),
        ("execution_status", json!("has_ready_steps")),
        ("recommended_action", json!("execute_ready_steps")),
        ("completion_percentage", json!(0.0)),
        ("health_status", json!("healthy")),
    ] {
        assert_eq!(shown_now[name], value, "{name}");
    }
    assert!(shown_now["created_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{}", shown_now["created_at"]);
    flow.waves().await;
    let task = flow.flow.task(task).await.expect("an answer").expect("a task").summary;
    assert_eq!((task.status, task.completed_steps, task.completion_percentage), (TaskState::Complete, 2, 100.0));
    assert_eq!(task.recommended_action, RecommendedAction::FinalizeTask);
    assert!(task.completed_at.is_some_and(|at| at >= task.created_at));
}

/// The shown states follow the task and its steps: claimed, failed, waiting for a retry, failed permanently.
#[tokio::test]
async fn a_task_follows_its_steps() {
    let retry = "retry: {max_attempts: 2, backoff_base_ms: 3600000, max_backoff_ms: 3600000}";
    let flow = Fixture::with(&format!("[{{name: a, {retry}}}, {{name: b, dependencies: [a]}}]")).await;
    let task = flow.task().await;
    let read_task = async || flow.flow.task(task).await.expect("an answer").expect("a task");
    let step = flow.next().await;
    let now = read_task().await;
    assert_eq!((now.summary.status, now.summary.in_progress_steps), (TaskState::StepsInProcess, 1));
    assert_eq!(now.summary.execution_status, ExecutionStatus::Processing);
    let a = &now.steps[0];
    assert_eq!((a.name.as_str(), a.state, a.attempts, a.max_attempts), ("a", StepState::InProgress, 1, 2));
    assert_eq!((a.worker.as_deref(), a.ended_at), (Some("tester"), None));
    assert!(a.claimed_at >= a.ready_at && a.ready_at.is_some() && a.next_due_at > a.claimed_at);
    let b = &now.steps[1];
    assert_eq!((b.state, &b.dependencies, b.ready_at), (StepState::Pending, &vec!["a".to_owned()], None));

    flow.fail(&step, true).await;
    let now = read_task().await;
    assert_eq!((now.summary.status, now.summary.health_status), (TaskState::WaitingForRetry, HealthStatus::Recovering));
    assert_eq!(now.steps[0].state, StepState::WaitingForRetry);
    assert!(now.steps[0].next_due_at > now.steps[0].claimed_at);
    assert_eq!(read(now.steps[0].last_error.as_ref().expect("an error"))["message"], "broken");

    let due = flow
        .db
        .schema()
        .sql("update {schema}.step set due_at = now() where task_id = $1 and state = 'waiting_for_retry'");
    sqlx::query(&due).bind(task).execute(flow.db.database().pool()).await.expect("time passes");
    let now = read_task().await;
    assert_eq!((now.summary.status, now.summary.ready_steps), (TaskState::EnqueuingSteps, 1), "it is due");
    flow.fail(&flow.next().await, true).await;
    let now = read_task().await;
    assert_eq!((now.summary.status, now.summary.failed_steps), (TaskState::Error, 1));
    assert_eq!(now.summary.recommended_action, RecommendedAction::HandleFailures);
    assert_eq!((now.steps[0].state, now.steps[0].attempts), (StepState::Error, 2));
    assert!(now.steps[0].ended_at.is_some());
}

/// Absent steps are neither shown nor counted; parts of a batch are steps with numbers.
#[tokio::test]
async fn absent_steps_are_not_shown() {
    let flow = Fixture::with(
        "[{name: route, type: decision}, {name: left, dependencies: [route]}, {name: right, dependencies: [route]},
          {name: split, type: batchable, dependencies: [left], batch_config: {worker_template: rows}},
          {name: rows, type: batch_worker, dependencies: [split]},
          {name: end, type: deferred_convergence, dependencies: [rows, right]}]",
    )
    .await;
    let task = flow.task().await;
    let names = async || {
        let task = flow.flow.task(task).await.expect("an answer").expect("a task");
        assert_eq!(task.summary.total_steps as usize, task.steps.len());
        task.steps.into_iter().map(|step| step.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names().await, "route");
    assert!(flow.flow.step(task, "left").await.expect("an answer").is_none());
    let chosen = json!({"decision_point_outcome": {"type": "create_steps", "step_names": ["left"]}});
    flow.complete(&flow.next().await, chosen).await;
    assert_eq!(names().await, "route left split");
    flow.complete(&flow.next().await, json!(1)).await;
    let parts = json!({"batch_processing_outcome": {"type": "create_batches", "cursor_configs": [1, 2]}});
    flow.complete(&flow.next().await, parts).await;
    assert_eq!(names().await, "route left split rows_001 rows_002 end");
    let second = flow.flow.step(task, "rows_002").await.expect("an answer").expect("a step");
    assert_eq!((second.name.as_str(), read(second.input.as_ref().expect("an input"))), ("rows_002", json!(2)));
    for nothing in ["rows", "rows_003", "rows_x", "left_001", "nowhere"] {
        assert!(flow.flow.step(task, nothing).await.expect("an answer").is_none(), "{nothing}");
    }
    flow.waves().await;
    assert_eq!(flow.summary(task).await.expect("an answer").expect("a task").status, TaskState::Complete);
}

/// A failed part of a batch that continues without it is no failure of its task.
#[tokio::test]
async fn a_spared_part_is_no_failure() {
    let flow = Fixture::with(
        "[{name: split, type: batchable, batch_config: {worker_template: rows, failure_strategy: continue_on_failure}},
          {name: rows, type: batch_worker, retry: {max_attempts: 1}, dependencies: [split]}]",
    )
    .await;
    let task = flow.task().await;
    let parts = json!({"batch_processing_outcome": {"type": "create_batches", "cursor_configs": [1, 2]}});
    flow.complete(&flow.next().await, parts).await;
    flow.fail(&flow.next().await, false).await;
    let now = flow.flow.task(task).await.expect("an answer").expect("a task").summary;
    assert_eq!((now.failed_steps, now.status, now.total_steps), (0, TaskState::EnqueuingSteps, 3));
    assert_eq!(flow.summary(task).await.expect("an answer"), Some(now));
}

/// A step shows the results of its attempts, and the audit lists every attempt.
#[tokio::test]
async fn every_attempt_is_in_the_audit() {
    let flow = Fixture::with("[{name: a, retry: {max_attempts: 3, backoff: none}}]").await;
    let task = flow.task().await;
    assert_eq!(flow.audit(task, "a", 0, 100).await.expect("an answer").expect("a step").attempts.len(), 0);
    flow.say(&flow.next().await, AttemptResult::GivenBack).await.expect("it counts");
    let half = RawValue::from_string("{\"at\":5}".to_owned()).expect("JSON");
    flow.say(&flow.next().await, AttemptResult::Yielded(half)).await.expect("it counts");
    flow.say(&flow.next().await, AttemptResult::Failed(failure(true))).await.expect("it counts");
    let short = ClaimRequest { name: "dying".to_owned(), lease: Duration::from_millis(100), ..worker() };
    assert_eq!(flow.claim(&short, 1, None).await.expect("a claim").len(), 1);
    let last = flow.next().await;
    let audit = flow.audit(task, "a", 0, 100).await.expect("an answer").expect("a step").attempts;
    let outcomes: Vec<Outcome> = audit.iter().map(|one| one.outcome).collect();
    use Outcome::*;
    assert_eq!(outcomes, [GivenBack, Yielded, Failed, LeaseEnded, InProgress]);
    let attempts: Vec<u32> = audit.iter().map(|one| one.attempt).collect();
    assert_eq!(attempts, [1, 1, 1, 2, 3]);
    assert_eq!(audit[3].worker.as_deref(), Some("dying"));
    assert!(audit[3].duration_ms.is_some_and(|ms| (100..200).contains(&ms)), "as long as its lease");
    assert_eq!(read(audit[2].error.as_ref().expect("an error"))["message"], "broken");
    assert!(audit[4].ended_at.is_none() && audit[4].duration_ms.is_none());
    flow.complete(&last, json!({"b": 2})).await;
    let audit = flow.audit(task, "a", 0, 100).await.expect("an answer").expect("a step").attempts;
    assert_eq!((audit[4].outcome, audit.len()), (Complete, 5));
    assert_eq!(read(audit[4].result.as_ref().expect("a result")), json!({"b": 2}));
    let step = flow.flow.step(task, "a").await.expect("an answer").expect("a step");
    assert_eq!((step.state, step.attempts), (StepState::Complete, 3));
    assert_eq!(read(step.result.as_ref().expect("a result")), json!({"b": 2}));
    assert_eq!(read(step.checkpoint.as_ref().expect("a checkpoint")), json!({"at": 5}));
}

/// Every read of an unknown task returns nothing.
#[tokio::test]
async fn unknown_tasks_are_not_found() {
    let flow = Fixture::with("[{name: a}]").await;
    let unknown = Uuid::now_v7();
    assert!(flow.flow.task(unknown).await.expect("an answer").is_none());
    assert!(flow.summary(unknown).await.expect("an answer").is_none());
    assert!(flow.flow.steps(unknown, None, 10).await.expect("an answer").is_none());
    assert!(flow.flow.step(unknown, "a").await.expect("an answer").is_none());
    assert!(flow.audit(unknown, "a", 0, 100).await.expect("an answer").is_none());
    assert!(flow.transitions(unknown).await.expect("an answer").is_none());
}

/// A task of many steps is read page by page: its counts are of all of them.
#[tokio::test]
async fn a_large_task_is_read_in_pages() {
    let steps: Vec<String> = (0..2_000).map(|step| format!("{{name: s{step}}}")).collect();
    let flow = Fixture::with(&format!("[{}]", steps.join(", "))).await;
    let task = flow.task().await;
    let read = flow.flow.task(task).await.expect("an answer").expect("a task");
    assert_eq!((read.steps.len(), read.summary.ready_steps, read.summary.total_steps), (1_000, 2_000, 2_000));
    assert_eq!(read.steps_next.as_deref(), Some("s999"));
    let page = async |after: Option<&str>, limit| {
        let page = flow.flow.steps(task, after, limit).await.expect("an answer").expect("a task");
        (page.steps.first().map(|step| step.name.clone()), page.steps.len(), page.next)
    };
    assert_eq!(page(Some("s999"), 1_000).await, (Some("s1000".to_owned()), 1_000, None));
    assert_eq!(page(Some("s1998"), 10).await, (Some("s1999".to_owned()), 1, None));
    assert_eq!(page(Some("s1999"), 10).await, (None, 0, None));
    assert_eq!(page(None, 3).await, (Some("s0".to_owned()), 3, Some("s2".to_owned())));
    flow.flow.steps(task, Some("x"), 10).await.expect_err("no such step");
    flow.flow.steps(task, None, 1_001).await.expect_err("too many");

    let all = flow.transitions(task).await.expect("an answer").expect("a task");
    assert_eq!(all.len(), 2 * 2_000 + 3);
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = flow.transitions_after(task, after.as_ref(), 1_000).await.expect("an answer").expect("a task");
        assert!(page.transitions.len() <= 1_000);
        seen.extend(page.transitions);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, all);
}

/// Parts of a batch are read page by page in their order, and the values of a page have at most 16 MiB.
/// Two parts have a result of 9 MiB each, and one an error after them; attempts of one step are paged in the same way.
#[tokio::test]
async fn pages_are_bounded_in_bytes() {
    let flow = Fixture::with(
        "[{name: split, type: batchable, batch_config: {worker_template: rows}},
          {name: rows, type: batch_worker, dependencies: [split], retry: {max_attempts: 9, backoff: none}}]",
    )
    .await;
    let task = flow.task().await;
    let parts = json!({"batch_processing_outcome": {"type": "create_batches", "cursor_configs": [1, 2, 3]}});
    flow.complete(&flow.next().await, parts).await;
    let large = json!("x".repeat(9 << 20));
    let mut rows = flow.now(3).await;
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    let third = rows.pop().expect("a part");
    for part in &rows {
        flow.complete(part, large.clone()).await;
    }
    let page = async |after: Option<&str>| {
        let page = flow.flow.steps(task, after, 10).await.expect("an answer").expect("a task");
        (page.steps.iter().map(|step| step.name.clone()).collect::<Vec<_>>().join(" "), page.next)
    };
    assert_eq!(page(None).await, ("split rows_001".to_owned(), Some("rows_001".to_owned())));
    assert_eq!(page(Some("rows_001")).await, ("rows_002 rows_003".to_owned(), None));
    let task_read = flow.flow.task(task).await.expect("an answer").expect("a task");
    assert_eq!((task_read.steps.len(), task_read.steps_next.as_deref()), (2, Some("rows_001")));

    let mut failing = third;
    for _ in 0..3 {
        let context = Some(large.clone().into());
        flow.say(&failing, AttemptResult::Failed(Failure { context, ..failure(true) })).await.expect("it counts");
        failing = flow.next().await;
    }
    let audit = async |after, limit| {
        let page = flow.audit(task, "rows_003", after, limit).await.expect("an answer").expect("a step");
        (page.attempts.iter().map(|one| one.outcome).collect::<Vec<_>>(), page.next)
    };
    use Outcome::{Failed, InProgress};
    assert_eq!(audit(0, 10).await, (vec![Failed], Some(1)));
    assert_eq!(audit(2, 10).await, (vec![Failed, InProgress], None));
    assert_eq!(audit(1, 1).await, (vec![Failed], Some(2)));
    assert_eq!(audit(4, 10).await, (vec![], None));
}
