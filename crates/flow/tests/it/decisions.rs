//! Decisions: which steps are created, and the convergences that wait for them.

use reveille_flow::{AttemptResult, Refused, TaskState};
use serde_json::{Value, json};

use crate::fixture::Fixture;

const STEPS: &str = "[
  {name: start}, {name: route, type: decision, dependencies: [start]},
  {name: left, dependencies: [route]}, {name: left2, dependencies: [left]},
  {name: right, dependencies: [route]},
  {name: both, dependencies: [left2, right]},
  {name: end, type: deferred_convergence, dependencies: [left2, right]}]";

fn chosen(names: &[&str]) -> Value {
    json!({"decision_point_outcome": {"type": "create_steps", "step_names": names}})
}

/// Chosen steps and their successors run; other steps are never created; a convergence waits for the created ones.
#[tokio::test]
async fn chosen_steps_run() {
    for (names, waves) in [
        (&["left"][..], vec!["left", "left2", "end"]),
        (&["right"], vec!["right", "end"]),
        (&["left", "right"], vec!["left right", "left2", "both end"]),
        (&[], vec![]),
    ] {
        let flow = Fixture::with(STEPS).await;
        let task = flow.task().await;
        assert_eq!(flow.run().await, ["start"]);
        let route = flow.next().await;
        let outcome = flow.complete(&route, chosen(names)).await;
        assert_eq!(outcome.task, names.is_empty().then_some(TaskState::Complete), "{names:?}");
        let ran: Vec<String> = flow.waves().await.into_iter().map(|wave| wave.join(" ")).collect();
        assert_eq!(ran, waves, "{names:?}");
        assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0), "{names:?}");
    }
}

/// A decision may choose no step.
#[tokio::test]
async fn no_branches_is_a_decision() {
    let flow = Fixture::with(STEPS).await;
    flow.task().await;
    flow.run().await;
    let outcome = flow.complete(&flow.next().await, json!({"decision_point_outcome": {"type": "no_branches"}})).await;
    assert_eq!(outcome.task, Some(TaskState::Complete));
}

/// A decision for a step that does not depend on it, or a missing decision, is rejected and changes nothing: it can be
/// reported again.
#[tokio::test]
async fn a_decision_is_checked_against_the_template() {
    let flow = Fixture::with(STEPS).await;
    flow.task().await;
    flow.run().await;
    let route = flow.next().await;
    for wrong in [
        chosen(&["end"]),
        chosen(&["nowhere"]),
        json!({"decision_point_outcome": {"type": "odd"}}),
        json!({"decision_point_outcom": {"type": "create_steps", "step_names": ["right"]}}),
        json!({"decision_point_outcome": null}),
        json!(null),
    ] {
        let answer = flow.say(&route, AttemptResult::Complete(wrong.into())).await;
        assert!(matches!(answer, Err(Refused::Invalid { what: "result", .. })), "{answer:?}");
    }
    flow.complete(&route, chosen(&["right"])).await;
    assert_eq!(flow.waves().await, [["right"], ["end"]]);
}

/// A convergence after two decisions waits for both.
#[tokio::test]
async fn a_convergence_waits_for_every_decision_before_it() {
    let steps = "[
      {name: one, type: decision}, {name: a, dependencies: [one]},
      {name: two, type: decision, dependencies: [a]}, {name: b, dependencies: [two]},
      {name: end, type: deferred_convergence, dependencies: [a, b]}]";
    for (names, waves) in [(&["b"][..], vec!["b", "end"]), (&[], vec!["end"])] {
        let flow = Fixture::with(steps).await;
        flow.task().await;
        flow.complete(&flow.next().await, chosen(&["a"])).await;
        assert_eq!(flow.run().await, ["a"]);
        let two = flow.next().await;
        assert_eq!(two.name, "two", "the convergence must not come yet");
        assert!(flow.now(9).await.is_empty());
        flow.complete(&two, chosen(names)).await;
        let ran: Vec<String> = flow.waves().await.into_iter().map(|wave| wave.join(" ")).collect();
        assert_eq!(ran, waves);
    }
}

