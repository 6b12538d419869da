//! Manual operations on steps and tasks, and their effect on workers.

use std::time::Duration;

use reveille_flow::{
    AttemptResult, ClaimRequest, Error, Obstacle, Operation, Operator, Refused, Renewal, StepState, TaskState,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fixture::{Fixture, read, worker};

pub(crate) fn who() -> Operator {
    Operator { name: "ann".to_owned(), reason: Some("it was investigated".to_owned()) }
}

fn completed(result: Value) -> Operation {
    Operation::CompleteManually { result: result.into() }
}

impl Fixture {
    /// Applies an operation to a step, which must succeed and leave a consistent task.
    async fn done(&self, task: Uuid, step: &str, operation: Operation) -> (StepState, StepState, Option<TaskState>) {
        let text = format!("{operation:?} of {step}");
        let operated =
            self.operate(task, step, operation, who()).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        self.check_invariants(task, &text).await;
        (operated.before, operated.state, operated.task_state)
    }

    /// The error of an operation on a step.
    async fn obstacle(&self, task: Uuid, step: &str, operation: Operation) -> Obstacle {
        match self.operate(task, step, operation, who()).await {
            Err(Error::NotAllowed { obstacle, .. }) => obstacle,
            other => panic!("{other:?}"),
        }
    }

    /// The manual operations on a step, the oldest first: outcome, operator, reason and result.
    async fn history(&self, task: Uuid) -> Vec<(String, String, Option<String>, Option<String>)> {
        let sql = self.db.schema().sql(
            "select a.outcome::text, a.worker, a.reason, a.result from {schema}.attempt a where a.task_id = $1 and a.fence < 0 order by a.ordinal, a.fence desc",
        );
        sqlx::query_as(&sql).bind(task).fetch_all(self.db.database().pool()).await.expect("attempts")
    }
}

/// A permanently failed step can be reset: its attempts start again, its checkpoint is kept, and its task continues
/// with all stopped steps.
#[tokio::test]
async fn a_reset_step_is_retried() {
    let flow = Fixture::with("[{name: a, retry: {max_attempts: 2, backoff: none}}, {name: b, dependencies: [a]}, {name: c, retry: {backoff_base_ms: 1}}, {name: d}]").await;
    let task = flow.task().await;
    let (a, c) = (flow.next().await, flow.claim(&of(&["c"]), 1, None).await.expect("a claim").remove(0));
    let checkpoint = serde_json::value::to_raw_value(&7).expect("JSON");
    flow.say(&a, AttemptResult::Yielded(checkpoint)).await.expect("it counts");
    let a = flow.claim(&of(&["a"]), 1, None).await.expect("a claim").remove(0);
    flow.fail(&a, true).await;
    let a = flow.claim(&of(&["a"]), 1, None).await.expect("a claim").remove(0);
    assert_eq!(flow.fail(&a, true).await.step, StepState::Error);
    assert_eq!(flow.fail(&c, true).await.task, Some(TaskState::Error));
    flow.check_invariants(task, "the failures").await;
    assert_eq!(flow.done(task, "a", Operation::ResetForRetry).await, (StepState::Error, StepState::Enqueued, None));
    let mut claimed = flow.now(9).await;
    claimed.sort_by(|one, other| one.name.cmp(&other.name));
    let names: Vec<(&str, u32)> = claimed.iter().map(|step| (step.name.as_str(), step.attempt)).collect();
    assert_eq!(names, [("a", 1), ("c", 2), ("d", 1)]);
    assert_eq!(claimed[0].checkpoint.as_ref().expect("a checkpoint").get(), "7");
    for step in &claimed {
        flow.complete(step, json!(1)).await;
    }
    assert_eq!(flow.waves().await, [["b"]]);
    assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
    let ann = ("reset".to_owned(), "ann".to_owned(), Some("it was investigated".to_owned()), None);
    assert_eq!(flow.history(task).await, [ann]);
}

fn of(steps: &[&str]) -> ClaimRequest {
    ClaimRequest { steps: Some(steps.iter().map(|step| (*step).to_owned()).collect()), ..worker() }
}

/// A task with two failed steps continues when both are resolved, not before; by every operation that resolves a
/// failure.
#[tokio::test]
async fn a_task_continues_when_its_last_failure_is_resolved() {
    for last in [Operation::ResetForRetry, Operation::ResolveManually, completed(json!("by hand"))] {
        let flow = Fixture::with("[{name: a}, {name: b}, {name: c, dependencies: [a, b]}]").await;
        let task = flow.task().await;
        for step in flow.now(2).await {
            flow.fail(&step, false).await;
        }
        assert_eq!(flow.state_and_open_steps(task).await, ("error".to_owned(), 3));
        let (_, state, task_state) = flow.done(task, "a", Operation::ResetForRetry).await;
        assert_eq!((state, task_state), (StepState::Pending, Some(TaskState::Error)));
        assert!(flow.now(9).await.is_empty(), "b is left");
        let (_, _, task_state) = flow.done(task, "b", last.clone()).await;
        assert_eq!(task_state, None, "{last:?}");
        let waves: Vec<String> = flow.waves().await.into_iter().map(|wave| wave.concat()).collect();
        assert_eq!(waves, [if last == Operation::ResetForRetry { "ab" } else { "a" }, "c"], "{last:?}");
        assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
    }
}

/// A resumed task has its full maximum time again, from then on.
#[tokio::test]
async fn a_resumed_task_has_its_full_time() {
    let flow = Fixture::new().await;
    let text = "name: t\nnamespace_name: tests\nidentity_strategy: always_unique\nlifecycle: {max_duration_minutes: 60}\nsteps: [{name: a}]";
    flow.register(text).await.expect("a template");
    let task = flow.task().await;
    flow.fail(&flow.next().await, false).await;
    let aged = "update {schema}.task set created_at = now() - interval '1 day' where id = $1";
    let pool = flow.db.database().pool();
    sqlx::query(flow.db.schema().sql(aged)).bind(task).execute(pool).await.expect("an old task");
    flow.done(task, "a", Operation::ResetForRetry).await;
    let left = "select extract(epoch from t.due_at - now())::float8 / 60 from {schema}.task t where t.id = $1";
    let left: f64 = sqlx::query_scalar(flow.db.schema().sql(left)).bind(task).fetch_one(pool).await.expect("a time");
    assert!((50.0..=60.0).contains(&left), "{left} minutes");
}

/// Resolving the last open step completes the task.
#[tokio::test]
async fn the_last_step_completes_the_task() {
    for operation in [Operation::ResolveManually, completed(json!(1))] {
        let flow = Fixture::with("[{name: a}]").await;
        let task = flow.task().await;
        flow.fail(&flow.next().await, false).await;
        let (before, _, task_state) = flow.done(task, "a", operation).await;
        assert_eq!((before, task_state), (StepState::Error, Some(TaskState::Complete)));
    }
}

/// A manual result is passed to the next steps, and is validated like a worker's. A resolved step has no result, unless
/// there was one.
#[tokio::test]
async fn a_manual_result_reaches_the_next_steps() {
    let flow = Fixture::with(
        "[{name: a, result_schema: {type: integer}}, {name: b}, {name: c}, {name: d, dependencies: [a, b, c]}]",
    )
    .await;
    let task = flow.task().await;
    let error = flow.operate(task, "a", completed(json!("seven")), who()).await.expect_err("no integer");
    assert!(matches!(error, Error::Invalid { what: "result", .. }), "{error}");
    assert_eq!(flow.done(task, "a", completed(json!(7))).await.1, StepState::Complete);
    let mut steps = flow.now(9).await;
    steps.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    flow.complete(&steps[0], json!("from b")).await;
    assert_eq!(flow.done(task, "b", Operation::ResolveManually).await.0, StepState::Complete);
    flow.done(task, "c", Operation::ResolveManually).await;
    let d = flow.next().await;
    assert_eq!(read(&d.results), json!({"a": 7, "b": "from b"}));
    assert_eq!(flow.say(&steps[1], AttemptResult::Complete(json!(1).into())).await, Err(Refused::Lost));
    assert_eq!(flow.done(task, "c", completed(json!("later"))).await.0, StepState::ResolvedManually);
    flow.say(&d, AttemptResult::GivenBack).await.expect("it counts");
    assert_eq!(read(&flow.next().await.results), json!({"a": 7, "b": "from b", "c": "later"}));
}

/// A worker loses a step that an operator changes: its report is rejected, its heartbeat says so, and the history shows
/// its attempt.
#[tokio::test]
async fn a_worker_loses_a_step_that_an_operator_changes() {
    for operation in [Operation::ResolveManually, completed(json!("by hand"))] {
        let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
        let task = flow.task().await;
        let a = flow.next().await;
        assert_eq!(flow.done(task, "a", operation).await.0, StepState::InProgress);
        let alive = Renewal { token: a.token, lease: Duration::from_secs(60), checkpoint: None };
        assert_eq!(flow.heartbeat(vec![alive]).await.expect("an answer"), [Err(Refused::Lost)]);
        for said in [
            AttemptResult::Complete(json!("late").into()),
            AttemptResult::Failed(crate::fixture::failure(false)),
            AttemptResult::GivenBack,
        ] {
            assert_eq!(flow.say(&a, said).await, Err(Refused::Lost));
        }
        flow.check_invariants(task, "the late words").await;
        assert_eq!(flow.waves().await, [["b"]]);
        let outcomes: Vec<String> = flow.attempts(task).await.into_iter().map(|(_, outcome)| outcome).collect();
        assert!(outcomes.contains(&"taken_away".to_owned()), "{outcomes:?}");
    }
}

/// A step may be resolved before its parents, and counts once for the next steps.
#[tokio::test]
async fn a_step_may_be_resolved_before_its_parents() {
    let flow = Fixture::with(
        "[{name: a}, {name: b, dependencies: [a]}, {name: c, dependencies: [b]}, {name: d, dependencies: [a, c]}]",
    )
    .await;
    let task = flow.task().await;
    assert_eq!(flow.done(task, "b", Operation::ResolveManually).await.0, StepState::Pending);
    assert_eq!(flow.waves().await, [vec!["a", "c"], vec!["d"]]);
    assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
}

/// A manual decision is applied, and validated like a worker's; a resolved one chooses no step, and that cannot be
/// undone.
#[tokio::test]
async fn a_manual_decision_is_applied() {
    let steps =
        "[{name: route, type: decision}, {name: left, dependencies: [route]}, {name: right, dependencies: [route]},
                  {name: end, type: deferred_convergence, dependencies: [left, right]}, {name: z}]";
    let chosen = |name: &str| json!({"decision_point_outcome": {"type": "create_steps", "step_names": [name]}});
    let flow = Fixture::with(steps).await;
    let task = flow.task().await;
    let absent = flow.operate(task, "left", Operation::ResolveManually, who()).await.expect_err("not there");
    assert!(matches!(absent, Error::NoStep { .. }), "{absent}");
    let wrong = flow.operate(task, "route", completed(chosen("z")), who()).await.expect_err("no branch");
    assert!(matches!(wrong, Error::Invalid { what: "result", .. }), "{wrong}");
    flow.done(task, "route", completed(chosen("right"))).await;
    let skipped = flow.operate(task, "left", Operation::ResolveManually, who()).await.expect_err("not there");
    assert!(matches!(skipped, Error::NoStep { .. }), "{skipped}");
    assert_eq!(flow.waves().await, [vec!["right", "z"], vec!["end"]]);

    let task = flow.task().await;
    flow.done(task, "route", Operation::ResolveManually).await;
    assert_eq!(flow.obstacle(task, "route", completed(chosen("left"))).await, Obstacle::Decided);
    assert_eq!(flow.waves().await, [["z"]]);
    assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
}

