//! `POST /v1/tasks`.

use serde_json::{Value, json};

use super::fixture::{JSON, Server, wanted};
use crate::http::assert_refused;

const YAML: &str = "content-type: application/yaml";

/// A task is created with all given fields, and its location is returned.
#[tokio::test]
async fn a_task_is_created_and_its_first_step_can_be_claimed() {
    let server = Server::of("[{name: a}]").await;
    let mut task = wanted("t", json!({"order": 7}));
    let more = json!({"initiator": "me", "source_system": "shop", "reason": "because", "tags": ["x", "y"], "priority": -3,
                      "correlation_id": "c", "parent_correlation_id": "p", "idempotency_key": "k"});
    task.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let made = server.post("tasks", &task).await;
    assert_eq!(made.status, 201, "{made:?}");
    let uuid = made.json()["task_uuid"].as_str().expect("a uuid").to_owned();
    assert!(made.headers.contains(&format!("location: /v1/tasks/{uuid}")), "{}", made.headers);
    let claimed = server.now(9).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!((&claimed[0]["task_uuid"], &claimed[0]["context"]), (&json!(uuid), &json!({"order": 7})));
    assert_eq!((&claimed[0]["correlation_id"], &claimed[0]["name"]), (&json!("c"), &json!("a")));
}

/// A duplicate is rejected with the id of the existing task.
#[tokio::test]
async fn a_duplicate_is_rejected_with_the_existing_task() {
    let server = Server::start().await;
    let strict = "name: s\nnamespace_name: tests\nidentity_strategy: strict\nsteps: [{name: a}]\n";
    assert_eq!(server.send("POST", "templates", &[YAML], strict.as_bytes()).await.status, 201);
    let first = server.post("tasks", &wanted("s", json!({"a": 1, "b": 2}))).await.json();
    let again = server
        .send(
            "POST",
            "tasks",
            &[JSON],
            br#"{"context":{"b":2,"a":1},"name":"s","namespace":"tests","version":"1.0.0"}"#,
        )
        .await;
    assert_refused(&again, 409, "duplicate of task");
    assert_eq!(again.json()["task_uuid"], first["task_uuid"]);
}

/// Invalid submissions are rejected with a message that names the parameter, and create nothing.
/// A table of bodies; afterwards nothing can be claimed.
#[tokio::test]
async fn invalid_submissions_are_rejected() {
    let server = Server::start().await;
    let schema = "{type: object, required: [order]}";
    let text = format!("name: t\nnamespace_name: tests\ninput_schema: {schema}\nsteps: [{{name: a}}]\n");
    assert_eq!(server.send("POST", "templates", &[YAML], text.as_bytes()).await.status, 201);
    let with = |key: &str, value: Value| {
        let mut task = wanted("t", json!({"order": 1}));
        task[key] = value;
        task
    };
    let table = [
        (with("version", json!("9")), 404, "no template"),
        (with("namespace", json!("else")), 404, "no template"),
        (with("name", json!("a\u{0}b")), 404, "no template"),
        (with("context", json!({})), 400, "`context`: \"order\""),
        (with("priority", json!(40_000)), 400, "40000"),
        (with("tags", json!("x")), 400, "expected a list"),
        (with("tags", json!(vec!["x"; 101])), 400, "`tags`: must have at most 100 elements, got 101"),
        (with("initiator", json!("a\u{0}")), 400, "`initiator`: "),
        (with("reason", json!("x".repeat(201))), 400, "`reason`: must have at most 200 characters, got 201"),
        (with("colour", json!("red")), 400, "colour"),
        (json!([]), 400, "invalid body"),
        (json!({}), 400, "missing field"),
    ];
    for (task, status, message) in table {
        assert_refused(&server.post("tasks", &task).await, status, message);
    }
    assert_refused(&server.send("POST", "tasks", &[YAML], b"`name`: t").await, 415, "application/json");
    assert!(server.now(9).await.is_empty());
}
