//! `POST /v1/workers/heartbeat`, `…/complete`, `…/fail`, `…/checkpoint`, `…/release`: each item has its own outcome.

use serde_json::{Value, json};

use super::fixture::Server;
use crate::http::assert_refused;

/// A valid item, an invalid token, a missing token, a result that violates the template, and an unknown claim: each is
/// answered at its position, and the valid ones are applied.
#[tokio::test]
async fn each_item_is_answered_at_its_position() {
    let server = Server::of("[{name: a, result_schema: {type: integer}}]").await;
    for _ in 0..3 {
        server.task(json!({})).await;
    }
    let steps = server.now(3).await;
    let token = |at: usize| &steps[at]["token"];
    let mut parts: Vec<&str> = token(2).as_str().expect("text").split('.').collect();
    parts[2] = "999999";
    let results = server
        .report(
            "complete",
            json!([
                {"token": token(0), "result": 1},
                {"token": "nonsense", "result": 1},
                {"result": 1},
                "nothing at all",
                {"token": token(1), "result": "no number"},
                {"token": parts.join("."), "result": 1},
                {"token": token(2), "result": 2},
                {"token": token(2), "result": 2, "colour": "red"},
            ]),
        )
        .await;
    let ok =
        json!({"token": token(0), "ok": true, "step_state": "complete", "task_state": "complete", "repeated": false});
    assert_eq!(results[0], ok);
    let reasons: Vec<&Value> = results.iter().map(|result| &result["reason"]).collect();
    let invalid = &json!("invalid");
    let (lost, null) = (&json!("lost"), &Value::Null);
    assert_eq!(reasons, [null, invalid, invalid, invalid, invalid, lost, null, invalid]);
    assert_eq!((&results[1]["token"], &results[2]["token"]), (&json!("nonsense"), &Value::Null));
    for (at, message) in [(1, "token: "), (2, "token"), (4, "result: "), (5, "does not hold the step"), (7, "colour")] {
        let error = results[at]["error"].as_str().expect("a message");
        assert!(error.contains(message), "{message:?} is not in {error:?}");
    }
    let again =
        server.report("complete", json!([{"token": token(0), "result": 1}, {"token": token(1), "result": 5}])).await;
    assert_eq!((&again[0]["ok"], &again[0]["repeated"]), (&json!(true), &json!(true)));
    assert_eq!((&again[1]["ok"], &again[1]["repeated"]), (&json!(true), &json!(false)), "the worker still holds it");
}

/// A failure is retried or not, as it says; the next attempt has the checkpoint.
#[tokio::test]
async fn failures_are_retried_as_they_say() {
    let server = Server::of("[{name: a, retry: {max_attempts: 5, backoff: none}}]").await;
    server.task(json!({})).await;
    let step = server.now(1).await.remove(0);
    let beaten = server
        .report("heartbeat", json!([{"token": step["token"], "lease_ms": 120_000, "checkpoint": {"row": 5}}]))
        .await;
    assert_eq!(beaten[0], json!({"token": step["token"], "ok": true}));
    let error =
        json!({"message": "busy", "type": "Busy", "status_code": 503, "context": {"host": "x"}, "retry_delay_ms": 0});
    let failed = server.report("fail", json!([{"token": step["token"], "error": error}])).await;
    assert_eq!((&failed[0]["ok"], &failed[0]["step_state"]), (&json!(true), &json!("waiting_for_retry")));
    assert_eq!(server.report("heartbeat", json!([{"token": step["token"]}])).await[0]["reason"], "lost");

    let step = server.now(1).await.remove(0);
    assert_eq!((&step["attempt"], &step["checkpoint"]), (&json!(2), &json!({"row": 5})));
    let error = json!({"message": "broken", "retryable": false});
    let failed = server.report("fail", json!([{"token": step["token"], "error": error}])).await;
    assert_eq!((&failed[0]["step_state"], &failed[0]["task_state"]), (&json!("error"), &json!("error")));
    assert!(server.now(1).await.is_empty());
}

/// A checkpoint keeps the step or yields it: a yielded step is released with no attempt counted, and the next claim has
/// the checkpoint.
#[tokio::test]
async fn a_checkpoint_keeps_the_step_or_yields_it() {
    let server = Server::of("[{name: a}]").await;
    server.task(json!({})).await;
    let step = server.now(1).await.remove(0);
    let token = &step["token"];
    let kept = server
        .report("checkpoint", json!([{"token": "x", "checkpoint": 0}, {"token": token, "checkpoint": {"row": 1}}]))
        .await;
    assert_eq!((&kept[0]["reason"], &kept[1]["ok"]), (&json!("invalid"), &json!(true)));
    assert!(server.now(1).await.is_empty(), "it is still this worker's");
    let left = server
        .report("checkpoint", json!([{"token": token, "checkpoint": {"row": 2}, "yield": true}, {"checkpoint": 1}]))
        .await;
    assert_eq!((&left[0]["step_state"], &left[1]["reason"]), (&json!("enqueued"), &json!("invalid")));
    let step = server.now(1).await.remove(0);
    assert_eq!((&step["attempt"], &step["checkpoint"]), (&json!(1), &json!({"row": 2})));
    let beaten =
        server.report("heartbeat", json!([{"token": step["token"], "lease_ms": 1}, {"token": step["token"]}])).await;
    assert_eq!((&beaten[0]["reason"], &beaten[1]["ok"]), (&json!("invalid"), &json!(true)));
    server.report("release", json!([{"token": step["token"]}])).await;
    assert_eq!(server.now(1).await[0]["attempt"], 1, "a step that is given back is not charged");
}

/// An unknown field in an error is rejected, and the worker keeps the step. A different report on an ended claim is
/// lost.
#[tokio::test]
async fn contradicting_and_unknown_reports_are_rejected() {
    let server = Server::of("[{name: a}]").await;
    server.task(json!({})).await;
    let step = server.now(1).await.remove(0);
    let error = json!({"message": "broken", "retriable": false});
    let reply = server.report("fail", json!([{"token": step["token"], "error": error}])).await;
    assert_eq!((&reply[0]["ok"], &reply[0]["reason"]), (&json!(false), &json!("invalid")), "{reply:?}");
    assert!(reply[0]["error"].as_str().is_some_and(|error| error.contains("retriable")), "{reply:?}");
    for repeated in [false, true] {
        let released = server.report("release", json!([{"token": step["token"]}])).await;
        assert_eq!((&released[0]["ok"], &released[0]["repeated"]), (&json!(true), &json!(repeated)), "{released:?}");
    }
    let late = server.report("complete", json!([{"token": step["token"], "result": 1}])).await;
    assert_eq!((&late[0]["ok"], &late[0]["reason"]), (&json!(false), &json!("lost")), "{late:?}");
    let again = server.now(1).await.remove(0);
    assert_eq!(again["attempt"], 1, "it is not charged");
}

/// A body without a list is rejected as a whole; an empty list is answered with an empty list.
#[tokio::test]
async fn a_body_without_a_list_is_rejected() {
    let server = Server::start().await;
    for what in ["heartbeat", "complete", "fail", "checkpoint", "release"] {
        let path = format!("workers/{what}");
        assert_refused(&server.post(&path, &json!({})).await, 400, "missing parameter `steps`");
        assert_refused(&server.post(&path, &json!({"steps": 1})).await, 400, "invalid body");
        assert_refused(&server.post(&path, &json!({"steps": vec![1; 1_001]})).await, 400, "at most 1000");
        assert_refused(&server.post(&path, &json!({"steps": [], "more": 1})).await, 400, "more");
        assert!(server.report(what, json!([])).await.is_empty());
    }
}
