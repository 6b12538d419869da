//! Query parameters: administrative routes reject unknown ones, and producers and consumers may send any.

use serde_json::json;

use super::super::fixture::{Server, assert_refused};
use super::delete;
use crate::http::{get, send};

/// A misspelt parameter must not be ignored: `?partion=p` would clear the whole queue. The error names it.
/// Sends one to every administrative operation of the document, and to some in the spelling of clients that do not
/// escape slashes; nothing is cleared or deleted by that.
#[tokio::test]
async fn an_unknown_parameter_of_an_administrative_route_is_refused() {
    let server = Server::start().await;
    server.push("a/b", "p", &["1"]).await;
    let document = get(server.client.address, "/openapi.json").await.json();
    let mut refused = 0;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let is_lenient = path == "/api/v1/configure" || operation["tags"][0] != "administration";
            if is_lenient || !path.starts_with("/api/v1/") {
                continue;
            }
            let asked = path.replace("{queue}", "a%2Fb").replace(['{', '}'], "") + "?colour=red";
            let answer = send(server.client.address, &method.to_uppercase(), &asked, &[], b"").await;
            assert_refused(&answer, 400, "unknown query parameter `colour`");
            refused += 1;
        }
    }
    assert!(refused > 30, "the document was read: {refused}");
    assert_refused(&delete(&server, "queues/a/b/clear?partion=p").await, 400, "this route takes partition");
    assert_refused(&delete(&server, "resources/queues/a/b?force=1").await, 400, "`force`");
    assert_refused(&server.get("resources/queues/a/b?limits=1").await, 400, "`limits`");
    assert_eq!(server.get("resources/queues/a/b").await.json()["messages"]["total"], 1);
}

/// Existing clients must keep working: parameters that Queen MQ's clients send to administrative routes are accepted,
/// and routes that move messages accept any parameter.
/// The parameters are those of the Python client, and those that its documentation names.
#[tokio::test]
async fn parameters_of_existing_clients_are_accepted() {
    let server = Server::start().await;
    server.push("a/b", "p", &["1"]).await;
    for asked in [
        "resources/queues?limit=1&offset=0&search=a",
        "resources/queues/a/b/depth?group=g",
        "resources/partitions?queue=a&limit=1&offset=0",
        "messages?queue=a&partition=p&ns=n&namespace=n&task=t&status=pending&limit=1&offset=0&from=2020-01-01&to=2030-01-01",
        "dlq?queue=a&consumerGroup=g&partition=p&from=2020-01-01&to=2030-01-01&limit=1&offset=0",
        "traces/by-name/a/b?limit=1&offset=0&from=2020-01-01&to=2030-01-01",
        "traces/names?limit=1&offset=0&search=a&from=2020-01-01&to=2030-01-01",
        "status?from=2020-01-01&to=2030-01-01&interval=hour",
        "status/queues?limit=1&offset=0&search=a",
        "status/queues/a/b?partition=p&limit=1&offset=0",
        "status/analytics?from=2020-01-01&to=2030-01-01&interval=hour",
        "analytics/system-metrics?from=2020-01-01&to=2030-01-01&interval=hour",
        "analytics/worker-metrics?from=2020-01-01&to=2030-01-01&interval=hour",
        "consumer-groups/lagging?minLagSeconds=60",
        "pop/queue/a%2Fb?colour=red&frames=true&autopilot=true",
    ] {
        let answer = server.get(asked).await;
        assert_eq!(answer.status, 200, "{asked}: {answer:?}");
    }
    for asked in ["consumer-groups/g?deleteMetadata=true", "consumer-groups/g/queues/q?deleteMetadata=false"] {
        let answer = delete(&server, asked).await;
        assert_ne!(answer.status, 400, "{asked}: {answer:?}");
    }
    assert_eq!(delete(&server, "queues/a/b/clear?partition=p").await.status, 200);
    assert_eq!(server.post("configure?colour=red", &json!({"queue": "q"})).await.status, 200);
    assert_eq!(server.post("push?colour=red", &json!({"items": [{"queue": "q", "payload": 1}]})).await.status, 201);
}
