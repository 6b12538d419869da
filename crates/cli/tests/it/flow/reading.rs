//! `GET /v1/tasks…`, `GET /v1/templates`, `GET /v1/analytics/…`: reading, listing and waiting.

use serde_json::{Value, json};
use tokio::time::timeout;

use super::fixture::{Server, text, wanted};
use crate::http::{assert_refused, eventually};
use crate::process::PATIENCE;

/// A task is returned with its counts and steps in every state, and as a summary.
#[tokio::test]
async fn a_task_is_returned_with_its_steps() {
    let server = Server::of("[{name: a}, {name: b, dependencies: [a]}]").await;
    let task = server.task(json!({"order": 7})).await;
    let open = server.get(&format!("tasks/{task}")).await.json();
    assert_eq!((&open["status"], &open["context"]), (&json!("enqueuing_steps"), &json!({"order": 7})));
    assert_eq!((&open["total_steps"], &open["ready_steps"]), (&json!(2), &json!(1)));
    assert_eq!(
        (&open["execution_status"], &open["recommended_action"]),
        (&json!("has_ready_steps"), &json!("execute_ready_steps"))
    );
    server.finish().await;
    let done = server.get(&format!("tasks/{task}")).await.json();
    assert_eq!((&done["status"], &done["completion_percentage"]), (&json!("complete"), &json!(100.0)));
    assert_eq!((&done["steps"][1]["name"], &done["steps"][1]["result"]), (&json!("b"), &json!("b")));
    let short = server.get(&format!("tasks/{task}/summary")).await.json();
    assert_eq!((&short["status"], short.get("steps")), (&json!("complete"), None));

    let steps = server.get(&format!("tasks/{task}/workflow_steps")).await.json();
    assert_eq!(steps["steps"].as_array().map(Vec::len), Some(2));
    let step = server.get(&format!("tasks/{task}/workflow_steps/a")).await.json();
    assert_eq!((&step["state"], &step["worker"]), (&json!("complete"), &json!("tester")));
    let audit = server.get(&format!("tasks/{task}/workflow_steps/a/audit")).await.json();
    assert_eq!(
        (&audit["attempts"][0]["outcome"], &audit["attempts"][0]["worker"]),
        (&json!("complete"), &json!("tester"))
    );
    let moves = server.get(&format!("tasks/{task}/transitions")).await.json();
    assert_eq!(
        moves["transitions"].as_array().and_then(|moves| moves.last()).map(|last| &last["to"]),
        Some(&json!("complete"))
    );

    let unknown = "tasks/00000000-0000-0000-0000-000000000000";
    for path in [
        "",
        "/summary",
        "/workflow_steps",
        "/workflow_steps/a",
        "/workflow_steps/a/audit",
        "/transitions",
        "?wait_ms=60000",
    ] {
        assert_refused(&server.get(&format!("{unknown}{path}")).await, 404, "00000000");
        assert_refused(
            &server.get(&format!("tasks/nonsense{path}")).await,
            400,
            "`task_uuid`: must be a UUID, got \"nonsense\"",
        );
    }
    for path in ["workflow_steps/x", "workflow_steps/x%00", "workflow_steps/x/audit"] {
        assert_refused(&server.get(&format!("tasks/{task}/{path}")).await, 404, "no step");
    }
}

