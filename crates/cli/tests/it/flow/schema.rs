//! Every route of flow, tested by schemathesis.

use serde_json::{Value, json};

use super::fixture::{JSON, Server, text};
use crate::schemathesis::{FLOW, try_out};

/// The server conforms to its OpenAPI document for generated requests: it accepts what the document allows and has no
/// server errors. A fixed seed, against a server with data of every kind. The configuration is in `schema/`.
#[tokio::test]
async fn the_server_conforms_to_its_openapi_document() {
    let server = Server::of(
        "[{name: a, retry: {max_attempts: 1}, publishes_events: [{name: reply, condition: always}]}, {name: b}]",
    )
    .await;
    let fail = async || {
        let failed = server.task(json!({})).await;
        let steps = server.now(9).await;
        let error = |step: &Value| json!({"message": "broken", "retryable": step["name"] == "a"});
        let failures: Vec<_> = steps.iter().map(|step| json!({"token": step["token"], "error": error(step)})).collect();
        let ended = server.report("fail", json!(failures)).await;
        assert_eq!(ended[1]["task_state"], "error", "{ended:?}");
        failed
    };
    // A failed task can be resumed once: a generated request may come after another one has changed it.
    let resumed = fail().await;
    let resolve = json!({"type": "resolve_manually", "by": "tests", "reason": "mended"}).to_string();
    let step = format!("tasks/{resumed}/workflow_steps/a");
    assert_eq!(server.send("PATCH", &step, &[JSON], resolve.as_bytes()).await.status, 200);
    let resume = json!({"by": "tests", "reason": "mended"});
    assert_eq!(server.post(&format!("tasks/{resumed}/resume"), &resume).await.status, 200);
    assert_eq!(server.send("DELETE", &format!("tasks/{resumed}"), &[], b"").await.status, 200);
    let failed = fail().await;
    let task = server.task(json!({})).await;
    let token = text(&server.now(1).await[0]["token"]);
    let schedule = json!({"namespace": "tests", "name": "s", "template": "t", "version": "1.0.0", "cron": "@yearly"});
    for name in ["s", "spare"] {
        let mut schedule = schedule.clone();
        schedule["name"] = json!(name);
        assert_eq!(server.send("PUT", "schedules", &[JSON], schedule.to_string().as_bytes()).await.status, 200);
    }
    let entries = server.get("dlq").await.json();
    let entries = entries["entries"].as_array().expect("entries");
    let entry =
        entries.iter().find(|entry| entry["task_uuid"] == failed.as_str()).expect("an entry of the failed task");
    let entry = entry["id"].to_string();
    let spare = server.task(json!({})).await;
    let environment = [
        ("REVEILLE_TEST_TASK", task.as_str()),
        ("REVEILLE_TEST_FAILED", &failed),
        ("REVEILLE_TEST_SPARE", &spare),
        ("REVEILLE_TEST_TOKEN", &token),
        ("REVEILLE_TEST_ENTRY", &entry),
    ];
    try_out(server.address, "flow", FLOW, &environment).await;
    crate::serve::quiet(server.reveille).await;
}
