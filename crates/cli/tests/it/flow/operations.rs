//! Manual operations, dead letters, limits, domain events and namespaces.

use serde_json::{Value, json};

use super::fixture::{JSON, Server, text};
use crate::http::{Answer, assert_refused, eventually};

/// Sends a manual operation.
async fn patch(server: &Server, path: &str, body: Value) -> Answer {
    server.send("PATCH", path, &[JSON], body.to_string().as_bytes()).await
}

/// A task is cancelled once, the history has the operator, and a task that ended otherwise is not cancelled.
#[tokio::test]
async fn a_task_is_cancelled_and_resolved() {
    let server = Server::of("[{name: a}]").await;
    let task = server.task(json!({})).await;
    let path = format!("tasks/{task}");
    let cancelled = server.send("DELETE", &format!("{path}?by=ann&reason=why+not"), &[], b"").await;
    assert_eq!((cancelled.status, &cancelled.json()["state"]), (200, &json!("cancelled")), "{cancelled:?}");
    let again = server.send("DELETE", &path, &[], b"").await;
    assert_eq!(again.json()["repeated"], true);
    assert!(server.now(9).await.is_empty());
    let resolved = patch(&server, &path, json!({"type": "resolve_manually", "by": "ann", "reason": "elsewhere"})).await;
    assert_eq!((resolved.status, &resolved.json()["state"]), (200, &json!("resolved_manually")));

    let done = server.task(json!({})).await;
    server.finish().await;
    assert_refused(&server.send("DELETE", &format!("tasks/{done}"), &[], b"").await, 409, "complete");
    assert_refused(&server.send("DELETE", "tasks/00000000-0000-0000-0000-000000000000", &[], b"").await, 404, "0000");
    for (body, message) in [
        (json!({"type": "explode", "by": "x"}), "explode"),
        (json!({"type": "cancel"}), "by"),
        (json!({"type": "cancel", "by": ""}), "empty"),
        (json!({"type": "cancel", "by": "x", "colour": 1}), "colour"),
    ] {
        assert_refused(&patch(&server, &path, body).await, 400, message);
    }
}

/// A step is reset, resolved and completed manually where its state allows it, and the task continues.
#[tokio::test]
async fn steps_are_operated_manually() {
    let server = Server::of(
        "[{name: a, retry: {max_attempts: 1}, result_schema: {type: integer}}, {name: b, dependencies: [a]}]",
    )
    .await;
    let task = server.task(json!({})).await;
    let path = format!("tasks/{task}/workflow_steps/a");
    let who = |mut body: Value| {
        body["by"] = json!("ann");
        body
    };
    assert_refused(&patch(&server, &path, who(json!({"type": "reset_for_retry"}))).await, 409, "reset_for_retry");
    let step = server.now(1).await.remove(0);
    let error = json!({"message": "broken"});
    server.report("fail", json!([{"token": step["token"], "error": error}])).await;
    let reset = patch(&server, &path, who(json!({"type": "reset_for_retry"}))).await;
    assert_eq!((reset.status, &reset.json()["before"]), (200, &json!("error")), "{reset:?}");
    for (body, message) in [
        (json!({"type": "complete_manually"}), "missing parameter `result`"),
        (json!({"type": "complete_manually", "result": "x"}), "`result`: "),
        (json!({"type": "reset_for_retry", "result": 1}), "only complete_manually takes a result"),
    ] {
        assert_refused(&patch(&server, &path, who(body)).await, 400, message);
    }
    let done = patch(&server, &path, who(json!({"type": "complete_manually", "result": 7, "reason": "by hand"}))).await;
    assert_eq!((done.status, &done.json()["state"]), (200, &json!("complete")), "{done:?}");
    let next = server.now(9).await;
    assert_eq!((&next[0]["name"], &next[0]["results"]), (&json!("b"), &json!({"a": 7})));
    let resolved =
        patch(&server, &format!("tasks/{task}/workflow_steps/b"), who(json!({"type": "resolve_manually"}))).await;
    assert_eq!((resolved.status, &resolved.json()["state"]), (200, &json!("resolved_manually")), "{resolved:?}");
    assert_refused(
        &patch(&server, &format!("tasks/{task}/workflow_steps/x"), who(json!({"type": "resolve_manually"}))).await,
        404,
        "no step",
    );
}

/// A step without attempts left gets a dead-letter entry, which each filter finds and which is resolved once.
#[tokio::test]
async fn dead_letters_are_listed_and_closed() {
    let server = Server::of("[{name: a, retry: {max_attempts: 1}}]").await;
    let task = server.task(json!({})).await;
    let step = server.now(1).await.remove(0);
    server.report("fail", json!([{"token": step["token"], "error": {"message": "broken"}}])).await;
    for query in
        ["", "?namespace=tests", &format!("?task_uuid={task}"), "?open=true", "?reason=retries_exhausted&limit=1"]
    {
        let listed = server.get(&format!("dlq{query}")).await.json();
        assert_eq!(
            (&listed["entries"][0]["task_uuid"], &listed["entries"][0]["step"]),
            (&json!(task), &json!("a")),
            "{query}"
        );
    }
    assert_eq!(server.get("dlq?open=false").await.json()["entries"], json!([]));
    let id = server.get("dlq").await.json()["entries"][0]["id"].to_string();
    assert_eq!(server.get(&format!("dlq/{id}")).await.json()["reason"], "retries_exhausted");
    let closed =
        patch(&server, &format!("dlq/{id}"), json!({"resolution": "retried", "resolved_by": "ann", "notes": "again"}))
            .await;
    assert_eq!((closed.status, &closed.json()["resolution"]), (200, &json!("retried")));
    assert_refused(
        &patch(&server, "dlq/999999", json!({"resolution": "retried", "resolved_by": "x"})).await,
        404,
        "999999",
    );
    assert_refused(&server.get("dlq/one").await, 400, "path");
    assert_refused(&server.get("dlq?task_uuid=x").await, 400, "task_uuid");
    assert_refused(
        &patch(&server, &format!("dlq/{id}"), json!({"resolution": "eaten", "resolved_by": "x"})).await,
        400,
        "eaten",
    );
}