fn batch(strategy: &str) -> String {
    format!(
        "[{{name: split, type: batchable, batch_config: {{worker_template: rows, failure_strategy: {strategy}}}}},
          {{name: rows, type: batch_worker, dependencies: [split], retry: {{max_attempts: 1}}}},
          {{name: sum, type: deferred_convergence, dependencies: [rows]}}, {{name: z, dependencies: [sum]}}]"
    )
}

fn parts(count: usize) -> Value {
    json!({"batch_processing_outcome": {"type": "create_batches", "cursor_configs": vec![1; count]}})
}

/// A manually divided step has parts, which are operated by their own names; a resolved one has a placeholder.
#[tokio::test]
async fn a_manual_batch_has_parts() {
    let flow = Fixture::with(&batch("fail_fast")).await;
    let task = flow.task().await;
    flow.done(task, "split", completed(parts(3))).await;
    for missing in ["rows", "rows_1", "rows_0001", "rows_004", "rows_", "nothing_001"] {
        let error = flow.operate(task, missing, Operation::ResolveManually, who()).await.expect_err(missing);
        assert!(matches!(error, Error::NoStep { .. }), "{missing}: {error}");
    }
    flow.done(task, "rows_001", completed(json!("one"))).await;
    flow.done(task, "rows_003", Operation::ResolveManually).await;
    let part = flow.next().await;
    assert_eq!(part.name, "rows_002");
    flow.fail(&part, false).await;
    assert_eq!(flow.done(task, "rows_002", completed(json!("two"))).await.2, None);
    let sum = flow.next().await;
    let results = read(&sum.results);
    assert_eq!(
        (&results["rows_001"], &results["rows_002"], results.get("rows_003")),
        (&json!("one"), &json!("two"), None)
    );

    let flow = Fixture::with(&batch("fail_fast")).await;
    let task = flow.task().await;
    flow.done(task, "split", Operation::ResolveManually).await;
    assert_eq!(flow.waves().await, [["sum"], ["z"]]);
    assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
}

