//! `POST /ack` and `POST /ack/batch`.

use serde_json::{Value, json};

use super::fixture::{Server, acks_of, assert_refused, data, each, keys};

/// The response to a single ack must be an array of one element, with `error` null if the ack was applied.
/// Sends acks with every field that existing clients send.
#[tokio::test]
async fn an_ack_answers_an_array_of_one() {
    let server = Server::start().await;
    server.push("q", "p", &["1", "2"]).await;
    let popped = server.pop("queue/q?batch=2&consumerGroup=g").await;
    let mut ack = acks_of(&popped, "completed").remove(0);
    ack["consumerGroup"] = json!("g");
    let answer = server.post("ack", &ack).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let reply = answer.json();
    let expected = "dlq error index leaseReleased partitionName queueName success transactionId";
    assert_eq!((reply.as_array().map(Vec::len), keys(&reply[0]).join(" ").as_str()), (Some(1), expected));
    let expected = json!({
        "index": 0, "transactionId": "1", "success": true, "error": null, "queueName": "q", "partitionName": "p",
        "leaseReleased": false, "dlq": false,
    });
    assert_eq!(reply[0], expected);
    let last = server.post("ack", &acks_of(&popped, "success")[1]).await.json();
    assert_eq!((&last[0]["success"], &last[0]["leaseReleased"]), (&json!(true), &json!(true)));
}

/// A batch must answer each ack in order; its group applies to acks without one.
/// Two partitions in one pop, acked without leases, by the group alone.
#[tokio::test]
async fn a_batch_answers_each_ack_in_order() {
    let server = Server::start().await;
    server.push("q", "a", &["1", "2"]).await;
    server.push("q", "b", &["3"]).await;
    let popped = server.pop("queue/q?batch=9&partitions=9&consumerGroup=g").await;
    let mut acks = acks_of(&popped, "completed");
    acks.iter_mut().for_each(|ack| drop(ack.as_object_mut().expect("an object").remove("leaseId")));
    let reply = server.post("ack/batch", &json!({"acknowledgments": acks, "consumerGroup": "g"})).await.json();
    assert_eq!(each(&reply, "index"), [0, 1, 2]);
    assert_eq!(each(&reply, "success"), [true, true, true]);
    assert_eq!(each(&reply, "error"), [&Value::Null; 3]);
    server.pop_nothing("queue/q?consumerGroup=g").await;
    assert_eq!(server.post("ack/batch", &json!({"acknowledgments": []})).await.json(), json!([]));
}

/// The lease alone must identify the group of an ack: users forget to send their group.
/// A message of a group is acked with its lease and a null group, in each of both calls.
#[tokio::test]
async fn a_lease_identifies_its_group() {
    let server = Server::start().await;
    server.push("q", "p", &["1", "2"]).await;
    let popped = server.pop("queue/q?consumerGroup=g").await;
    let mut ack = acks_of(&popped, "completed").remove(0);
    ack["consumerGroup"] = Value::Null;
    assert_eq!(server.post("ack", &ack).await.json()[0]["success"], true);
    let popped = server.pop("queue/q?consumerGroup=g").await;
    let batch = json!({"acknowledgments": acks_of(&popped, "completed"), "consumerGroup": null});
    assert_eq!(server.post("ack/batch", &batch).await.json()[0]["success"], true);
    server.pop_nothing("queue/q?consumerGroup=g").await;
    assert_eq!(data(&server.pop("queue/q?batch=9").await), ["1", "2"], "the other group is not affected");
}

/// Each status must have its documented effect.
/// A message fails, is retried without a charge, and goes to the dead letters; one that fails too often does so, too.
#[tokio::test]
async fn each_status_has_its_effect() {
    let server = Server::start().await;
    server.push("q", "p", &["1", "2"]).await;
    server.set("q", "retry_limit = 1").await;
    let path = "queue/q?wait=true&consumerGroup=g";
    for (status, retries) in [("failed", 0), ("retry", 1)] {
        let popped = server.pop(path).await;
        assert_eq!((data(&popped), &popped["messages"][0]["retryCount"]), (vec!["1"], &json!(retries)));
        let reply = server.ack(&popped, status).await;
        assert_eq!(
            (&reply[0]["success"], &reply[0]["error"], &reply[0]["dlq"]),
            (&json!(true), &Value::Null, &json!(false))
        );
        assert_eq!(reply[0]["leaseReleased"], true);
    }
    assert_eq!(server.ack(&server.pop(path).await, "failed").await[0]["dlq"], true, "one failure too many");
    let popped = server.pop(path).await;
    assert_eq!((data(&popped), &popped["messages"][0]["retryCount"]), (vec!["2"], &json!(0)));
    let reply = server.ack(&popped, "dlq").await;
    assert_eq!(
        (&reply[0]["success"], &reply[0]["dlq"], &reply[0]["error"]),
        (&json!(true), &json!(true), &Value::Null)
    );
    server.pop_nothing("queue/q?consumerGroup=g").await;
}

