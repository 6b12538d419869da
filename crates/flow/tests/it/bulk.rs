//! Bulk operations on steps and tasks.

use reveille_flow::{BulkFilter, BulkOperation, BulkReport, BulkRequest, Error, Operation, Submission, TaskState};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fixture::{Fixture, NAMESPACE, submission};
use crate::manual::who;

fn filter() -> BulkFilter {
    BulkFilter { namespace: Some(NAMESPACE.to_owned()), ..BulkFilter::default() }
}

fn request(filter: BulkFilter, operation: BulkOperation) -> BulkRequest {
    BulkRequest { filter, operation, limit: 100, preview: false }
}

impl Fixture {
    /// This many tasks of `t`, whose first steps failed with this message.
    async fn failed_tasks(&self, count: usize, message: &str) -> Vec<Uuid> {
        let mut tasks = Vec::new();
        for _ in 0..count {
            tasks.push(self.task().await);
        }
        for step in self.now(100).await {
            let failure = reveille_flow::Failure { message: message.to_owned(), ..crate::fixture::failure(false) };
            self.say(&step, reveille_flow::AttemptResult::Failed(failure)).await.expect("it counts");
        }
        tasks
    }

    async fn many(&self, request: BulkRequest) -> BulkReport {
        self.bulk(request, who()).await.expect("a report")
    }
}

fn of(report: &BulkReport) -> (u64, u64, usize, u64) {
    (report.matched, report.done, report.refused.len(), report.remaining)
}

/// A preview lists the operations and changes nothing; the operation applies them up to the limit, reports the rest,
/// and continues when it is sent again.
#[tokio::test]
async fn a_preview_lists_the_operations() {
    let flow = Fixture::with("[{name: a}, {name: b}, {name: c, dependencies: [a, b]}]").await;
    let tasks = flow.failed_tasks(3, "broken").await;
    let all = request(filter(), BulkOperation::ResetForRetry);
    let preview = flow.many(BulkRequest { preview: true, limit: 4, ..all.clone() }).await;
    assert_eq!((of(&preview), preview.preview), ((6, 4, 0, 2), true));
    let listed: Vec<(Uuid, &str)> =
        preview.items.iter().map(|item| (item.task_uuid, item.step_name.as_deref().expect("a step"))).collect();
    assert_eq!(listed, [(tasks[0], "a"), (tasks[0], "b"), (tasks[1], "a"), (tasks[1], "b")]);
    assert!(flow.now(9).await.is_empty(), "no step was changed");
    assert!(flow.attempts(tasks[0]).await.iter().all(|(_, outcome)| outcome == "failed_for_good"), "nor written");
    let earnest = BulkRequest { limit: 4, ..all };
    let report = flow.many(earnest.clone()).await;
    assert_eq!((of(&report), report.items), ((6, 4, 0, 2), preview.items));
    assert_eq!(of(&flow.many(earnest.clone()).await), (2, 2, 0, 0));
    assert_eq!(of(&flow.many(earnest).await), (0, 0, 0, 0));
    for task in &tasks {
        flow.check_invariants(*task, "the resets").await;
    }
    assert_eq!(flow.waves().await.concat().len(), 9);
    for task in tasks {
        assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
    }
}

/// Every condition excludes tasks that do not meet it.
/// Three tasks differ in all properties; each condition is met by one of them.
#[tokio::test]
async fn every_condition_is_applied() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let first = flow.failed_tasks(1, "a \"timeout\"").await[0];
    let before = pg_now(&flow).await;
    let second = flow.failed_tasks(1, "no memory").await[0];
    flow.register(
        "name: other\nnamespace_name: elsewhere\nversion: '2'\nidentity_strategy: always_unique\nsteps: [{name: x}]",
    )
    .await
    .expect("a template");
    let third = Submission::new("elsewhere", "other", "2", json!({}));
    let third = flow.submit(third).await.expect("a task").task_uuid;
    let text = |text: &str| Some(text.to_owned());
    let (reset, complete) = (BulkOperation::ResetForRetry, BulkOperation::CompleteManually { result: json!(1).into() });
    let any = BulkFilter::default;
    for (filter, operation, tasks) in [
        (BulkFilter { namespace: text("elsewhere"), ..any() }, BulkOperation::CancelTask, vec![third]),
        (BulkFilter { name: text("t"), ..any() }, reset.clone(), vec![first, second]),
        (BulkFilter { version: text("2"), ..any() }, BulkOperation::ResolveTask, vec![third]),
        (BulkFilter { state: Some(TaskState::Error), ..any() }, BulkOperation::ResolveTask, vec![first, second]),
        (BulkFilter { state: Some(TaskState::EnqueuingSteps), ..any() }, BulkOperation::CancelTask, vec![third]),
        (BulkFilter { state: Some(TaskState::StepsInProcess), ..any() }, BulkOperation::CancelTask, vec![]),
        (BulkFilter { state: Some(TaskState::Error), ..any() }, BulkOperation::CancelTask, vec![]),
        (BulkFilter { step_name: text("x"), ..any() }, complete.clone(), vec![third]),
        (BulkFilter { step_name: text("b"), ..any() }, complete, vec![first, second]),
        (BulkFilter { step_name: text("b"), ..any() }, reset.clone(), vec![]),
        (BulkFilter { step_name: text("a"), ..any() }, BulkOperation::ResolveTask, vec![first, second]),
        (BulkFilter { error_contains: text("a \"time"), ..any() }, reset.clone(), vec![first]),
        (BulkFilter { error_contains: text("memory"), ..any() }, BulkOperation::ResolveTask, vec![second]),
        (BulkFilter { created_before: Some(before), ..any() }, reset.clone(), vec![first]),
        (BulkFilter { created_after: Some(before), ..any() }, reset.clone(), vec![second]),
        (BulkFilter { tasks: Some(vec![second, Uuid::now_v7()]), ..any() }, reset, vec![second]),
    ] {
        let words = format!("{filter:?} {operation:?}");
        let report = flow.many(BulkRequest { preview: true, ..request(filter, operation) }).await;
        let found: Vec<Uuid> = report.items.iter().map(|item| item.task_uuid).collect();
        assert_eq!(found, tasks, "{words}: {report:?}");
    }
}