/// A spared part can be reset as long as the next step has not started, which then waits for it.
#[tokio::test]
async fn a_spared_part_can_be_reset() {
    let flow = Fixture::with(&batch("continue_on_failure")).await;
    let task = flow.task().await;
    flow.complete(&flow.next().await, parts(2)).await;
    for part in flow.now(9).await {
        flow.fail(&part, false).await;
    }
    flow.check_invariants(task, "two failures that do not matter").await;
    assert_eq!(flow.done(task, "rows_001", Operation::ResetForRetry).await.1, StepState::Enqueued);
    let part = flow.next().await;
    assert_eq!((part.name.as_str(), flow.now(9).await.len()), ("rows_001", 0), "sum waits again");
    flow.complete(&part, json!("one")).await;
    let sum = flow.next().await;
    assert_eq!(read(&sum.results)["rows_001"], json!("one"));
    assert_eq!(flow.obstacle(task, "rows_002", Operation::ResetForRetry).await, Obstacle::Begun);
    assert_eq!(flow.done(task, "rows_002", completed(json!("two"))).await.2, None);
    flow.say(&sum, AttemptResult::GivenBack).await.expect("it counts");
    assert_eq!(read(&flow.next().await.results)["rows_002"], json!("two"));
}

/// An operation that is not possible is rejected with the state of the step or task, and changes nothing.
#[tokio::test]
async fn impossible_operations_are_rejected_with_the_state() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let task = flow.task().await;
    assert_eq!(flow.obstacle(task, "b", Operation::ResetForRetry).await, Obstacle::Step(StepState::Pending));
    assert_eq!(flow.obstacle(task, "a", Operation::ResetForRetry).await, Obstacle::Step(StepState::Enqueued));
    let a = flow.next().await;
    assert_eq!(flow.obstacle(task, "a", Operation::ResetForRetry).await, Obstacle::Step(StepState::InProgress));
    flow.fail(&a, true).await;
    assert_eq!(flow.obstacle(task, "a", Operation::ResetForRetry).await, Obstacle::Step(StepState::WaitingForRetry));
    flow.done(task, "a", completed(json!(1))).await;
    for operation in [Operation::ResetForRetry, completed(json!(2))] {
        assert_eq!(flow.obstacle(task, "a", operation).await, Obstacle::Step(StepState::Complete));
    }
    flow.done(task, "a", Operation::ResolveManually).await;
    assert_eq!(flow.obstacle(task, "a", Operation::ResolveManually).await, Obstacle::Step(StepState::ResolvedManually));
    flow.run().await;
    let error = flow.operate(task, "b", Operation::ResolveManually, who()).await.expect_err("it is over");
    assert_eq!(
        error.to_string(),
        format!("resolve_manually is not allowed for step \"b\" of task {task}: its task is complete")
    );
    assert_eq!(flow.history(task).await.len(), 2, "rejected operations are not in the history");
    let unknown = Uuid::now_v7();
    let error = flow.operate(unknown, "a", Operation::ResolveManually, who()).await.expect_err("no task");
    assert!(matches!(error, Error::NoTask { task } if task == unknown), "{error}");
    for (who, what) in [
        (Operator { name: String::new(), reason: None }, "name: must not be empty"),
        (Operator { name: "a\0".to_owned(), reason: None }, "name: must not contain NUL"),
        (Operator { reason: Some("x".repeat(2_001)), ..who() }, "reason: must have at most 2000 characters, got 2001"),
    ] {
        let error = flow.operate(task, "b", Operation::ResolveManually, who).await.expect_err(what).to_string();
        assert!(error.replace('`', "").starts_with(&format!("invalid parameter {what}")), "{error}");
    }
}

