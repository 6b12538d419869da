//! Forks: a new task continues another one from a step.

use reveille_flow::{Error, Fork, Json, Operator};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fixture::{Fixture, read};

fn from(step: &str) -> Fork {
    Fork { step: step.to_owned(), context: None, input: None }
}

fn ada() -> Operator {
    Operator { name: "ada".to_owned(), reason: Some("wrong price".to_owned()) }
}

/// The result of a step.
async fn result(fixture: &Fixture, task: Uuid, step: &str) -> Value {
    let step = fixture.step(task, step).await.expect("a read").expect("a step");
    step.result.as_ref().map_or(Value::Null, |result| read(result))
}

/// A fork keeps the results of the steps that do not follow, runs the others, and leaves the other task as it is.
/// A diamond with a step beside it is forked in the middle, with another context.
#[tokio::test]
async fn a_fork_keeps_what_does_not_follow() {
    let fixture = Fixture::with(
        "[{name: a}, {name: b, dependencies: [a]}, {name: c, dependencies: [a]}, {name: d, dependencies: [b, c]}]",
    )
    .await;
    let task = fixture.task().await;
    fixture.waves().await;
    let context = Some(Json::parse("{\"price\": 100000000000000000001}".to_owned()).expect("JSON"));
    let fork = fixture.fork(task, Fork { context, ..from("b") }, ada()).await.expect("a fork");
    assert_eq!((fork.forked_from, fork.ready_steps.as_slice()), (task, ["b".to_owned()].as_slice()));
    assert_eq!(result(&fixture, fork.task_uuid, "c").await, json!("c"));
    let step = fixture.now(9).await.remove(0);
    assert_eq!((step.name.as_str(), step.context.get()), ("b", "{\"price\": 100000000000000000001}"));
    assert_eq!(read(&step.results), json!({"a": "a"}));
    fixture.complete(&step, json!("new")).await;
    assert_eq!(fixture.waves().await, [["d"]]);
    assert_eq!(fixture.state_and_open_steps(fork.task_uuid).await, ("complete".to_owned(), 0));
    assert_eq!(
        (result(&fixture, task, "b").await, result(&fixture, fork.task_uuid, "b").await),
        (json!("b"), json!("new"))
    );
    let summary = fixture.summary(fork.task_uuid).await.expect("a read").expect("a task");
    assert_eq!(summary.initiator.as_deref(), Some("ada"));
    assert!(summary.reason.is_some_and(|reason| reason.contains(&task.to_string()) && reason.ends_with("wrong price")));
    let history = fixture.audit(fork.task_uuid, "a", 0, 10).await.expect("a read").expect("attempts");
    assert_eq!(history.attempts[0].worker.as_deref(), Some("ada"));
}

/// A fork from the first step runs everything again; one from a step whose dependency is not complete is rejected.
#[tokio::test]
async fn a_fork_needs_what_is_before_it() {
    let fixture = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let task = fixture.task().await;
    let refused = fixture.fork(task, from("b"), ada()).await.expect_err("a refusal");
    assert!(matches!(&refused, Error::NotAllowed { .. }) && refused.to_string().contains("step \"a\""), "{refused}");
    assert!(matches!(fixture.fork(task, from("x"), ada()).await, Err(Error::NoStep { .. })));
    assert!(matches!(fixture.fork(Uuid::nil(), from("a"), ada()).await, Err(Error::NoTask { .. })));
    let input = Some(Json::default());
    assert!(matches!(fixture.fork(task, Fork { input, ..from("a") }, ada()).await, Err(Error::Invalid { .. })));
    let fork = fixture.fork(task, from("a"), ada()).await.expect("a fork");
    assert_eq!(fixture.now(9).await.len(), 2);
    assert_eq!(fixture.state_and_open_steps(fork.task_uuid).await, ("open".to_owned(), 2));
}

/// A fork behind a decision keeps its choice, and one from the decision decides again.
#[tokio::test]
async fn a_fork_keeps_decisions_before_it() {
    let fixture = Fixture::with(
        "[{name: d, type: decision}, {name: x, dependencies: [d]}, {name: y, dependencies: [d]}, \
          {name: x2, dependencies: [x]}, {name: end, type: deferred_convergence, dependencies: [x2, y]}]",
    )
    .await;
    let task = fixture.task().await;
    let choose = |step: &str| json!({"decision_point_outcome": {"type": "create_steps", "step_names": [step]}});
    fixture.complete(&fixture.next().await, choose("x")).await;
    assert_eq!(fixture.waves().await, [["x"], ["x2"], ["end"]]);
    let fork = fixture.fork(task, from("x2"), ada()).await.expect("a fork");
    assert_eq!(fixture.states(fork.task_uuid).await["y"], "skipped");
    assert_eq!(fixture.waves().await, [["x2"], ["end"]]);
    let again = fixture.fork(task, from("d"), ada()).await.expect("a fork");
    fixture.complete(&fixture.next().await, choose("y")).await;
    assert_eq!(fixture.waves().await, [["y"], ["end"]]);
    assert_eq!(fixture.state_and_open_steps(again.task_uuid).await.0, "complete");
}

/// A fork from a part of a batch runs that part with another input, and keeps the others.
#[tokio::test]
async fn a_fork_edits_the_input_of_a_part() {
    let fixture = Fixture::with(
        "[{name: s, type: batchable, batch_config: {worker_template: w, failure_strategy: fail_fast}}, \
          {name: w, type: batch_worker, dependencies: [s]}, {name: end, dependencies: [w]}]",
    )
    .await;
    let task = fixture.task().await;
    let parts = json!({"type": "create_batches", "cursor_configs": [1, 2, 3]});
    fixture.complete(&fixture.next().await, json!({"batch_processing_outcome": parts})).await;
    fixture.waves().await;
    let input = Some(Json::from(json!(20)));
    let fork = fixture.fork(task, Fork { input, ..from("w_002") }, ada()).await.expect("a fork");
    let part = fixture.now(9).await.remove(0);
    assert_eq!((part.name.as_str(), part.input.as_ref().map(|input| read(input))), ("w_002", Some(json!(20))));
    fixture.complete(&part, json!("again")).await;
    assert_eq!(fixture.waves().await, [["end"]]);
    assert_eq!(fixture.state_and_open_steps(fork.task_uuid).await, ("complete".to_owned(), 0));
    assert_eq!(result(&fixture, fork.task_uuid, "w_001").await, json!("w_001"));
}