async fn pg_now(flow: &Fixture) -> time::OffsetDateTime {
    sqlx::query_scalar("select now()").fetch_one(flow.db.database().pool()).await.expect("a time")
}

/// A rejected item is in the report with its reason, and the others are applied: a result that one of two templates
/// does not allow.
#[tokio::test]
async fn rejected_items_are_in_the_report() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.template("strict", "[{name: a, result_schema: {type: integer}}]").await;
    let easy = flow.task().await;
    let strict = flow.submit(submission("strict", json!({}))).await.expect("a task").task_uuid;
    let filter = BulkFilter { step_name: Some("a".to_owned()), ..filter() };
    let by_hand = request(filter, BulkOperation::CompleteManually { result: json!("text").into() });
    for preview in [true, false] {
        let report = flow.many(BulkRequest { preview, ..by_hand.clone() }).await;
        assert_eq!(of(&report), (2, 1, 1, 0), "{report:?}");
        assert_eq!((report.items[0].task_uuid, report.refused[0].task_uuid), (easy, strict));
        assert!(report.refused[0].reason.starts_with("invalid parameter `result`: "), "{report:?}");
    }
    assert_eq!(
        (flow.state_and_open_steps(easy).await.0, flow.state_and_open_steps(strict).await.0),
        ("complete".to_owned(), "open".to_owned())
    );
}

/// Many tasks are cancelled, and only those.
#[tokio::test]
async fn many_tasks_are_cancelled() {
    let flow = Fixture::with("[{name: a}]").await;
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(flow.task().await);
    }
    flow.operate(tasks[4], "a", Operation::ResolveManually, who()).await.expect("it is resolved");
    let report = flow.many(request(filter(), BulkOperation::CancelTask)).await;
    assert_eq!(of(&report), (4, 4, 0, 0));
    for task in &tasks[..4] {
        assert_eq!(flow.state_and_open_steps(*task).await.0, "cancelled");
    }
    assert!(flow.now(9).await.is_empty());
    assert_eq!(of(&flow.many(request(filter(), BulkOperation::ResolveTask)).await), (5, 5, 0, 0));
    assert_eq!(flow.state_and_open_steps(tasks[4]).await.0, "resolved_manually");
}

/// A request is parsed from JSON, and an invalid one is rejected with the name of the field.
#[tokio::test]
async fn a_request_is_checked() {
    let read = |value: Value| serde_json::from_value::<BulkRequest>(value);
    let text = json!({"filter": {"namespace": "n", "state": "error", "created_after": "2026-11-16T01:02:03Z", "tasks": [Uuid::nil()]},
                      "operation": {"type": "complete_manually", "result": {"a": 1}}});
    let parsed = read(text).expect("a request");
    assert_eq!((parsed.limit, parsed.preview, parsed.filter.state), (1_000, false, Some(TaskState::Error)));
    for wrong in [
        json!({"filter": {"namespaces": "n"}, "operation": {"type": "cancel_task"}}),
        json!({"filter": {"created_after": "yesterday"}, "operation": {"type": "cancel_task"}}),
        json!({"filter": {}, "operation": {"type": "delete"}}),
    ] {
        read(wrong.clone()).expect_err(&wrong.to_string());
    }
    let flow = Fixture::with("[{name: a}]").await;
    flow.task().await;
    let cancel = request(filter(), BulkOperation::CancelTask);
    for (wrong, reason) in [
        (request(BulkFilter::default(), BulkOperation::CancelTask), "filter: must not be empty"),
        (BulkRequest { limit: 0, ..cancel.clone() }, "limit: must be between 1 and 1000, got 0"),
        (BulkRequest { limit: 1_001, ..cancel.clone() }, "limit: must be between 1 and 1000, got 1001"),
        (request(BulkFilter { namespace: Some("\0".to_owned()), ..filter() }, cancel.operation.clone()), "namespace: "),
        (request(BulkFilter { tasks: Some(vec![Uuid::nil(); 1_001]), ..filter() }, cancel.operation), "tasks: "),
    ] {
        let error = flow.bulk(wrong, who()).await.expect_err(reason);
        assert!(
            matches!(error, Error::Invalid { .. })
                && error.to_string().replace('`', "").starts_with(&format!("invalid parameter {reason}")),
            "{error}"
        );
    }
    assert_eq!(flow.now(9).await.len(), 1);
}
