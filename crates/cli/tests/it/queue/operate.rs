//! The routes for operators, under `/v1`.

use serde_json::{Value, json};

use super::fixture::{Server, assert_refused};
use crate::described::Document;
use crate::http::{Answer, get, send};

/// A client that checks each answer against the document.
struct Operator {
    server: Server,
    document: Document,
}

impl Operator {
    async fn new() -> Operator {
        let server = Server::start().await;
        let document = Document::of(server.address).await;
        Operator { server, document }
    }

    async fn get(&self, path: &str) -> Answer {
        let answer = get(self.server.address, path).await;
        self.document.check("GET", path, &answer);
        answer
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = ["content-type: application/json"];
        let answer = send(self.server.address, method, path, &headers, body.to_string().as_bytes()).await;
        self.document.check(method, path, &answer);
        answer
    }

    async fn found(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    async fn done(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.send(method, path, &body).await;
        assert_eq!(answer.status, 200, "{method} {path}: {answer:?}");
        answer.json()
    }
}

/// What is in a queue: its backlog, options, groups, partitions and messages, and one message, each as the document
/// says. An unset option is null here, where `/api/v1` shows a default that has no effect.
#[tokio::test]
async fn a_queue_is_shown() {
    let operator = Operator::new().await;
    let server = &operator.server;
    server.push("a/b <c>", "p", &["1", "2", "3"]).await;
    let popped = server.pop("queue/a%2Fb%20%3Cc%3E?consumerGroup=g&batch=2").await;
    let list = operator.found("/v1/queues?search=A/B").await;
    let queue = &list["queues"][0];
    assert_eq!((&queue["name"], &queue["depth"], &queue["leased"]), (&json!("a/b <c>"), &json!(3), &json!(2)));
    assert_eq!(operator.found("/v1/queues?search=other").await["queues"], json!([]));
    let queue = operator.found("/v1/queues/a%2Fb%20%3Cc%3E").await;
    assert_eq!((&queue["options"]["leaseTime"], &queue["options"]["ttl"]), (&json!(300), &Value::Null));
    assert_eq!((&queue["consumer_groups"][0]["name"], &queue["consumer_groups"][0]["lag"]), (&json!("g"), &json!(3)));
    let partitions = operator.found("/v1/queues/a%2Fb%20%3Cc%3E/partitions?state=leased").await;
    let cursor = &partitions["partitions"][0]["cursors"][0];
    assert_eq!((&cursor["lease_id"], &cursor["leased"]), (&popped["leaseId"], &json!(2)));
    let page = operator.found("/v1/queues/a%2Fb%20%3Cc%3E/messages?limit=2&payloads=true").await;
    assert_eq!((&page["messages"][0]["payload"], &page["messages"][1]["status"]), (&json!("3"), &json!("processing")));
    let next = page["next"].as_str().expect("a next page");
    let page = operator.found(&format!("/v1/queues/a%2Fb%20%3Cc%3E/messages?limit=2&after={next}")).await;
    assert_eq!((page["messages"].as_array().map(Vec::len), &page["next"]), (Some(1), &Value::Null));
    let peeked = operator.found("/v1/queues/a%2Fb%20%3Cc%3E/peek?group=g&limit=1").await;
    assert_eq!(peeked["messages"][0]["payload"], json!("1"));
    let id = peeked["messages"][0]["partition_id"].as_str().expect("an id");
    let message = operator.found(&format!("/v1/messages/{id}/1")).await;
    assert_eq!(
        (&message["message"]["payload"], &message["consumer_groups"][0]["status"]),
        (&json!("1"), &json!("processing"))
    );
    for path in ["/v1/queues/none", "/v1/queues/none/partitions", "/v1/queues/none/messages", "/v1/queues/none/peek"] {
        assert_refused(&operator.get(path).await, 404, "there is no queue \"none\"");
    }
    assert_refused(&operator.get(&format!("/v1/messages/{id}/none")).await, 404, "no message \"none\"");
    for (path, message) in [
        ("/v1/queues?sort=x", "unknown query parameter `sort`"),
        ("/v1/queues/q/messages?status=dead", "`status`: must be one of `pending`, `processing`, `completed`"),
        ("/v1/queues/q/messages?after=x", "`after`: must be the `next` of another page"),
        ("/v1/queues/q/partitions?after=x", "`after`: must be the `next` of another page"),
        ("/v1/queues/q/partitions?state=x", "`state`: must be one of"),
        ("/v1/messages/x/1", "`partition_id`: must be the id of a partition"),
    ] {
        assert_refused(&operator.get(path).await, 400, message);
    }
}

/// A pause holds for another server, and the end of it wakes a pop that waits there.
#[tokio::test]
async fn a_pause_holds_for_all_servers() {
    let operator = Operator::new().await;
    let server = &operator.server;
    let (_other, client) = server.another().await;
    server.push("q", "p", &["1"]).await;
    let popped = server.pop("queue/q?consumerGroup=g").await;
    server.ack(&popped, "completed").await;
    for path in ["/v1/queues/q/pause", "/v1/queues/q/groups/g/pause"] {
        assert_eq!(operator.done("POST", path, json!({})).await["paused"], true);
    }
    server.push("q", "p", &["2"]).await;
    client.pop_nothing("queue/q?consumerGroup=g").await;
    let queue = operator.found("/v1/queues/q").await;
    assert!(queue["paused_at"].is_string() && queue["consumer_groups"][0]["paused_at"].is_string(), "{queue}");
    let waiting = tokio::spawn(async move { client.pop("queue/q?consumerGroup=g&wait=true&timeout=60000").await });
    for path in ["/v1/queues/q/resume", "/v1/queues/q/groups/g/resume"] {
        assert_eq!(operator.done("POST", path, json!({})).await["paused"], false);
    }
    assert_eq!(waiting.await.expect("a pop")["messages"][0]["data"], "2");
    assert_refused(&operator.send("POST", "/v1/queues/none/pause", &json!({})).await, 404, "there is no queue");
    assert_refused(
        &operator.send("POST", "/v1/queues/q/groups/none/resume", &json!({})).await,
        404,
        "no consumer group",
    );
}

/// Dead letters of a filter are shown, counted, replayed and purged in steps; what failed after the count stays. One is
/// replayed with another payload, whose digits stay as they are.
#[tokio::test]
async fn dead_letters_are_handled() {
    let operator = Operator::new().await;
    let server = &operator.server;
    let give_up = async |transactions: &[&str]| {
        server.push("q", "p", transactions).await;
        let popped = server.pop(&format!("queue/q?consumerGroup=g&batch={}", transactions.len())).await;
        server.ack(&popped, "dlq").await;
    };
    give_up(&["1", "2", "3", "4", "5"]).await;
    let letters = operator.found("/v1/dead_letters?queue=q&limit=2").await;
    let newest = &letters["dead_letters"][0];
    assert_eq!((&newest["transaction_id"], &newest["payload"]), (&json!("5"), &json!("5")));
    let next = letters["next"].as_i64().expect("a next page");
    let page = operator.found(&format!("/v1/dead_letters?queue=q&after={next}")).await;
    assert_eq!((page["dead_letters"].as_array().map(Vec::len), &page["next"]), (Some(3), &Value::Null));
    let seen = operator.done("POST", "/v1/dead_letters/replay", json!({"queue": "q", "dry_run": true})).await;
    assert_eq!((&seen["count"], &seen["done"], &seen["up_to"]), (&json!(5), &json!(0), &newest["id"]));
    assert_eq!(seen["sample"].as_array().map(Vec::len), Some(5));
    give_up(&["late"]).await;
    let step = json!({"queue": "q", "up_to": seen["up_to"], "limit": 2});
    let first = operator.done("POST", "/v1/dead_letters/replay", step.clone()).await;
    assert_eq!((&first["done"], first["next"].is_i64()), (&json!(2), true));
    let id = newest["id"].as_i64().expect("an id");
    let one = format!("/v1/dead_letters/{id}");
    assert_eq!(operator.found(&one).await["transaction_id"], "5");
    let headers = ["content-type: application/json"];
    let edited = br#"{"payload": {"n": 12345678901234567890.10}}"#;
    let answer = send(server.address, "POST", &format!("{one}/replay"), &headers, edited).await;
    assert_eq!((answer.status, &answer.json()["result"]), (200, &json!("replayed")), "{answer:?}");
    assert_refused(&operator.get(&one).await, 404, "there is no dead letter");
    let body = get(server.address, "/v1/queues/q/peek?group=g").await.body;
    assert!(body.contains("12345678901234567890.10"), "{body}");
    let purged = operator.done("POST", "/v1/dead_letters/purge", step).await;
    assert_eq!((&purged["done"], purged["next"].is_i64()), (&json!(2), true));
    let late = operator.found("/v1/dead_letters").await["dead_letters"].take();
    assert_eq!((late.as_array().map(Vec::len), &late[0]["transaction_id"]), (Some(1), &json!("late")));
    let late = format!("/v1/dead_letters/{}", late[0]["id"]);
    assert_eq!(operator.done("DELETE", &late, json!({})).await["result"], "deleted");
    for (body, message) in [
        (json!({}), "a filter or `all` is required"),
        (json!({"queue": "q", "limit": 0}), "`limit`: must be between 1 and 200, got 0"),
        (json!({"queue": "q", "form": "x"}), "unknown field `form`"),
        (json!({"from": "soon"}), "from"),
    ] {
        assert_refused(&operator.send("POST", "/v1/dead_letters/purge", &body).await, 400, message);
    }
}
