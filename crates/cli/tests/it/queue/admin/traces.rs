//! `/traces…`.

use serde_json::{Value, json};

use super::super::fixture::{Server, assert_refused, each};
use super::{Described, column};

/// A trace is found by its message and by its names, and the names are listed; names may contain unescaped slashes.
/// Sends what existing clients send.
#[tokio::test]
async fn traces_are_stored_and_found() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    let partition = server.push("q", "p", &["x/y"]).await[0]["partition_id"].as_str().expect("an id").to_owned();
    let note = |names: Value, data: Value| json!({"transactionId": "x/y", "partitionId": partition, "consumerGroup": "__QUEUE_MODE__", "traceNames": names, "eventType": "info", "data": data});
    let reply =
        described.tell("/traces", "traces", &note(json!(["order/7", "b"]), json!({"text": "hello"})), 201).await;
    assert_eq!(reply["success"], true);
    assert_eq!(server.post("traces", &note(Value::Null, Value::Null)).await.status, 201);
    let route = "/traces/{partitionId}/{transactionId}";
    for path in ["x/y", "x%2Fy"] {
        let reply = described.ask("GET", route, &format!("traces/{partition}/{path}")).await;
        assert_eq!(
            (each(&reply["traces"], "data"), &reply["total"]),
            (vec![&json!({"text": "hello"}), &Value::Null], &json!(2))
        );
        assert_eq!(reply["traces"][0]["traceNames"], json!(["b", "order/7"]));
    }
    for path in ["order/7", "order%2F7"] {
        let reply =
            described.ask("GET", "/traces/by-name/{name}", &format!("traces/by-name/{path}?limit=5&offset=0")).await;
        assert_eq!(each(&reply["traces"], "transactionId"), ["x/y"]);
    }
    let names = described.ask("GET", "/traces/names", "traces/names?limit=5&search=ORD").await;
    assert_eq!(
        (column(&names["names"], "name"), column(&names["names"], "traceCount")),
        (json!(["order/7"]), json!([1]))
    );
    assert_eq!(server.get("traces/by-name/b?from=2030-01-01").await.json()["total"], 0);
}

/// An invalid trace is rejected with the name of the parameter.
/// A table of them.
#[tokio::test]
async fn invalid_traces_are_rejected() {
    let server = Server::start().await;
    let partition = server.push("q", "p", &["1"]).await[0]["partition_id"].as_str().expect("an id").to_owned();
    let none = "0197a5a0-0000-8000-8000-000000000000";
    for (body, status, message) in [
        (json!({}), 400, "partitionId"),
        (json!({"partitionId": partition}), 400, "transactionId"),
        (json!({"partitionId": "p", "transactionId": "1"}), 400, "partitionId"),
        (json!({"partitionId": none, "transactionId": "1"}), 404, "no such partition"),
        (json!({"partitionId": partition, "transactionId": "1", "traceNames": [""]}), 400, "traceNames"),
        (json!({"partitionId": partition, "transactionId": "1", "traceNames": "one"}), 400, "invalid body"),
        (json!({"partitionId": partition, "transactionId": "1", "eventType": "\u{0}"}), 400, "eventType"),
    ] {
        assert_refused(&server.post("traces", &body).await, status, message);
    }
    assert_refused(&server.get("traces/not-a-partition/1").await, 400, "partitionId");
    assert_refused(&server.get("traces/names?from=then").await, 400, "from");
}
