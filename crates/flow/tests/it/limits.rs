//! Limits: how many steps may be in progress at once.

use std::time::Duration;

use reveille_flow::{AttemptResult, ClaimRequest, Error};
use serde_json::json;

use crate::fixture::{Fixture, NAMESPACE, worker};

/// The counter of steps in progress, and their real number.
async fn under_way(flow: &Fixture) -> (Vec<u32>, i64) {
    let counted = flow.limits(Some(NAMESPACE)).await.expect("limits").iter().map(|limit| limit.in_progress).collect();
    let sql = flow.db.schema().sql("select count(*) from {schema}.step s where s.state = 'in_progress'");
    (counted, sqlx::query_scalar(&sql).fetch_one(flow.db.database().pool()).await.expect("a count"))
}

/// No more steps of a name are in progress than its limit allows, and a claim that waits for capacity is woken when
/// there is some.
/// Steps end in every possible way; each time one more is claimed.
#[tokio::test]
async fn a_limit_of_a_name_holds() {
    let flow = Fixture::with("[{name: a, retry: {backoff: none}}, {name: b}]").await;
    flow.limit(NAMESPACE, Some("a"), Some(2)).await.expect("limited");
    for _ in 0..5 {
        flow.task().await;
    }
    let of_a = || ClaimRequest { steps: Some(vec!["a".to_owned()]), ..worker() };
    let mut held = flow.claim(&of_a(), 9, None).await.expect("a claim");
    assert_eq!(held.len(), 2);
    assert_eq!(flow.now(9).await.len(), 5, "the others are not limited");
    for said in [
        AttemptResult::Complete(json!(1).into()),
        AttemptResult::Failed(crate::fixture::failure(true)),
        AttemptResult::GivenBack,
    ] {
        let waiting = flow.waiting(&["a"]).await;
        flow.say(&held.pop().expect("a step"), said).await.expect("it counts");
        held.push(waiting.await.expect("no panic"));
        assert!(flow.claim(&of_a(), 9, None).await.expect("a claim").is_empty());
        assert_eq!(under_way(&flow).await, (vec![2], 7));
    }
}

/// The limit of a namespace applies to all names in it together, in addition to those of the names.
#[tokio::test]
async fn a_limit_of_a_namespace_holds_for_all_names() {
    let flow = Fixture::with("[{name: a}, {name: b}]").await;
    flow.limit(NAMESPACE, None, Some(3)).await.expect("limited");
    flow.limit(NAMESPACE, Some("b"), Some(1)).await.expect("limited");
    for _ in 0..3 {
        flow.task().await;
    }
    let held = flow.now(9).await;
    let count = |name: &str| held.iter().filter(|step| step.name == name).count();
    assert_eq!((held.len(), count("b") <= 1), (3, true));
    let waiting = flow.waiting(&["a", "b"]).await;
    flow.complete(&held[0], json!(1)).await;
    waiting.await.expect("no panic");
    assert_eq!(under_way(&flow).await.0[0], 3);
}

/// The limited step of a dead worker frees its capacity: the engine makes the step due again, with the attempt counted.
#[tokio::test]
async fn a_lost_lease_frees_its_capacity() {
    let flow = Fixture::with("[{name: a}]").await;
    let _orchestrator = flow.orchestrate();
    flow.limit(NAMESPACE, Some("a"), Some(1)).await.expect("limited");
    flow.task().await;
    let short = ClaimRequest { lease: Duration::from_millis(200), ..worker() };
    let lost = flow.claim(&short, 1, None).await.expect("a claim").pop().expect("a step");
    let again = flow.next().await;
    assert_eq!((lost.attempt, again.attempt), (1, 2));
    assert_eq!(under_way(&flow).await, (vec![1], 1));
}

/// A limit that is set while steps are in progress counts them; when it is removed or raised, waiting steps are
/// claimed.
#[tokio::test]
async fn a_new_limit_counts_steps_in_progress() {
    let flow = Fixture::with("[{name: a}]").await;
    for _ in 0..6 {
        flow.task().await;
    }
    let held = flow.now(2).await;
    flow.limit(NAMESPACE, Some("a"), Some(2)).await.expect("limited");
    assert_eq!((under_way(&flow).await, flow.now(9).await.len()), ((vec![2], 2), 0));
    let waiting = flow.waiting(&["a"]).await;
    flow.limit(NAMESPACE, Some("a"), Some(3)).await.expect("raised");
    let third = waiting.await.expect("no panic");
    flow.complete(&third, json!(1)).await;
    flow.complete(&held[0], json!(1)).await;
    assert_eq!(under_way(&flow).await, (vec![1], 1));
    flow.limit(NAMESPACE, Some("a"), None).await.expect("lifted");
    assert_eq!((flow.limits(None).await.expect("limits").len(), flow.now(9).await.len()), (0, 3));
    assert!(matches!(flow.limit("elsewhere", None, Some(1)).await, Err(Error::Invalid { what: "namespace", .. })));
}
