//! Waiting, cancelling, and executions.

use serde_json::json;

use super::fixture::Server;

/// A cancelled instance must fail with the reason, and a request that waits must be answered then.
/// The wait begins before the cancellation.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_request_is_answered_when_the_instance_is_cancelled() {
    let server = Server::start().await;
    let runtime = server.runtime().await;
    server.begin("order", "Order", "7").await;
    let (ended, cancelled) = tokio::join!(server.ended("order"), async {
        server.post("instances/order/cancel", &json!({"reason": "ordered twice"})).await
    });
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    assert_eq!(ended["status"], "Failed");
    let history = server.json("instances/order/history?format=raw").await;
    assert!(history.to_string().contains("ordered twice"), "{history}");
    // A wait that is too short is answered with the present state.
    server.begin("unknown", "Unknown", "").await;
    let pending = server.json("instances/unknown?wait_ms=1").await;
    assert!(pending["completed_at"].is_null(), "{pending}");
    runtime.shutdown(Some(0)).await;
}

/// An instance that continues as new must have a history for each execution.
/// Three rounds.
#[tokio::test(flavor = "multi_thread")]
async fn every_execution_has_a_history() {
    let server = Server::start().await;
    let runtime = server.runtime().await;
    server.begin("loop", "Count", "0").await;
    let ended = server.ended("loop").await;
    assert_eq!((&ended["execution"], &ended["output"]), (&json!(4), &json!("3")));
    let page = server.json("instances/loop/executions?limit=3").await;
    let numbers: Vec<_> =
        page["executions"].as_array().expect("executions").iter().map(|it| &it["execution"]).collect();
    assert_eq!((numbers, &page["next"]), (vec![&json!(4), &json!(3), &json!(2)], &json!(2)));
    assert_eq!(page["executions"][1]["status"], "ContinuedAsNew");
    let last = server.json("instances/loop/executions?before=2").await;
    assert_eq!((&last["executions"][0]["execution"], &last["next"]), (&json!(1), &json!(null)));
    let first = server.json("instances/loop/history?execution=1").await;
    assert_eq!(first["events"][1]["type"], "OrchestrationContinuedAsNew", "{first}");
    let none = server.json("instances/loop/history?execution=9").await;
    assert_eq!((&none["execution"], &none["events"]), (&json!(null), &json!([])));
    runtime.shutdown(Some(0)).await;
}
