//! Graphs: every step runs once, after its parents, and the task ends.

use std::collections::HashMap;

use reveille_flow::{StepState, TaskState};
use serde_json::json;

use crate::fixture::{Fixture, read};

/// A chain, a diamond and a tree run wave by wave; then their tasks are complete.
#[tokio::test]
async fn steps_run_after_their_parents() {
    for (steps, waves) in [
        ("[{name: a}, {name: b, dependencies: [a]}, {name: c, dependencies: [b]}]", vec!["a", "b", "c"]),
        (
            "[{name: a}, {name: b, dependencies: [a]}, {name: c, dependencies: [a]}, {name: d, dependencies: [b, c]}]",
            vec!["a", "bc", "d"],
        ),
        (
            "[{name: a}, {name: b}, {name: c, dependencies: [a]}, {name: d, dependencies: [a, b]}, {name: e, dependencies: [b]}, {name: f, dependencies: [c, d, e]}]",
            vec!["ab", "cde", "f"],
        ),
    ] {
        let flow = Fixture::with(steps).await;
        let task = flow.task().await;
        let ran: Vec<String> = flow.waves().await.into_iter().map(|wave| wave.concat()).collect();
        assert_eq!(ran, waves);
        assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
        assert!(flow.states(task).await.values().all(|state| state == "complete"));
    }
}

/// A step gets the results of all steps before it, not only of its parents, and no others.
#[tokio::test]
async fn a_step_gets_the_results_of_all_before_it() {
    let steps = "[{name: a}, {name: x}, {name: b, dependencies: [a]}, {name: c, dependencies: [b], handler: {callable: C, initialization: {k: 1}}}]";
    let flow = Fixture::with(steps).await;
    flow.task().await;
    for step in flow.now(9).await {
        flow.complete(&step, json!({"from": step.name, "odd": "\u{0}"})).await;
    }
    let b = flow.next().await;
    assert_eq!((read(&b.results), read(&b.context)), (json!({"a": {"from": "a", "odd": "\u{0}"}}), json!({"a": 1})));
    flow.complete(&b, json!([1, 2])).await;
    let c = flow.next().await;
    assert_eq!(read(&c.results), json!({"a": {"from": "a", "odd": "\u{0}"}, "b": [1, 2]}));
    assert_eq!((c.callable.as_str(), read(&c.initialization)), ("C", json!({"k": 1})));
    assert_eq!((c.name.as_str(), c.attempt, c.max_attempts), ("c", 1, 3));
    let outcome = flow.complete(&c, json!(null)).await;
    assert_eq!((outcome.step, outcome.task), (StepState::Complete, Some(TaskState::Complete)));
}

/// A template without steps is complete as soon as it is submitted.
#[tokio::test]
async fn a_task_without_steps_is_complete() {
    let flow = Fixture::with("[]").await;
    let task = flow.task().await;
    assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
}

/// Two parents that end in the same write batch count as two.
/// Both are reported in one call.
#[tokio::test]
async fn parents_that_end_together_count_each() {
    let flow = Fixture::with("[{name: a}, {name: b}, {name: c}, {name: d, dependencies: [a, b, c]}]").await;
    flow.task().await;
    let steps = flow.now(9).await;
    let ended = steps.iter().map(|step| reveille_flow::StepReport {
        token: step.token,
        result: reveille_flow::AttemptResult::Complete(json!(1).into()),
    });
    let outcomes = flow.report(ended.collect()).await.expect("an answer");
    assert!(outcomes.iter().all(|outcome| outcome.as_ref().is_ok_and(|outcome| outcome.task.is_none())));
    assert_eq!(flow.next().await.name, "d");
}

/// Random graphs: in any order of workers, every step is claimed once, after all its parents, and the task ends.
#[tokio::test]
async fn random_graphs_run_in_order() {
    const STEPS: usize = 12;
    let flow = Fixture::new().await;
    for round in 0..8 {
        let mut rng = fastrand::Rng::with_seed(round);
        let parents: Vec<Vec<usize>> =
            (0..STEPS).map(|step| (0..step).filter(|_| rng.u8(..4) == 0).collect()).collect();
        let steps: Vec<String> = parents
            .iter()
            .enumerate()
            .map(|(step, parents)| {
                let names: Vec<String> = parents.iter().map(|parent| format!("s{parent}")).collect();
                format!("{{name: s{step}, dependencies: [{}]}}", names.join(", "))
            })
            .collect();
        let name = format!("g{round}");
        flow.template(&name, &format!("[{}]", steps.join(", "))).await;
        let task = flow.submit(crate::fixture::submission(&name, json!({}))).await.expect("a task").task_uuid;
        let (mut held, mut done) = (Vec::new(), HashMap::new());
        while done.len() < STEPS {
            held.extend(flow.now(1 + rng.usize(..3)).await);
            assert!(!held.is_empty(), "seed {round}: nothing is left to claim, and {} are done", done.len());
            let step = held.swap_remove(rng.usize(..held.len()));
            let position: usize = step.name[1..].parse().expect("a number");
            assert!(
                parents[position].iter().all(|parent| done.contains_key(parent)),
                "seed {round}: {position} came too early"
            );
            assert_eq!(done.insert(position, ()), None, "seed {round}: {position} came twice");
            flow.complete(&step, json!(position)).await;
        }
        assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
    }
}
