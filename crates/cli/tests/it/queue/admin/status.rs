//! `/status…`, `/analytics/…`, `/stats/refresh`, and maintenance.

use serde_json::json;

use super::super::fixture::{Server, assert_refused, each};
use super::Described;
use crate::http::eventually;

/// Every route that a console uses is answered as documented.
#[tokio::test]
async fn all_console_routes_are_answered() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    server.push("a/b", "p", &["1", "2"]).await;
    server.pop("queue/a%2Fb?consumerGroup=g").await;
    let status = described.ask("GET", "/status", "status").await;
    assert_eq!((&status["overview"]["queues"], &status["maintenance"]["maintenanceMode"]), (&json!(1), &json!(false)));
    assert_eq!((&status["server"]["popsServed"], &status["server"]["waitingPops"]), (&json!(1), &json!(0)));
    let queues = described.ask("GET", "/status/queues", "status/queues?limit=10").await;
    assert_eq!(each(&queues["queues"], "name"), ["a/b"]);
    for path in ["a/b", "a%2Fb"] {
        let queue = described.ask("GET", "/status/queues/{queue}", &format!("status/queues/{path}")).await;
        assert_eq!(queue["messages"]["total"], 2);
    }
    assert_refused(&server.get("status/queues/none").await, 404, "there is no queue");
    let analytics = described.ask("GET", "/status/analytics", "status/analytics?interval=hour&from=2020-01-01").await;
    assert_eq!(each(&analytics["consumerGroups"], "totalLag"), [2]);
    for path in ["analytics/system-metrics", "analytics/worker-metrics"] {
        let reply = described.ask("GET", &format!("/{path}"), path).await;
        assert!(reply["uptimeSeconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{reply}");
    }
    let database = described.ask("GET", "/analytics/postgres-stats", "analytics/postgres-stats").await;
    assert!(each(&database["tables"], "name").contains(&&json!("segment")), "{database}");
    assert_eq!(described.ask("POST", "/stats/refresh", "stats/refresh").await, json!({"success": true}));
}

/// A server runs maintenance by itself, at the configured interval.
/// A queue with a `ttl`, whose message is made older than that.
#[tokio::test]
async fn a_server_runs_maintenance() {
    let server = Server::with(&["--eviction-interval", "50"]).await;
    server.post("configure", &json!({"queue": "q", "options": {"ttl": 60}})).await;
    server.push("q", "p", &["1"]).await;
    let older = server.db.schema().sql("update {schema}.segment set created_at = created_at - interval '100 s'");
    sqlx::query(&older).execute(server.db.database().pool()).await.expect("made older");
    eventually(server.address, "/api/v1/resources/queues/q", |answer| answer.json()["messages"]["total"] == 0).await;
}
