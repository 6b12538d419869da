//! The order in which claims take steps: by priority, then by due time.

use reveille_flow::{ClaimRequest, Submission};
use serde_json::json;

use crate::fixture::{Fixture, NAMESPACE, submission, worker};

/// A flow with a one-step template for each of these names; template and step have the same name.
async fn with_names(names: &[&str]) -> Fixture {
    let flow = Fixture::new().await;
    for name in names {
        flow.template(name, &format!("[{{name: {name}}}]")).await;
    }
    flow
}

/// Submits a task of each of these names, one after the other.
async fn submit(flow: &Fixture, names: &[&str]) {
    for name in names {
        flow.submit(submission(name, json!({}))).await.expect("a task");
    }
}

fn for_names(names: &[&str]) -> ClaimRequest {
    ClaimRequest { steps: Some(names.iter().map(|name| (*name).to_owned()).collect()), ..worker() }
}

async fn claimed(flow: &Fixture, request: &ClaimRequest, want: usize) -> Vec<String> {
    let steps = flow.claim(request, want, None).await.expect("a claim");
    steps.into_iter().map(|step| step.name).collect()
}

/// A claim of several steps takes those that have been due longest, whatever their names: of all names, of some, and of
/// many.
/// The steps of several names become due in turns; a claim takes fewer than there are.
#[tokio::test]
async fn a_batch_takes_the_longest_due_steps_of_all_names() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let flow = with_names(&names).await;
    for request in [worker(), for_names(&names), for_names(&["a", "b", "c"])] {
        let few = request.steps.as_ref().is_some_and(|steps| steps.len() < names.len());
        let turn = if few { &names[..3] } else { &names };
        // Many of one name are due before most of the others.
        let order = [&["b"; 6], turn, turn, &["c"; 4], turn].concat();
        submit(&flow, &order).await;
        let first = order.len() - 5;
        assert_eq!(claimed(&flow, &request, first).await, order[..first]);
        assert_eq!(claimed(&flow, &request, 100).await, order[first..]);
    }
}

/// A higher priority comes first, and steps that a limit holds back are skipped for steps that are due later.
#[tokio::test]
async fn priorities_and_limits_come_before_due_times() {
    let flow = with_names(&["a", "b"]).await;
    flow.limit(NAMESPACE, Some("b"), Some(2)).await.expect("a limit");
    submit(&flow, &["a", "b", "b", "b", "a", "b", "a"]).await;
    flow.submit(Submission { priority: 1, ..submission("a", json!({"urgent": true})) }).await.expect("a task");
    flow.submit(Submission { priority: -1, ..submission("a", json!({"idle": true})) }).await.expect("a task");
    for (want, expected) in [(3, vec!["a", "a", "b"]), (3, vec!["b", "a", "a"]), (100, vec!["a"]), (100, vec![])] {
        assert_eq!(claimed(&flow, &worker(), want).await, expected);
    }
}

/// The limit of a namespace applies to claims of several names together.
#[tokio::test]
async fn the_limit_of_a_namespace_is_shared_by_its_names() {
    let flow = with_names(&["a", "b", "c"]).await;
    flow.limit(NAMESPACE, None, Some(4)).await.expect("a limit");
    submit(&flow, &["a", "b", "c", "c", "b", "a"]).await;
    assert_eq!(claimed(&flow, &for_names(&["b", "c"]), 3).await, ["b", "c", "c"]);
    assert_eq!(claimed(&flow, &worker(), 100).await, ["a"]);
    assert!(claimed(&flow, &for_names(&["a", "b", "c"]), 100).await.is_empty());
}
