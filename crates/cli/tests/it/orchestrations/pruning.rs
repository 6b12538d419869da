//! Deleting and pruning.

use serde_json::{Value, json};

use super::fixture::Server;
use crate::http::assert_refused;

/// Deleting must tell in advance what it does, refuse what has not ended and what has a parent, and delete the whole tree.
/// One order with a child waits for an event.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_deleted_with_its_children() {
    let server = Server::start().await;
    let runtime = server.runtime().await;
    server.begin("order", "Order", "7").await;
    server.ended("ship-of-order").await;
    runtime.shutdown(None).await;

    let planned = server.send("DELETE", "instances/order?dry_run=true", b"").await.json();
    assert_eq!((&planned["instances"], &planned["running"], &planned["dry_run"]), (&json!(2), &json!(1), &json!(true)));
    assert_refused(&server.send("DELETE", "instances/order", b"").await, 409, "has not ended");
    let child = server.send("DELETE", "instances/ship-of-order?force=true", b"").await;
    assert_refused(&child, 409, "delete its parent \"order\"");
    let deleted = server.send("DELETE", "instances/order?force=true", b"").await.json();
    for (what, amount) in [("instances", &planned["instances"]), ("events", &planned["events"])] {
        assert_eq!(&deleted[what], amount, "{what}");
    }
    assert_eq!(server.get("instances/ship-of-order").await.status, 404);
    assert_refused(&server.send("DELETE", "instances/order", b"").await, 404, "there is no instance");
    // One that no runtime has begun: its start is taken back.
    server.begin("late", "Unknown", "").await;
    let late = server.send("DELETE", "instances/late", b"").await;
    assert_eq!((late.status, &late.json()["messages"]), (200, &json!(1)));
    assert_eq!(server.get("instances/late").await.status, 404);
}

/// Pruning must delete in steps exactly what a dry run showed, and neither what runs nor what ended later.
/// Five ended instances, steps of two; then executions of one that continued as new.
#[tokio::test(flavor = "multi_thread")]
async fn pruning_goes_on_step_by_step() {
    let server = Server::start().await;
    let runtime = server.runtime().await;
    server.begin("order", "Order", "7").await;
    server.ended("ship-of-order").await;
    for number in 0..4 {
        server.begin(&format!("hello-{number}"), "Hello", "").await;
        server.ended(&format!("hello-{number}")).await;
    }
    server.begin("fail", "Fail", "").await;
    server.ended("fail").await;
    server.begin("loop", "Count", "0").await;
    server.ended("loop").await;

    let executions = json!({"what": "executions", "keep_last": 2, "dry_run": true});
    let planned = server.post("prune", &executions).await.json();
    assert_eq!((&planned["instances"], &planned["executions"]), (&json!(1), &json!(2)), "{planned}");
    let pruned = server.post("prune", &json!({"what": "executions", "keep_last": 2})).await.json();
    assert_eq!((&pruned["executions"], &pruned["next"]), (&json!(2), &json!(null)), "{pruned}");
    assert_eq!(server.json("instances/loop/executions").await["executions"].as_array().map(Vec::len), Some(2));

    let body = json!({"name": "Hello", "status": "Completed", "limit": 2, "dry_run": true});
    let planned = server.post("prune", &body).await.json();
    assert_eq!((&planned["instances"], &planned["remaining"]), (&json!(2), &json!(2)), "{planned}");
    assert_eq!(planned["sample"][0]["instance"], "hello-0");
    assert_eq!(server.get("instances/hello-0").await.status, 200, "a dry run changes nothing");
    let (mut after, mut deleted) = (Value::Null, 0);
    loop {
        let step = json!({"name": "Hello", "status": "Completed", "limit": 2, "after": after});
        let step = server.post("prune", &step).await.json();
        deleted += step["instances"].as_u64().expect("a number");
        after = step["next"].clone();
        if after.is_null() {
            break;
        }
    }
    assert_eq!(deleted, 4);
    let past = server.post("prune", &json!({"ended_before": "2020-01-01"})).await.json();
    assert_eq!(past["instances"], 0);
    let rest = server.post("prune", &json!({})).await.json();
    assert_eq!(rest["instances"], 2, "{rest}");
    assert_eq!(server.json("instances/order").await["status"], "Running");
    for (body, part) in [
        (json!({"keep_last": 1}), "only allowed with `what: executions`"),
        (json!({"what": "executions", "status": "Failed"}), "only allowed with `what: instances`"),
        (json!({"status": "Running"}), "must be Completed or Failed"),
        (json!({"limit": 501}), "between 1 and 500, got 501"),
        (json!({"ended_before": "soon"}), "timestamp"),
    ] {
        assert_refused(&server.post("prune", &body).await, 400, part);
    }
    runtime.shutdown(Some(0)).await;
}
