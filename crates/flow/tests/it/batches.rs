//! Batches: parts that run beside each other, and what waits for all of them.

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

/// A part for each cursor, with it as its input; what follows waits for all, and has all their results.
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
        assert!(flow.now(9).await.is_empty(), "what follows waits for all");
        flow.complete(worker, json!(from)).await;
    }
    let sum = flow.next().await;
    let results = read(&sum.results);
    let of = ["rows_001", "rows_002", "rows_003"].map(|name| results[name].clone());
    assert_eq!((sum.name.as_str(), of), ("sum", [json!(0), json!(10), json!(20)]));
    assert_eq!(flow.complete(&sum, json!(30)).await.task, Some(TaskState::Complete));
    assert_eq!(flow.standing(task).await, ("complete".to_owned(), 0));
}

/// Without anything to do there is a placeholder, and what follows runs at once.
#[tokio::test]
async fn an_empty_batch_goes_on() {
    for outcome in [json!({"batch_processing_outcome": {"type": "no_batches"}}), parts(&[])] {
        let flow = Fixture::with(&steps("fail_fast")).await;
        let task = flow.task().await;
        flow.complete(&flow.next().await, outcome).await;
        let sum = flow.next().await;
        assert_eq!((sum.name.as_str(), &read(&sum.results)["rows_001"]), ("sum", &json!({"batch_placeholder": true})));
        flow.complete(&sum, json!(0)).await;
        assert_eq!(flow.standing(task).await, ("complete".to_owned(), 0));
    }
}

/// A batchable step's result without its outcome is refused, and the step stays with its worker: the right one counts after that.
#[tokio::test]
async fn a_batch_without_its_outcome_is_refused() {
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

/// A part that fails for good: the task fails, or the rest goes on without it, as the template says.
#[tokio::test]
async fn a_part_that_fails_means_what_the_template_says() {
    for (strategy, goes_on) in [("fail_fast", false), ("continue_on_failure", true), ("isolate", true)] {
        let flow = Fixture::with(&steps(strategy)).await;
        let task = flow.task().await;
        flow.complete(&flow.next().await, parts(&[json!(1), json!(2)])).await;
        let mut workers = flow.now(9).await;
        workers.sort_by(|one, other| one.name.cmp(&other.name));
        let settled = flow.say(&workers[0], AttemptResult::Failed(failure(false))).await.expect("it counts");
        assert_eq!(settled.step, StepState::Error);
        flow.complete(&workers[1], json!("two")).await;
        if goes_on {
            let sum = flow.next().await;
            let results = read(&sum.results);
            assert_eq!(results["rows_002"], json!("two"));
            assert!(results["rows_001"]["error"]["message"].is_string(), "{results}");
            flow.complete(&sum, json!(0)).await;
        }
        assert_eq!(flow.standing(task).await.0, if goes_on { "complete" } else { "error" }, "{strategy}");
    }
}

/// What lies behind the convergence of a batch runs as well, however far behind.
#[tokio::test]
async fn what_follows_a_batch_runs() {
    let more = "{name: report, dependencies: [sum]}, {name: mail, dependencies: [report, split]}]";
    let steps = steps("fail_fast");
    let flow = Fixture::with(&format!("{}, {more}", &steps[..steps.len() - 1])).await;
    let task = flow.task().await;
    flow.complete(&flow.next().await, parts(&[json!(1), json!(2)])).await;
    let waves: Vec<usize> = flow.waves().await.iter().map(Vec::len).collect();
    assert_eq!(waves, [2, 1, 1, 1]);
    assert_eq!(flow.standing(task).await, ("complete".to_owned(), 0));
}

/// Whoever waits for what follows a batch by its name is woken, also if the last part failed and the rest goes on.
/// The waiter sleeps before the last part ends.
#[tokio::test]
async fn what_follows_a_part_that_failed_is_rung_for() {
    let flow = Fixture::with(&steps("continue_on_failure")).await;
    flow.task().await;
    flow.complete(&flow.next().await, parts(&[json!(1)])).await;
    let part = flow.next().await;
    let waiting = flow.waiting(&["sum"]).await;
    flow.say(&part, AttemptResult::Failed(failure(false))).await.expect("it counts");
    assert_eq!(waiting.await.expect("no panic").name, "sum");
}
