//! The audit: every route that changes something is audited, or is the work of producers and workers.

use std::collections::BTreeSet;

use reveille_pg::testing::TestDb;
use serde_json::{Value, json};

use crate::access::{ADMIN, call, secured};
use crate::http::get;

/// The audited routes, with the action that each records.
const AUDITED: &[(&str, &str)] = &[
    ("POST /api/v1/configure", "queue.configure"),
    ("DELETE /api/v1/consumer-groups/{group}", "group.delete"),
    ("DELETE /api/v1/consumer-groups/{group}/queues/{queue}", "group.delete"),
    ("POST /api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek", "group.seek"),
    ("POST /api/v1/consumer-groups/{group}/queues/{queue}/seek", "group.seek"),
    ("POST /api/v1/consumer-groups/{group}/subscription", "group.subscribe"),
    ("DELETE /api/v1/dlq", "dead_letters.purge"),
    ("POST /api/v1/dlq/replay", "dead_letters.replay"),
    ("DELETE /api/v1/messages/{partitionId}/{transactionId}", "message.delete"),
    ("POST /api/v1/messages/{partitionId}/{transactionId}/dlq", "message.dead_letter"),
    ("POST /api/v1/messages/{partitionId}/{transactionId}/retry", "message.retry"),
    ("DELETE /api/v1/queues/{queue}/clear", "queue.clear"),
    ("DELETE /api/v1/resources/queues/{queue}", "queue.delete"),
    ("POST /api/v1/system/maintenance", "maintenance.push"),
    ("POST /api/v1/system/maintenance/pop", "maintenance.pop"),
    ("POST /v1/dead_letters/purge", "dead_letters.purge"),
    ("POST /v1/dead_letters/replay", "dead_letters.replay"),
    ("DELETE /v1/dead_letters/{id}", "dead_letters.purge"),
    ("POST /v1/dead_letters/{id}/replay", "dead_letters.replay"),
    ("PATCH /v1/dlq/{id}", "investigation.close"),
    ("DELETE /v1/durable/instances/{instance}", "instance.delete"),
    ("POST /v1/durable/instances/{instance}/cancel", "instance.cancel"),
    ("POST /v1/durable/prune", "instance.prune"),
    ("PUT /v1/limits", "limit.set"),
    ("DELETE /v1/namespace_templates/{name}", "namespace_template.delete"),
    ("PUT /v1/namespace_templates/{name}", "namespace_template.put"),
    ("PUT /v1/namespaces/{namespace}", "namespace.put"),
    ("PUT /v1/orchestration/mode", "mode.set"),
    ("POST /v1/queues/{queue}/groups/{group}/pause", "group.pause"),
    ("POST /v1/queues/{queue}/groups/{group}/resume", "group.resume"),
    ("POST /v1/queues/{queue}/pause", "queue.pause"),
    ("POST /v1/queues/{queue}/resume", "queue.resume"),
    ("PUT /v1/schedules", "schedule.put"),
    ("DELETE /v1/schedules/{namespace}/{name}", "schedule.delete"),
    ("POST /v1/schedules/{namespace}/{name}/pause", "schedule.pause"),
    ("POST /v1/schedules/{namespace}/{name}/resume", "schedule.resume"),
    ("POST /v1/schedules/{namespace}/{name}/run", "schedule.run"),
    ("POST /v1/tasks/bulk", "step.operate"),
    ("DELETE /v1/tasks/{task_uuid}", "task.end"),
    ("PATCH /v1/tasks/{task_uuid}", "task.end"),
    ("POST /v1/tasks/{task_uuid}/fork", "task.fork"),
    ("POST /v1/tasks/{task_uuid}/resume", "step.operate"),
    ("PATCH /v1/tasks/{task_uuid}/workflow_steps/{step}", "step.operate"),
    ("POST /v1/templates", "template.register"),
    ("POST /v1/tokens", "token.create"),
    ("DELETE /v1/tokens/{id}", "token.revoke"),
];

/// The other routes with a method that changes something, and why they are not audited.
const NOT_AUDITED: &[(&str, &str)] = &[
    ("POST /api/v1/push", "a message names its producer"),
    ("POST /api/v1/transaction", "pushes and acks"),
    ("POST /api/v1/ack", "the work of consumers"),
    ("POST /api/v1/ack/batch", "the work of consumers"),
    ("POST /api/v1/lease/{leaseId}/extend", "the work of consumers"),
    ("POST /api/v1/traces", "the work of consumers"),
    ("POST /api/v1/stats/refresh", "changes nothing that is stored for clients"),
    ("POST /v1/durable/instances", "the work of producers; the instance has a history"),
    ("POST /v1/durable/instances/{instance}/events/{name}", "the work of producers; the instance has a history"),
    ("POST /v1/tasks", "the work of producers; the task has a history"),
    ("POST /v1/workers/checkpoint", "the work of workers"),
    ("POST /v1/workers/claim", "the work of workers"),
    ("POST /v1/workers/complete", "the work of workers"),
    ("POST /v1/workers/fail", "the work of workers"),
    ("POST /v1/workers/heartbeat", "the work of workers"),
    ("POST /v1/workers/release", "the work of workers"),
];

const SECURITY: &str = include_str!("../../../../docs/security.md");