/// Lists return all matches page by page, and invalid parameters are rejected.
#[tokio::test]
async fn tasks_and_templates_are_listed_page_by_page() {
    let server = Server::of("[{name: a}]").await;
    server.template("u", "[{name: a}]").await;
    let mut made = Vec::new();
    for n in 0..3 {
        let mut task = wanted("t", json!({"n": n}));
        task["tags"] = json!([format!("n{n}")]);
        task["priority"] = json!(n);
        made.push(text(&server.post("tasks", &task).await.json()["task_uuid"]));
    }
    let ids = |page: &Value| {
        page["tasks"].as_array().expect("tasks").iter().map(|task| text(&task["task_uuid"])).collect::<Vec<_>>()
    };
    let first = server.get("tasks?namespace=tests&limit=2").await.json();
    let second = server.get(&format!("tasks?namespace=tests&limit=2&after={}", text(&first["next"]))).await.json();
    assert_eq!([ids(&first), ids(&second)].concat(), made.iter().rev().cloned().collect::<Vec<_>>());
    assert_eq!(second["next"], Value::Null);
    for (query, expected) in [
        ("tag=n1", &made[1..2]),
        ("priority=2", &made[2..]),
        ("status=complete", &[]),
        ("name=u", &[]),
        ("created_before=2020-01-01", &[]),
        ("created_before=9999-12-31T23:59:59Z&created_after=0001-01-01&tag=n0", &made[..1]),
    ] {
        assert_eq!(ids(&server.get(&format!("tasks?{query}")).await.json()), expected, "{query}");
    }
    for query in ["status=fine", "priority=high", "created_after=soon", "after=me", "tag=%00", "limit=some"] {
        assert_refused(&server.get(&format!("tasks?{query}")).await, 400, query.split('=').next().expect("a name"));
    }
    let templates = server.get("templates?namespace=tests&limit=1").await.json();
    assert_eq!(templates["templates"][0]["name"], "t");
    let rest = server.get(&format!("templates?namespace=tests&after={}", templates["next"])).await.json();
    assert_eq!((&rest["templates"][0]["name"], &rest["next"]), (&json!("u"), &Value::Null));
}

/// Analytics cover the requested period only.
#[tokio::test]
async fn analytics_cover_the_requested_period() {
    let server = Server::of("[{name: a}]").await;
    server.task(json!({})).await;
    server.finish().await;
    let reply = server.get("analytics/performance?namespace=tests").await.json();
    assert_eq!((&reply["templates"][0]["name"], &reply["templates"][0]["complete"]), (&json!("t"), &json!(1)));
    let slow = server.get("analytics/bottlenecks?limit=1").await.json();
    assert_eq!((&slow["steps"][0]["step"], &slow["steps"][0]["attempts"]), (&json!("a"), &json!(1)));
    let none = server.get("analytics/performance?since=9999-12-31").await.json();
    assert_eq!(none["templates"], json!([]));
    assert_refused(&server.get("analytics/bottlenecks?since=then").await, 400, "since");
}

/// A request that waits for a task is answered when the task ends, at any server; when its time is over, with the
/// current state; and when the server stops.
#[tokio::test]
async fn a_wait_ends_with_its_task() {
    let server = Server::of("[{name: a}]").await;
    let (_other, elsewhere) = server.another().await;
    let task = server.task(json!({})).await;
    let early = server.get(&format!("tasks/{task}?wait_ms=1")).await.json();
    assert_eq!(early["status"], "enqueuing_steps");
    let waiting = {
        let (client, path) = (server.client.clone(), format!("tasks/{task}?wait_ms=60000"));
        tokio::spawn(async move { client.get(&path).await })
    };
    let line = "reveille_wake_waiters{consumer=\"watch\"} 1\n";
    eventually(server.address, "/metrics", |answer| answer.body.contains(line)).await;
    elsewhere.finish().await;
    let answer = timeout(PATIENCE, waiting).await.expect("answered in time").expect("no panic");
    assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("complete")));

    let other = server.task(json!({})).await;
    let waiting = {
        let (client, path) = (server.client.clone(), format!("tasks/{other}?wait_ms=600000"));
        tokio::spawn(async move { client.get(&path).await })
    };
    eventually(server.address, "/metrics", |answer| answer.body.contains(line)).await;
    let Server { reveille, db: _db, .. } = server;
    reveille.signal("TERM").await;
    let answer = timeout(PATIENCE, waiting).await.expect("answered in time").expect("no panic");
    assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("enqueuing_steps")));
    assert_eq!(reveille.ended().await.status.code(), Some(0));
}
