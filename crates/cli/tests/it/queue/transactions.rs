//! `POST /transaction`.

use serde_json::{Value, json};

use super::fixture::{Server, acks_of, assert_refused, data, each, keys};

fn ack(popped: &Value) -> Value {
    let mut ack = acks_of(popped, "completed").remove(0);
    ack["type"] = json!("ack");
    ack
}

fn push(queue: &str, transactions: &[&str]) -> Value {
    let item = |transaction: &&str| json!({"queue": queue, "transactionId": transaction, "payload": transaction});
    json!({"type": "push", "items": transactions.iter().map(item).collect::<Vec<_>>()})
}

/// A transaction acks input and pushes output together, and has an outcome for each message and ack, in order.
/// Sends what the newer client sends: leases with the acks, transaction ids with the pushes.
#[tokio::test]
async fn a_transaction_applies_all_operations() {
    let server = Server::start().await;
    server.push("in", "p", &["1"]).await;
    server.push("out", "Default", &["known"]).await;
    let popped = server.pop("queue/in?consumerGroup=g").await;
    let operations = json!([ack(&popped), push("out", &["2", "known"]), push("other", &["3"])]);
    let body = json!({"operations": operations, "requiredLeases": [popped["leaseId"]]});
    let answer = server.post("transaction", &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let reply = answer.json();
    assert_eq!(keys(&reply).join(" "), "results success transactionId");
    assert_eq!(reply["success"], true);
    assert!(reply["transactionId"].as_str().is_some_and(|id| id.len() == 36), "{reply}");
    let results = &reply["results"];
    assert_eq!(each(results, "index"), [0, 1, 2, 3]);
    assert_eq!(each(results, "type"), ["ack", "push", "push", "push"]);
    assert_eq!((&results[0]["success"], &results[0]["error"]), (&json!(true), &Value::Null));
    assert_eq!(each(results, "status")[1..], ["queued", "duplicate", "queued"]);
    assert_eq!(each(results, "queueName"), ["in", "out", "out", "other"]);
    server.pop_nothing("queue/in?consumerGroup=g").await;
    assert_eq!(data(&server.pop("queue/out?batch=9").await), ["known", "2"]);
    assert_eq!(data(&server.pop("queue/other").await), ["3"]);
}

/// The older client's acks have no lease and no group, and its pushes no transaction ids: the required leases identify
/// the groups. Two leases of a group on two partitions, in any order.
#[tokio::test]
async fn required_leases_identify_the_groups_of_acks() {
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
    let reply = server.post("transaction", &body).await.json();
    assert_eq!(reply["success"], true, "{reply}");
    server.pop_nothing("queue/q?consumerGroup=g").await;
    assert_eq!(data(&server.pop("queue/out").await), ["3"]);
    assert_eq!(data(&server.pop("queue/q?batch=9&partitions=9").await).len(), 2, "both are released");
}

/// If one operation fails, none is applied: 200 with `success` false and the reason.
/// An expired lease, an ack that is not applied, a full queue; each beside a push and an ack that would succeed.
#[tokio::test]
async fn a_failed_transaction_changes_nothing() {
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
        let reply = answer.json();
        assert_eq!((&reply["success"], &reply["results"]), (&json!(false), &json!([])));
        assert!(reply["error"].as_str().is_some_and(|error| error.contains(why)), "{why}: {reply}");
        server.pop_nothing("queue/out").await;
    }
    assert_eq!(server.ack(&popped, "completed").await[0]["success"], true, "it is still leased");
}

/// Invalid operations are rejected, and so are unsupported ones, because the others depend on them.
/// A table of bodies beside a push that must not arrive.
#[tokio::test]
async fn an_invalid_transaction_is_rejected() {
    let server = Server::start().await;
    let good = push("out", &["1"]);
    for (body, message) in [
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
        assert_refused(&server.post("transaction", &body).await, 400, message);
    }
    server.pop_nothing("queue/out").await;
    let body = json!({"operations": [good], "kv": null, "requiredLeases": null});
    assert_eq!(server.post("transaction", &body).await.json()["success"], true);
}