/// Cancelling ends all open steps of a task: none can be claimed, workers have lost theirs, and a repeated cancel has
/// the same outcome.
#[tokio::test]
async fn a_cancelled_task_is_over() {
    let flow = Fixture::with("[{name: a}, {name: b}, {name: c, dependencies: [a]}, {name: d, dependencies: [c]}, {name: e}, {name: f, type: decision, dependencies: [e]}, {name: g, dependencies: [f]}]").await;
    let (task, other) = (flow.task().await, flow.task().await);
    let mine: Vec<_> = flow.now(9).await.into_iter().filter(|step| step.token.task == task).collect();
    let named = |name: &str| mine.iter().find(|step| step.name == name).expect("a step");
    flow.complete(named("a"), json!(1)).await;
    flow.fail(named("e"), true).await;
    let b = named("b");
    let cancelled = flow.cancel(task, who()).await.expect("it is cancelled");
    flow.check_invariants(task, "the cancellation").await;
    assert_eq!((cancelled.state, cancelled.cancelled_steps, cancelled.repeated), (TaskState::Cancelled, 5, false));
    let again = flow.cancel(task, who()).await.expect("it is cancelled");
    assert_eq!(again, reveille_flow::Cancelled { repeated: true, ..cancelled });
    let alive = Renewal { token: b.token, lease: Duration::from_secs(60), checkpoint: None };
    assert_eq!(flow.heartbeat(vec![alive]).await.expect("an answer"), [Err(Refused::Lost)]);
    assert_eq!(flow.say(b, AttemptResult::Complete(json!(1).into())).await, Err(Refused::Lost));
    assert!(flow.now(9).await.is_empty());
    let states: Vec<String> = flow.states(task).await.into_values().collect();
    assert_eq!(states.join(" "), "complete cancelled cancelled cancelled cancelled cancelled not_created");
    assert_eq!(flow.obstacle(task, "b", Operation::ResolveManually).await, Obstacle::Task(TaskState::Cancelled));
    assert_eq!(flow.state_and_open_steps(other).await.0, "open", "no other task is cancelled");
    let unknown = Uuid::now_v7();
    assert!(matches!(flow.cancel(unknown, who()).await, Err(Error::NoTask { task }) if task == unknown));
}

