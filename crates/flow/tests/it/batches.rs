//! Batches: concurrent parts, and the convergence that waits for all of them.

use reveille_flow::{AttemptResult, StepState, TaskState};
use serde_json::{Value, json};

use crate::fixture::{Fixture, failure, read};

fn steps(strategy: &str) -> String {
    format!(
        "[{{name: split, type: batchable, batch_config: {{worker_template: rows, failure_strategy: {strategy}}}}},
          {{name: rows, type: batch_worker, dependencies: [split]}},
          {{name: sum, type: deferred_convergence, dependencies: [rows]}}]"
    )
}

fn parts(cursors: &[Value]) -> Value {
    json!({"batch_processing_outcome": {"type": "create_batches", "cursor_configs": cursors}})
}

/// There is a part for each cursor, with the cursor as its input; the next step waits for all, and gets all their
/// results.
#[tokio::test]
async fn a_part_for_each_cursor() {
    let flow = Fixture::with(&steps("fail_fast")).await;
    let task = flow.task().await;
    flow.complete(&flow.next().await, parts(&[json!({"from": 0}), json!({"from": 10}), json!({"from": 20})])).await;
    let mut workers = flow.now(9).await;
    workers.sort_by(|one, other| one.name.cmp(&other.name));
    let names: Vec<&str> = workers.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["rows_001", "rows_002", "rows_003"]);
    for (worker, from) in workers.iter().zip([0, 10, 20]) {
        assert_eq!(read(worker.input.as_deref().expect("an input")), json!({"from": from}));
        assert!(flow.now(9).await.is_empty(), "the next step waits for all");
        flow.complete(worker, json!(from)).await;
    }
    let sum = flow.next().await;
    let results = read(&sum.results);
    let of = ["rows_001", "rows_002", "rows_003"].map(|name| results[name].clone());
    assert_eq!((sum.name.as_str(), of), ("sum", [json!(0), json!(10), json!(20)]));
    assert_eq!(flow.complete(&sum, json!(30)).await.task, Some(TaskState::Complete));
    assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
}

/// An empty batch has a placeholder, and the next step runs at once.
#[tokio::test]
async fn an_empty_batch_continues() {
    for outcome in [json!({"batch_processing_outcome": {"type": "no_batches"}}), parts(&[])] {
        let flow = Fixture::with(&steps("fail_fast")).await;
        let task = flow.task().await;
        flow.complete(&flow.next().await, outcome).await;
        let sum = flow.next().await;
        assert_eq!((sum.name.as_str(), &read(&sum.results)["rows_001"]), ("sum", &json!({"batch_placeholder": true})));
        flow.complete(&sum, json!(0)).await;
        assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
    }
}

/// The result of a batchable step without a batch outcome is rejected, and the worker keeps the step: a valid result is
/// accepted afterwards.
#[tokio::test]
async fn a_batch_without_its_outcome_is_rejected() {
    let flow = Fixture::with(&steps("fail_fast")).await;
    let task = flow.task().await;
    let step = flow.next().await;
    let misspelt = json!({"batch_processing_outcom": {"type": "create_batches", "cursor_configs": [1]}});
    for wrong in [misspelt, json!({"batch_processing_outcome": null}), json!({}), json!(null)] {
        let refused = flow.say(&step, AttemptResult::Complete(wrong.clone().into())).await;
        assert!(matches!(refused, Err(reveille_flow::Refused::Invalid { what: "result", .. })), "{wrong}: {refused:?}");
        assert_eq!(flow.states(task).await[&step.name], "in_progress", "{wrong}");
    }
    assert_eq!(flow.complete(&step, parts(&[json!(1)])).await.step, StepState::Complete);
}

/// If a part fails permanently, the task fails, or the rest continues without it, as the template says.
#[tokio::test]
async fn a_failed_part_is_handled_as_the_template_says() {
    for (strategy, goes_on) in [("fail_fast", false), ("continue_on_failure", true), ("isolate", true)] {
        let flow = Fixture::with(&steps(strategy)).await;
        let task = flow.task().await;
        flow.complete(&flow.next().await, parts(&[json!(1), json!(2)])).await;
        let mut workers = flow.now(9).await;
        workers.sort_by(|one, other| one.name.cmp(&other.name));
        let outcome = flow.say(&workers[0], AttemptResult::Failed(failure(false))).await.expect("it counts");
        assert_eq!(outcome.step, StepState::Error);
        flow.complete(&workers[1], json!("two")).await;
        if goes_on {
            let sum = flow.next().await;
            let results = read(&sum.results);
            assert_eq!(results["rows_002"], json!("two"));
            assert!(results["rows_001"]["error"]["message"].is_string(), "{results}");
            flow.complete(&sum, json!(0)).await;
        }
        assert_eq!(flow.state_and_open_steps(task).await.0, if goes_on { "complete" } else { "error" }, "{strategy}");
    }
}

/// All steps after the convergence of a batch run, however far away.
#[tokio::test]
async fn steps_after_a_batch_run() {
    let more = "{name: report, dependencies: [sum]}, {name: mail, dependencies: [report, split]}]";
    let steps = steps("fail_fast");
    let flow = Fixture::with(&format!("{}, {more}", &steps[..steps.len() - 1])).await;
    let task = flow.task().await;
    flow.complete(&flow.next().await, parts(&[json!(1), json!(2)])).await;
    let waves: Vec<usize> = flow.waves().await.iter().map(Vec::len).collect();
    assert_eq!(waves, [2, 1, 1, 1]);
    assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
}

/// A claim that waits by name for the step after a batch is woken, also if the last part failed and the rest continues.
/// The claim waits before the last part ends.
#[tokio::test]
async fn a_failed_last_part_wakes_claims_for_the_next_step() {
    let flow = Fixture::with(&steps("continue_on_failure")).await;
    flow.task().await;
    flow.complete(&flow.next().await, parts(&[json!(1)])).await;
    let part = flow.next().await;
    let waiting = flow.waiting(&["sum"]).await;
    flow.say(&part, AttemptResult::Failed(failure(false))).await.expect("it counts");
    assert_eq!(waiting.await.expect("no panic").name, "sum");
}