/// A limit is enforced, listed with its use, and removed again.
#[tokio::test]
async fn limits_are_set_and_removed() {
    let server = Server::of("[{name: a}]").await;
    for _ in 0..3 {
        server.task(json!({})).await;
    }
    let put = async |body: Value| server.send("PUT", "limits", &[JSON], body.to_string().as_bytes()).await;
    let set = put(json!({"namespace": "tests", "step": "a", "max_in_progress": 2})).await;
    assert_eq!((set.status, &set.json()["limits"][0]["max_in_progress"]), (200, &json!(2)), "{set:?}");
    assert_eq!(server.now(9).await.len(), 2);
    assert_eq!(server.get("limits?namespace=tests").await.json()["limits"][0]["in_progress"], 2);
    let gone = put(json!({"namespace": "tests", "step": "a", "max_in_progress": null})).await;
    assert_eq!(gone.json()["limits"], json!([]));
    assert_eq!(server.now(9).await.len(), 1);
    assert_refused(&put(json!({"namespace": "nowhere", "max_in_progress": 1})).await, 400, "nowhere");
    assert_refused(&put(json!({"namespace": "a\u{0}", "max_in_progress": 1})).await, 400, "namespace");
}

/// Each domain event is read once, from cursor to cursor.
#[tokio::test]
async fn domain_events_are_read_from_cursor_to_cursor() {
    let server = Server::of("[{name: a, publishes_events: [{name: paid, condition: success}]}]").await;
    for _ in 0..2 {
        server.task(json!({})).await;
    }
    server.finish().await;
    // Events are visible only after all older transactions, of any schema, have ended.
    let reply = |answer: &Answer| answer.json()["events"].as_array().is_some_and(|events| events.len() == 2);
    eventually(server.address, "/v1/domain_events", reply).await;
    let first = server.get("domain_events?namespace=tests&name=paid&limit=1").await.json();
    let second = server.get(&format!("domain_events?after={}", text(&first["next"]))).await.json();
    assert_eq!((&first["events"][0]["name"], second["events"].as_array().map(Vec::len)), (&json!("paid"), Some(1)));
    let rest = server.get(&format!("domain_events?after={}", text(&second["next"]))).await.json();
    assert_eq!((&rest["events"], &rest["next"]), (&json!([]), &second["next"]));
    assert_refused(&server.get("domain_events?after=now").await, 400, "after");
}

/// A bulk operation changes all matches after a preview that changes nothing; without a filter it is rejected.
#[tokio::test]
async fn bulk_operations_follow_their_preview() {
    let server = Server::of("[{name: a}]").await;
    for _ in 0..3 {
        server.task(json!({})).await;
    }
    let request = |preview: bool| json!({"filter": {"namespace": "tests"}, "operation": {"type": "cancel_task"}, "preview": preview, "by": "ann"});
    let seen = server.post("tasks/bulk", &request(true)).await.json();
    assert_eq!(
        (&seen["preview"], &seen["done"], seen["items"].as_array().map(Vec::len)),
        (&json!(true), &json!(3), Some(3))
    );
    assert_eq!(server.now(9).await.len(), 3, "nothing was changed");
    let done = server.post("tasks/bulk", &request(false)).await.json();
    assert_eq!((&done["done"], &done["refused"]), (&json!(3), &json!([])));
    assert_eq!(server.get("tasks?status=cancelled").await.json()["tasks"].as_array().map(Vec::len), Some(3));
    let all = json!({"filter": {}, "operation": {"type": "cancel_task"}, "by": "ann"});
    assert_refused(&server.post("tasks/bulk", &all).await, 400, "filter");
    assert_refused(
        &server.post("tasks/bulk", &json!({"filter": {"name": "t"}, "operation": {"type": "eat"}, "by": "x"})).await,
        400,
        "eat",
    );
}

/// A namespace is created with its first template or by PUT, and keeps its settings.
#[tokio::test]
async fn namespaces_are_put_and_listed() {
    let server = Server::of("[{name: a}]").await;
    let put = async |name: &str, body: Value| {
        server.send("PUT", &format!("namespaces/{name}"), &[JSON], body.to_string().as_bytes()).await
    };
    let made = put("later", json!({"description": "for later"})).await;
    assert_eq!((made.status, &made.json()["description"]), (200, &json!("for later")), "{made:?}");
    let listed = server.get("namespaces").await.json();
    let names: Vec<&Value> = listed["namespaces"].as_array().expect("a list").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, [&json!("later"), &json!("tests")]);
    assert_refused(&put("later", json!({"mode": "dreaming"})).await, 400, "dreaming");
    assert_refused(&put("a%00", json!({})).await, 400, "namespace");
}