/// A step that two decisions do not choose is skipped once: a convergence still waits for its other parents.
#[tokio::test]
async fn a_step_skipped_by_two_decisions_is_skipped_once() {
    let steps = "[{name: one, type: decision}, {name: two, type: decision}, {name: k, dependencies: [one, two]},
                  {name: l, dependencies: [one]}, {name: end, type: deferred_convergence, dependencies: [k, l, z]}, {name: z}]";
    let flow = Fixture::with(steps).await;
    let task = flow.task().await;
    let mut first = flow.now(9).await;
    first.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(first.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["one", "two", "z"]);
    for decision in &first[..2] {
        assert_eq!(flow.complete(decision, chosen(&[])).await.task, None, "z is not complete");
    }
    assert!(flow.now(9).await.is_empty(), "z is waited for");
    flow.complete(&first[2], json!(1)).await;
    assert_eq!(flow.waves().await, [["end"]]);
    assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
}

/// A convergence that depends on the decision itself need not be chosen.
#[tokio::test]
async fn a_convergence_need_not_be_chosen() {
    let steps = "[{name: d, type: decision}, {name: a, dependencies: [d]}, {name: end, type: deferred_convergence, dependencies: [d, a]}]";
    for (names, waves) in [(&["a"][..], vec![vec!["a"], vec!["end"]]), (&[], vec![vec!["end"]])] {
        let flow = Fixture::with(steps).await;
        flow.task().await;
        flow.complete(&flow.next().await, chosen(names)).await;
        assert_eq!(flow.waves().await, waves, "{names:?}");
    }
}

/// A claim that waits for a convergence is woken by the last decision before it.
/// The claim waits before the decision, for that step by its name.
#[tokio::test]
async fn a_decision_wakes_claims_for_its_convergence() {
    let steps = "[{name: a}, {name: d, type: decision, dependencies: [a]}, {name: b, dependencies: [d]}, {name: end, type: deferred_convergence, dependencies: [a, b]}]";
    let flow = Fixture::with(steps).await;
    flow.task().await;
    flow.run().await;
    let decision = flow.next().await;
    let waiting = flow.waiting(&["end"]).await;
    flow.complete(&decision, chosen(&[])).await;
    assert_eq!(waiting.await.expect("no panic").name, "end");
}

/// A rejected report must not affect the others in the same call.
/// A decision for an unknown step, between a valid report and one of an unknown claim.
#[tokio::test]
async fn each_report_has_its_own_outcome() {
    let steps = "[{name: a, type: decision}, {name: b, dependencies: [a]}]";
    let flow = Fixture::with(steps).await;
    for _ in 0..2 {
        flow.task().await;
    }
    let [good, wrong] = &flow.now(2).await[..] else { panic!("two steps") };
    let text = wrong.token.to_string();
    let mut parts: Vec<&str> = text.split('.').collect();
    parts[2] = "999999";
    let lost: reveille_flow::Token = parts.join(".").parse().expect("a token");
    let ended = [(good.token, &["b"]), (wrong.token, &["nowhere"]), (lost, &["b"])];
    let ended = ended.map(|(token, names)| reveille_flow::StepReport {
        token,
        result: AttemptResult::Complete(chosen(names).into()),
    });
    let answers = flow.report(ended.into()).await.expect("answers");
    assert!(matches!(&answers[0], Ok(outcome) if outcome.step == reveille_flow::StepState::Complete), "{answers:?}");
    assert!(matches!(&answers[1], Err(Refused::Invalid { what: "result", .. })), "{answers:?}");
    assert_eq!(answers[2], Err(Refused::Lost));
    flow.complete(wrong, chosen(&["b"])).await;
}
