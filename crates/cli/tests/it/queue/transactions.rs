//! `POST /transaction`.

use serde_json::{Value, json};

use super::fixture::{Server, assert_refused, data, each, keys, said};

fn ack(popped: &Value) -> Value {
    let mut ack = said(popped, "completed").remove(0);
    ack["type"] = json!("ack");
    ack
}

fn push(queue: &str, transactions: &[&str]) -> Value {
    let item = |transaction: &&str| json!({"queue": queue, "transactionId": transaction, "payload": transaction});
    json!({"type": "push", "items": transactions.iter().map(item).collect::<Vec<_>>()})
}

/// Input is acked and output pushed together, and each message and ack has its answer, in order.
/// What the newer client sends: leases at the acks, transaction ids at the pushes.
#[tokio::test]
async fn a_transaction_does_all_of_it() {
    let server = Server::start().await;
    server.push("in", "p", &["1"]).await;
    server.push("out", "Default", &["known"]).await;
    let popped = server.pop("queue/in?consumerGroup=g").await;
    let operations = json!([ack(&popped), push("out", &["2", "known"]), push("other", &["3"])]);
    let body = json!({"operations": operations, "requiredLeases": [popped["leaseId"]]});
    let answer = server.post("transaction", &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let told = answer.json();
    assert_eq!(keys(&told).join(" "), "results success transactionId");
    assert_eq!(told["success"], true);
    assert!(told["transactionId"].as_str().is_some_and(|id| id.len() == 36), "{told}");
    let results = &told["results"];
    assert_eq!(each(results, "index"), [0, 1, 2, 3]);
    assert_eq!(each(results, "type"), ["ack", "push", "push", "push"]);
    assert_eq!((&results[0]["success"], &results[0]["error"]), (&json!(true), &Value::Null));
    assert_eq!(each(results, "status")[1..], ["queued", "duplicate", "queued"]);
    assert_eq!(each(results, "queueName"), ["in", "out", "out", "other"]);
    server.pop_nothing("queue/in?consumerGroup=g").await;
    assert_eq!(data(&server.pop("queue/out?batch=9").await), ["known", "2"]);
    assert_eq!(data(&server.pop("queue/other").await), ["3"]);
}

/// The older client's acks carry no lease and no group, and its pushes no transaction ids: the required leases say whose they are.
/// Two leases of a group on two partitions, in no order.
#[tokio::test]
async fn required_leases_say_whose_acks_they_are() {
    let server = Server::start().await;
    server.push("q", "a", &["1"]).await;
    server.push("q", "b", &["2"]).await;
    let popped = [server.pop("queue/q?consumerGroup=g").await, server.pop("queue/q?consumerGroup=g").await];
    let bare = |popped: &Value| {
        let message = &popped["messages"][0];
        let (transaction, partition) = (&message["transactionId"], &message["partitionId"]);
        json!({"type": "ack", "transactionId": transaction, "partitionId": partition, "status": "completed"})
    };
    let body = json!({
        "operations": [bare(&popped[0]), bare(&popped[1]), {"type": "push", "items": [{"queue": "out", "payload": "3"}]}],
        "requiredLeases": [popped[1]["leaseId"], popped[0]["leaseId"]],
    });
    let told = server.post("transaction", &body).await.json();
    assert_eq!(told["success"], true, "{told}");
    server.pop_nothing("queue/q?consumerGroup=g").await;
    assert_eq!(data(&server.pop("queue/out").await), ["3"]);
    assert_eq!(data(&server.pop("queue/q?batch=9&partitions=9").await).len(), 2, "nobody else's");
}

/// If one part cannot be done, nothing is: 200 with `success` false and the reason.
/// A lease that is over, an ack that does not count, a queue that is full; each beside a push and an ack that could be done.
#[tokio::test]
async fn a_transaction_that_cannot_be_done_does_nothing() {
    let server = Server::start().await;
    server.push("q", "p", &["1"]).await;
    server.push("full", "Default", &["x"]).await;
    server.set("full", "max_size = 1").await;
    let popped = server.pop("queue/q?consumerGroup=g").await;
    let mut unknown = ack(&popped);
    unknown["transactionId"] = json!("unknown");
    let gone = "0197a5a0-0000-7000-8000-000000000000";
    for (operations, leases, why) in [
        (json!([ack(&popped), push("out", &["2"])]), json!([popped["leaseId"], gone]), gone),
        (json!([ack(&popped), push("out", &["2"])]), json!(["not-a-lease"]), "has expired or was released"),
        (json!([ack(&popped), unknown, push("out", &["2"])]), json!([]), "\"unknown\""),
        (json!([ack(&popped), push("out", &["2"]), push("full", &["3"])]), json!([popped["leaseId"]]), "maxSize"),
    ] {
        let answer = server.post("transaction", &json!({"operations": operations, "requiredLeases": leases})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let told = answer.json();
        assert_eq!((&told["success"], &told["results"]), (&json!(false), &json!([])));
        assert!(told["error"].as_str().is_some_and(|error| error.contains(why)), "{why}: {told}");
        server.pop_nothing("queue/out").await;
    }
    assert_eq!(server.ack(&popped, "completed").await[0]["success"], true, "it is still leased");
}

/// What cannot be meant is refused, and so is what this server does not have: it decides whether the rest may happen.
/// A table of bodies beside a push that must not arrive.
#[tokio::test]
async fn a_transaction_that_cannot_be_meant_is_refused() {
    let server = Server::start().await;
    let good = push("out", &["1"]);
    for (body, said) in [
        (json!({}), "invalid parameter `operations`: must not be empty"),
        (json!({"operations": []}), "invalid parameter `operations`: must not be empty"),
        (json!({"operations": "push"}), "invalid body"),
        (json!({"operations": [good, 7]}), "operations[1]"),
        (json!({"operations": [good, {}]}), "operations[1].type"),
        (json!({"operations": [good, {"type": "pop"}]}), "operations[1].type"),
        (json!({"operations": [good, {"type": "push"}]}), "invalid parameter `operations[1].items`: required"),
        (json!({"operations": [good, {"type": "push", "items": [{"queue": 7}]}]}), "operations[1].items[0].queue"),
        (json!({"operations": [good, {"type": "push", "items": [{"queue": "\0"}]}]}), "NUL"),
        (json!({"operations": [good, {"type": "ack", "transactionId": "t"}]}), "operations[1].partitionId"),
        (json!({"operations": [good], "requiredLeases": "all"}), "invalid body"),
        (json!({"operations": [good], "requiredLeases": [{}]}), "requiredLeases[0]"),
        (json!({"operations": [good], "kv": [{"op": "put"}]}), "kv"),
        (json!({"operations": [good], "timers": [{"op": "set"}]}), "timers"),
    ] {
        assert_refused(&server.post("transaction", &body).await, 400, said);
    }
    server.pop_nothing("queue/out").await;
    let body = json!({"operations": [good], "kv": null, "requiredLeases": null});
    assert_eq!(server.post("transaction", &body).await.json()["success"], true);
}