/// Every route of the OpenAPI document that is no GET is in exactly one of the lists, and every action is documented.
#[tokio::test]
async fn every_change_is_audited_or_has_a_reason_not_to_be() {
    let db = TestDb::new().await;
    let (_server, address) = secured(&db).await;
    let document = get(address, "/openapi.json").await.json();
    let mut routes = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        let methods = operations.as_object().expect("operations").keys().filter(|method| *method != "get");
        routes.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    let listed: Vec<String> = AUDITED.iter().chain(NOT_AUDITED).map(|(route, _)| (*route).to_owned()).collect();
    let known: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(known.len(), listed.len(), "a route is listed twice");
    let difference: Vec<&String> = routes.symmetric_difference(&known).collect();
    assert!(difference.is_empty(), "forgotten, or gone: {difference:?}");
    for (route, action) in AUDITED {
        assert!(SECURITY.contains(&format!("`{action}`")), "docs/security.md lacks {action} of {route}");
    }
}

/// Schedules, forks, replays, clears and operations on instances leave one row each if they change something, and none
/// if they fail or change nothing. Operations on tasks are those of the client, whatever name the request gives.
#[tokio::test]
async fn operations_leave_one_row_each() {
    let db = TestDb::new().await;
    let (_server, address) = secured(&db).await;
    let steps = json!([{"name": "one", "type": "standard", "handler": {"callable": "one"}}]);
    let template = json!({"namespace": "shop", "name": "t", "version": "1.0.0", "steps": steps});
    let schedule =
        json!({"namespace": "shop", "name": "daily", "template": "t", "version": "1.0.0", "cron": "0 5 * * *"});
    let push = json!({"items": [{"queue": "a", "transactionId": "t", "payload": 1}]});
    let prepared = [("POST", "/v1/templates", &template, 201), ("POST", "/api/v1/push", &push, 201)];
    for (method, path, body, status) in prepared {
        let answer = call(address, ADMIN, method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
    let listed = call(address, ADMIN, "GET", "/api/v1/messages?queue=a", &Value::Null).await.json();
    let partition = listed["messages"][0]["partitionId"].as_str().expect("an id").to_owned();
    let submission = json!({"namespace": "shop", "name": "t", "version": "1.0.0", "context": {}});
    let task = call(address, ADMIN, "POST", "/v1/tasks", &submission).await.json();
    let task = task["task_uuid"].as_str().expect("a task").to_owned();
    let daily = |operation: &str| format!("/v1/schedules/shop/daily/{operation}");
    let of_task = |operation: &str| format!("/v1/tasks/{task}{operation}");
    let of_message = |operation: &str| format!("/api/v1/messages/{partition}/t/{operation}");
    let instance = |operation: &str| format!("/v1/durable/instances/i{operation}");
    let start = json!({"instance": "i", "name": "o"});
    let (none, empty, of_a) = (Value::Null, json!({}), json!({"queue": "a"}));
    let by = |step: &str| json!({"step": step, "by": "another name"});
    let cancel = json!({"type": "cancel", "by": "another name"});
    for (method, path, body, status) in [
        ("PUT", "/v1/schedules".to_owned(), &schedule, 200),
        ("PUT", "/v1/schedules".to_owned(), &schedule, 200),
        ("POST", daily("pause"), &none, 200),
        ("POST", daily("pause"), &none, 200),
        ("POST", daily("resume"), &none, 200),
        ("POST", daily("run"), &none, 201),
        ("POST", "/v1/schedules/shop/missing/run".to_owned(), &none, 404),
        ("POST", of_task("/fork"), &by("missing"), 404),
        ("POST", of_task("/fork"), &by("one"), 201),
        ("PATCH", of_task(""), &cancel, 200),
        ("POST", of_message("dlq"), &none, 200),
        ("POST", "/api/v1/dlq/replay".to_owned(), &of_a, 200),
        ("POST", "/api/v1/dlq/replay".to_owned(), &of_a, 200),
        ("DELETE", "/api/v1/queues/a/clear".to_owned(), &none, 200),
        ("DELETE", "/api/v1/queues/a/clear".to_owned(), &none, 200),
        ("POST", "/v1/durable/instances".to_owned(), &start, 201),
        ("POST", instance("/cancel"), &empty, 200),
        ("POST", "/v1/durable/instances/missing/cancel".to_owned(), &empty, 404),
        ("POST", "/v1/durable/prune".to_owned(), &empty, 200),
    ] {
        let answer = call(address, ADMIN, method, &path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
    let page = call(address, ADMIN, "GET", "/v1/audit", &none).await.json();
    let rows = page["audit"].as_array().expect("a list").iter().rev();
    let said = |row: &Value| ["action", "target"].map(|key| row[key].as_str().unwrap_or("?").to_owned()).join(" ");
    let found: Vec<String> = rows.map(said).collect();
    let expected = [
        "template.register shop/t/1.0.0",
        "schedule.put shop/daily",
        "schedule.pause shop/daily",
        "schedule.resume shop/daily",
        "schedule.run shop/daily",
        &format!("task.fork {task}/one"),
        &format!("task.end {task}"),
        &format!("message.dead_letter {partition}/t"),
        "dead_letters.replay a",
        "queue.clear a",
        "instance.cancel i",
    ];
    assert_eq!(found, expected);
    // The operator of a fork is the initiator of the new task.
    for (initiator, count) in [("admin", 1), ("another%20name", 0)] {
        let forks = call(address, ADMIN, "GET", &format!("/v1/tasks?initiator={initiator}"), &none).await.json();
        assert_eq!(forks["tasks"].as_array().map(Vec::len), Some(count), "{initiator}: {forks}");
    }
}
