//! A permanently failed step stops its task, and no other.

use reveille_flow::{AttemptResult, StepState, TaskState};
use serde_json::json;

use crate::fixture::Fixture;

/// After a permanent failure no further step starts, steps in progress may end, and then the task ends.
#[tokio::test]
async fn a_permanent_failure_stops_further_steps() {
    let flow = Fixture::with("[{name: a}, {name: b}, {name: c}, {name: d, dependencies: [b]}]").await;
    let task = flow.task().await;
    let (a, b) = (flow.next().await, flow.next().await);
    assert_eq!(flow.fail(&a, false).await.task, None, "another is still in progress");
    assert!(flow.now(9).await.is_empty(), "c was ready");
    assert_eq!(flow.complete(&b, json!(1)).await.task, Some(TaskState::Error));
    assert!(flow.now(9).await.is_empty(), "d would be ready");
    let states = flow.states(task).await;
    let letters: Vec<&str> = states.values().map(String::as_str).collect();
    assert_eq!(letters, ["error", "complete", "pending", "pending"]);
}

/// A step that is released or failed after another step's permanent failure is not claimed again.
#[tokio::test]
async fn no_step_is_retried_after_a_failure() {
    let flow = Fixture::with("[{name: a}, {name: b}, {name: c}]").await;
    let task = flow.task().await;
    let steps = flow.now(3).await;
    flow.fail(&steps[0], false).await;
    flow.say(&steps[1], AttemptResult::GivenBack).await.expect("it counts");
    let outcome = flow.fail(&steps[2], true).await;
    assert_eq!((outcome.step, outcome.task), (StepState::WaitingForRetry, Some(TaskState::Error)));
    assert!(flow.now(9).await.is_empty());
    assert_eq!(flow.state_and_open_steps(task).await, ("error".to_owned(), 3));
}

/// A failed task does not affect others of the same template.
#[tokio::test]
async fn other_tasks_continue() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let (failed, other) = (flow.task().await, flow.task().await);
    for step in flow.now(2).await {
        if step.token.task == failed {
            flow.fail(&step, false).await;
        } else {
            flow.complete(&step, json!(1)).await;
        }
    }
    assert_eq!(flow.waves().await, [["b"]]);
    assert_eq!(
        (flow.state_and_open_steps(failed).await.0, flow.state_and_open_steps(other).await.0),
        ("error".to_owned(), "complete".to_owned())
    );
}

/// A failure and a success of one task in one call: the task ends correctly, in either order.
#[tokio::test]
async fn a_failure_and_a_success_in_one_call() {
    for turned in [false, true] {
        let flow = Fixture::with("[{name: a}, {name: b}, {name: c, dependencies: [b]}]").await;
        let task = flow.task().await;
        let steps = flow.now(2).await;
        let of = |name: &str| steps.iter().find(|step| step.name == name).expect("a step").token;
        let failure = AttemptResult::Failed(crate::fixture::failure(false));
        let mut ended = vec![
            reveille_flow::StepReport { token: of("a"), result: failure },
            reveille_flow::StepReport { token: of("b"), result: AttemptResult::Complete(json!(1).into()) },
        ];
        if turned {
            ended.reverse();
        }
        flow.report(ended).await.expect("an answer");
        assert!(flow.now(9).await.is_empty());
        assert_eq!(flow.state_and_open_steps(task).await, ("error".to_owned(), 2));
    }
}

/// If a worker dies after another step of its task failed permanently, its step is not retried: the engine ends the
/// attempt and the task.
#[tokio::test]
async fn a_lost_lease_in_a_failed_task_is_not_claimed_again() {
    let flow = Fixture::with("[{name: a}, {name: b}]").await;
    let _orchestrator = flow.orchestrate();
    let task = flow.task().await;
    let short =
        reveille_flow::ClaimRequest { lease: std::time::Duration::from_millis(400), ..crate::fixture::worker() };
    let steps = flow.claim(&short, 2, None).await.expect("a claim");
    assert_eq!(flow.fail(&steps[0], false).await.task, None);
    reveille_pg::testing::eventually("the task ends", async || flow.state_and_open_steps(task).await.0 == "error")
        .await;
    assert!(flow.now(9).await.is_empty());
    assert_eq!(flow.attempts(task).await, [(1, "failed_for_good".to_owned()), (1, "lease_ended".to_owned())]);
}