/// A status may be missing, null or a boolean; an unknown one must be rejected, and no message is acked.
/// The same message with each of them.
#[tokio::test]
async fn unknown_statuses_are_rejected() {
    let server = Server::start().await;
    server.push("q", "p", &["1"]).await;
    let popped = server.pop("queue/q?consumerGroup=bad").await;
    for status in [json!("done"), json!("COMPLETED "), json!(["completed"])] {
        let mut ack = acks_of(&popped, "completed").remove(0);
        ack["status"] = status;
        assert_refused(&server.post("ack", &ack).await, 400, "status");
        let batch = json!({"acknowledgments": [acks_of(&popped, "completed")[0], ack]});
        assert_refused(&server.post("ack/batch", &batch).await, 400, "acknowledgments[1].status");
    }
    for (group, status, released) in
        [("null", Value::Null, true), ("true", json!(true), true), ("false", json!(false), true)]
    {
        let mut ack = acks_of(&server.pop(&format!("queue/q?consumerGroup={group}")).await, "completed").remove(0);
        ack["status"] = status;
        let reply = server.post("ack", &ack).await.json();
        assert_eq!((&reply[0]["success"], &reply[0]["leaseReleased"]), (&json!(true), &json!(released)), "{group}");
    }
    server.pop_nothing("queue/q?consumerGroup=true").await;
    assert_eq!(data(&server.pop("queue/q?wait=true&consumerGroup=false").await), ["1"], "it failed");
    assert_eq!(server.ack(&popped, "completed").await[0]["success"], true, "the refused acks changed nothing");
}

/// An ack that is not applied must say so in its element of the response.
/// An expired lease, one that never existed, a message that was not delivered, an unknown partition and group.
#[tokio::test]
async fn an_ack_that_is_not_applied_has_a_reason() {
    let server = Server::start().await;
    server.push("q", "p", &["1", "2"]).await;
    let first = server.pop("queue/q?consumerGroup=g").await;
    server.ack(&first, "failed").await;
    let second = server.pop("queue/q?wait=true&consumerGroup=g").await;
    assert_ne!(first["leaseId"], second["leaseId"]);
    let own = acks_of(&second, "completed").remove(0);
    let with = |key: &str, value: Value| {
        let mut ack = own.clone();
        ack[key] = value;
        ack
    };
    let nowhere = "00000000-0000-8000-8000-000000000001";
    let mut no_group = with("consumerGroup", json!("unknown"));
    no_group["leaseId"] = Value::Null;
    for (ack, why) in [
        (acks_of(&first, "completed").remove(0), "the lease has expired or was released"),
        (with("leaseId", json!("not-a-lease")), "the lease has expired or was released"),
        (with("transactionId", json!("2")), "was not delivered under this lease"),
        (with("partitionId", json!(nowhere)), "unknown partition"),
        (no_group, "unknown consumer group"),
    ] {
        // The group is named, because a lease that never existed does not identify one.
        let mut batch = json!({"acknowledgments": [ack]});
        batch["consumerGroup"] = json!("g");
        let answer = server.post("ack/batch", &batch).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let reply = answer.json();
        assert_eq!(reply[0]["success"], false, "{why}: {reply}");
        assert!(reply[0]["error"].as_str().is_some_and(|error| error.contains(why)), "{why}: {reply}");
    }
    assert_eq!(server.ack(&second, "completed").await[0]["success"], true, "none of them had an effect");
}

/// Within one call a message that was completed after a failed one must not skip it.
/// Three messages; the second fails.
#[tokio::test]
async fn no_message_is_skipped_after_a_failure() {
    let server = Server::start().await;
    server.push("q", "p", &["1", "2", "3"]).await;
    let popped = server.pop("queue/q?batch=3&consumerGroup=g").await;
    let mut acks = acks_of(&popped, "completed");
    acks[1]["status"] = json!("failed");
    let reply = server.post("ack/batch", &json!({"acknowledgments": acks})).await.json();
    assert_eq!(each(&reply, "success"), [true, true, false]);
    assert!(reply[2]["error"].as_str().is_some_and(|error| error.contains("again")), "{reply}");
    assert_eq!(data(&server.pop("queue/q?batch=3&wait=true&consumerGroup=g").await), ["2", "3"]);
}

/// An invalid ack must be rejected with a message that names the parameter.
/// A table of bodies for each call.
#[tokio::test]
async fn an_invalid_ack_is_rejected() {
    let server = Server::start().await;
    let id = "00000000-0000-8000-8000-000000000001";
    for (body, message) in [
        (json!({}), "required"),
        (json!({"transactionId": "t"}), "partitionId`: required"),
        (json!({"transactionId": "t", "partitionId": null}), "partitionId`: required"),
        (json!({"transactionId": "t", "partitionId": ""}), "partitionId`: required"),
        (json!({"transactionId": "t", "partitionId": "p"}), "must be the id of a partition"),
        (json!({"partitionId": id}), "transactionId`: required"),
        (json!({"transactionId": {}, "partitionId": id}), "transactionId`: must be"),
        (json!({"transactionId": "t", "partitionId": id, "consumerGroup": []}), "consumerGroup`: must be"),
        (json!({"transactionId": "a\0b", "partitionId": id}), "transactionId`: must not contain a NUL"),
    ] {
        assert_refused(&server.post("ack", &body).await, 400, message);
        assert_refused(&server.post("ack/batch", &json!({"acknowledgments": [body]})).await, 400, message);
    }
    for body in ["", "{}", r#"{"acknowledgments":null}"#] {
        assert_refused(&server.post_text("ack/batch", body).await, 400, "`acknowledgments`: required");
    }
    for path in ["ack", "ack/batch"] {
        assert_refused(&server.post_text(path, "{").await, 400, "invalid body");
    }
}
