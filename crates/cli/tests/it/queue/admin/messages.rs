//! `/messages/…`.

use serde_json::{Value, json};

use super::super::fixture::{Server, assert_refused, data, each, keys};
use super::{Described, delete};
use crate::http::send;

/// Messages are listed by every filter, in the documented form.
#[tokio::test]
async fn messages_are_listed() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    server.push("shop.orders", "p", &["1", "2", "3"]).await;
    server.push("mail", "p", &["4"]).await;
    let popped = server.pop("queue/shop.orders?batch=1").await;
    let reply = described.ask("GET", "/messages", "messages?queue=shop.orders").await;
    assert_eq!(each(&reply["messages"], "transactionId"), ["3", "2", "1"]);
    assert_eq!(each(&reply["messages"], "status"), ["pending", "pending", "processing"]);
    assert_eq!(reply["mode"], json!({"hasQueueMode": true, "busGroupsCount": 0, "type": "queue"}));
    assert_eq!(reply["messages"][2]["busStatus"], json!({"consumedBy": 0, "totalGroups": 1}));
    server.ack(&popped, "dlq").await;
    for (query, expected) in [
        ("status=completed", vec!["1"]),
        ("status=pending&ns=shop", vec!["3", "2"]),
        ("status=dlq", vec!["1"]),
        ("status=dead_letter&queue=mail", vec![]),
        ("task=orders&limit=1&offset=1", vec!["2"]),
        ("partition=p&queue=mail", vec!["4"]),
        ("from=2030-01-01", vec![]),
        ("to=2020-01-01T00:00:00Z", vec![]),
    ] {
        let reply = server.get(&format!("messages?{query}")).await.json();
        assert_eq!(each(&reply["messages"], "transactionId"), expected, "{query}");
    }
    for (query, message) in
        [("status=lost", "status"), ("from=then", "from"), ("limit=-1", "limit"), ("queue=%00", "NUL")]
    {
        assert_refused(&server.get(&format!("messages?{query}")).await, 400, message);
    }
}

/// A message is shown with its payload and its groups, deleted, made a dead letter and retried, by an id with unescaped
/// slashes.
#[tokio::test]
async fn a_message_is_shown_dead_lettered_retried_and_deleted() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    let partition = server.push("q", "p", &["x/y", "2"]).await[0]["partition_id"].as_str().expect("an id").to_owned();
    let route = "/messages/{partitionId}/{transactionId}";
    let shown = described.ask("GET", route, &format!("messages/{partition}/x/y")).await;
    assert_eq!(
        (&shown["data"], &shown["status"], &shown["transactionId"]),
        (&json!("x/y"), &json!("pending"), &json!("x/y"))
    );
    let done = format!("messages/{partition}/x/y");
    let post = async |path: String| send(server.address, "POST", &format!("/api/v1/{path}"), &[], b"").await;
    assert_refused(&post(format!("{done}/retry")).await, 409, "has not failed");
    let buried = described.ask("POST", "/messages/{partitionId}/{transactionId}/dlq", &format!("{done}/dlq")).await;
    assert_eq!(keys(&buried).join(" "), "message partitionId success transactionId");
    let dead = described.ask("GET", route, &format!("messages/{partition}/x%2Fy")).await;
    assert_eq!((&dead["status"], &dead["data"]), (&json!("dead_letter"), &json!("x/y")));
    let popped = server.pop("queue/q?batch=9").await;
    assert_eq!(data(&popped), ["2"]);
    server.ack(&popped, "completed").await;
    described.ask("POST", "/messages/{partitionId}/{transactionId}/retry", &format!("{done}/retry")).await;
    assert_eq!(data(&server.pop("queue/q?batch=9").await), ["x/y"]);
    let deleted = described.ask("DELETE", route, &done).await;
    assert_eq!((&deleted["success"], &deleted["transactionId"]), (&json!(true), &json!("x/y")));
    for answer in [
        delete(&server, &done).await,
        server.get(&done).await,
        post(format!("{done}/dlq")).await,
        post(format!("{done}/retry")).await,
    ] {
        assert_refused(&answer, 404, "has no message");
    }
    assert_eq!(server.push("q", "p", &["x/y"]).await[0]["status"], "queued", "its id is free");
    assert_refused(&server.get("messages/not-a-partition/1").await, 400, "partitionId");
    assert_refused(&post(format!("{done}/lose")).await, 404, "nothing of that name");
}

/// The payload of a message and of a dead letter is returned unchanged, whatever JSON it is.
#[tokio::test]
async fn payloads_are_returned_unchanged() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    for (number, payload) in [Value::Null, json!({}), json!([1, "🐘"]), json!(0), json!(false)].into_iter().enumerate()
    {
        let item = json!({"queue": "q", "partition": "p", "transactionId": number.to_string(), "payload": payload});
        let pushed = server.post("push", &json!({"items": [item]})).await.json();
        let path = format!("messages/{}/{number}", pushed[0]["partition_id"].as_str().expect("an id"));
        let shown = described.ask("GET", "/messages/{partitionId}/{transactionId}", &path).await;
        assert_eq!(shown["data"], payload);
        let popped = server.pop("queue/q").await;
        server.ack(&popped, "dlq").await;
        let dead = described.ask("GET", "/dlq", "dlq?limit=1").await;
        assert_eq!(dead["messages"][0]["data"], payload);
    }
}