/// An ended task cannot be cancelled, and the error has its state. Resolving is possible in every state, cancels open
/// steps, and has the same outcome when repeated.
#[tokio::test]
async fn ended_tasks_can_only_be_resolved() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    for (ends, state, steps) in [
        ("complete", TaskState::Complete, "complete complete"),
        ("fail", TaskState::Error, "error cancelled"),
        ("cancel", TaskState::Cancelled, "cancelled cancelled"),
        ("", TaskState::Pending, "cancelled cancelled"),
    ] {
        let task = flow.task().await;
        match ends {
            "complete" => drop(flow.waves().await),
            "fail" => drop(flow.fail(&flow.next().await, false).await),
            "cancel" => drop(flow.cancel(task, who()).await.expect("it is cancelled")),
            _ => {}
        }
        if matches!(state, TaskState::Complete | TaskState::Error) {
            let error = flow.cancel(task, who()).await.expect_err("it is over");
            assert_eq!(error.to_string(), format!("cancel is not allowed for task {task}: it is {state}"));
        }
        let resolved = flow.resolve(task, who()).await.expect("it is resolved");
        assert_eq!((resolved.state, resolved.repeated), (TaskState::ResolvedManually, false));
        let again = flow.resolve(task, who()).await.expect("it is resolved");
        assert_eq!(again, reveille_flow::Cancelled { repeated: true, ..resolved });
        let states: Vec<String> = flow.states(task).await.into_values().collect();
        assert_eq!(states.join(" "), steps, "{ends}");
        let error = flow.cancel(task, who()).await.expect_err("it is over").to_string();
        assert!(error.ends_with("it is resolved_manually"), "{error}");
    }
    assert!(flow.now(9).await.is_empty());
}
