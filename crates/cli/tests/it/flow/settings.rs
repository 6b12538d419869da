//! Namespaces, namespace templates and the orchestrator; resuming and deleting tasks.

use serde_json::{Value, json};
use sqlx::postgres::PgListener;

use super::fixture::{JSON, Server};
use crate::http::{Answer, assert_refused};
use crate::process::PATIENCE;

async fn put(server: &Server, path: &str, body: Value) -> Answer {
    server.send("PUT", path, &[JSON], body.to_string().as_bytes()).await
}

/// Namespace templates are created, listed and deleted. A namespace starts with the settings of one, and an unknown one
/// is rejected. A new namespace with `announces` is announced.
#[tokio::test]
async fn namespaces_start_with_their_template() {
    let server = Server::start().await;
    let mut listener = PgListener::connect_with(server.db.database().pool()).await.expect("a listener");
    let channel = format!("{}_namespace_created", server.db.schema().name());
    listener.listen(&channel).await.expect("listening");
    let made =
        put(&server, "namespace_templates/short", json!({"retention_seconds": 3600, "failed_retention_seconds": null}))
            .await;
    assert_eq!((made.status, &made.json()["failed_retention_seconds"]), (200, &Value::Null), "{made:?}");
    let all = server.get("namespace_templates").await.json();
    assert_eq!(all["namespace_templates"][0]["name"], "short");
    let namespace = put(&server, "namespaces/n", json!({"template": "short", "announces": true})).await.json();
    assert_eq!((&namespace["retention_seconds"], &namespace["announces"]), (&json!(3600), &json!(true)));
    let reply = tokio::time::timeout(PATIENCE, listener.recv()).await.expect("in time").expect("a notification");
    assert!(reply.payload().contains(r#""namespace_name" : "n""#), "{}", reply.payload());
    let refused = put(&server, "namespaces/m", json!({"template": "typo"})).await;
    assert_refused(&refused, 400, "`template`: there is no namespace template");
    assert_refused(&put(&server, "namespaces/m", json!({"retention_seconds": 1})).await, 400, "`retention_seconds`: ");
    assert_eq!(server.send("DELETE", "namespace_templates/short", &[], b"").await.status, 204);
    assert_eq!(server.send("DELETE", "namespace_templates/short", &[], b"").await.status, 404);
}

/// The mode of all namespaces is set and read, and the server's orchestrator is inspected.
#[tokio::test]
async fn the_orchestrator_is_inspected_and_configured() {
    let server = Server::of("[{name: a}]").await;
    let mode = put(&server, "orchestration/mode", json!({"mode": "polling_only", "fallback_enabled": false})).await;
    assert_eq!(mode.json(), json!({"mode": "polling_only", "fallback_enabled": false}));
    assert_eq!(server.get("namespaces").await.json()["namespaces"][0]["mode"], "polling");
    let hybrid = json!({"mode": {"hybrid": {"event_namespaces": ["tests"], "polling_namespaces": ["other"]}}, "fallback_enabled": true});
    assert_eq!(put(&server, "orchestration/mode", hybrid.clone()).await.json(), hybrid);
    assert_eq!(server.get("orchestration/mode").await.json(), hybrid);
    let twice =
        json!({"mode": {"hybrid": {"event_namespaces": ["a"], "polling_namespaces": ["a"]}}, "fallback_enabled": true});
    assert_refused(&put(&server, "orchestration/mode", twice).await, 400, "`mode`: ");
    assert_eq!(
        put(&server, "orchestration/mode", json!({"mode": "sometimes", "fallback_enabled": true})).await.status,
        400
    );
    let seen = server.get("orchestration").await.json();
    assert_eq!(seen["orchestrators"][0]["health"]["checks"][0]["name"], "listeners_connected");
    assert_eq!(seen["orchestrators"][0]["routing_rules"], json!([]));
}

/// A failed task is resumed, and deleted when it has ended.
#[tokio::test]
async fn tasks_are_resumed_and_deleted() {
    let server = Server::of("[{name: a}]").await;
    let task = server.post("tasks", &json!({"namespace": "tests", "name": "t"})).await.json();
    assert_eq!(task["version"], "1.0.0", "the newest");
    let path = format!("tasks/{}", task["task_uuid"].as_str().expect("an id"));
    let step = server.now(1).await.remove(0);
    server.report("fail", json!([{"token": step["token"], "error": {"message": "no", "retryable": false}}])).await;
    assert_eq!(server.get("dlq").await.json()["entries"][0]["reason"], "not_retryable");
    let resumed = server.post(&format!("{path}/resume"), &json!({"by": "ada"})).await;
    assert_eq!((resumed.status, &resumed.json()["execution_status"]), (200, &json!("has_ready_steps")), "{resumed:?}");
    server.finish().await;
    assert_eq!(server.post(&format!("{path}/resume"), &json!({"by": "ada"})).await.status, 409);
    let delete = |preview: bool| json!({"filter": {"namespace": "tests"}, "operation": {"type": "delete_task"}, "preview": preview, "by": "ada"});
    assert_eq!(server.post("tasks/bulk", &delete(true)).await.json()["done"], 1);
    assert_eq!(server.get(&path).await.status, 200);
    assert_eq!(server.post("tasks/bulk", &delete(false)).await.json()["done"], 1);
    assert_eq!(server.get(&path).await.status, 404);
}
