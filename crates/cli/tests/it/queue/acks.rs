//! `POST /ack` and `POST /ack/batch`.

use serde_json::{Value, json};

use super::fixture::{Server, assert_refused, data, each, keys, said};

/// The answer to one ack is an array of one, with `error` null if it counts.
/// Acks as the clients in the field do, with everything they always send.
#[tokio::test]
async fn an_ack_answers_an_array_of_one() {
    let server = Server::start().await;
    server.push("q", "p", &["1", "2"]).await;
    let popped = server.pop("queue/q?batch=2&consumerGroup=g").await;
    let mut ack = said(&popped, "completed").remove(0);
    ack["consumerGroup"] = json!("g");
    let answer = server.post("ack", &ack).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let told = answer.json();
    let expected = "dlq error index leaseReleased partitionName queueName success transactionId";
    assert_eq!((told.as_array().map(Vec::len), keys(&told[0]).join(" ").as_str()), (Some(1), expected));
    let expected = json!({
        "index": 0, "transactionId": "1", "success": true, "error": null, "queueName": "q", "partitionName": "p",
        "leaseReleased": false, "dlq": false,
    });
    assert_eq!(told[0], expected);
    let last = server.post("ack", &said(&popped, "success")[1]).await.json();
    assert_eq!((&last[0]["success"], &last[0]["leaseReleased"]), (&json!(true), &json!(true)));
}

/// A batch answers each ack in order; its group counts for those that name none.
/// Two partitions in one pop, acked without leases, by the group alone.
#[tokio::test]
async fn a_batch_answers_each_ack_in_order() {
    let server = Server::start().await;
    server.push("q", "a", &["1", "2"]).await;
    server.push("q", "b", &["3"]).await;
    let popped = server.pop("queue/q?batch=9&partitions=9&consumerGroup=g").await;
    let mut acks = said(&popped, "completed");
    acks.iter_mut().for_each(|ack| drop(ack.as_object_mut().expect("an object").remove("leaseId")));
    let told = server.post("ack/batch", &json!({"acknowledgments": acks, "consumerGroup": "g"})).await.json();
    assert_eq!(each(&told, "index"), [0, 1, 2]);
    assert_eq!(each(&told, "success"), [true, true, true]);
    assert_eq!(each(&told, "error"), [&Value::Null; 3]);
    server.pop_nothing("queue/q?consumerGroup=g").await;
    assert_eq!(server.post("ack/batch", &json!({"acknowledgments": []})).await.json(), json!([]));
}

/// Whose ack it is must be known by the lease alone: users forget to name their group.
/// A message of a group is acked with its lease and a null group, in each of both calls.
#[tokio::test]
async fn a_lease_knows_its_group() {
    let server = Server::start().await;
    server.push("q", "p", &["1", "2"]).await;
    let popped = server.pop("queue/q?consumerGroup=g").await;
    let mut ack = said(&popped, "completed").remove(0);
    ack["consumerGroup"] = Value::Null;
    assert_eq!(server.post("ack", &ack).await.json()[0]["success"], true);
    let popped = server.pop("queue/q?consumerGroup=g").await;
    let batch = json!({"acknowledgments": said(&popped, "completed"), "consumerGroup": null});
    assert_eq!(server.post("ack/batch", &batch).await.json()[0]["success"], true);
    server.pop_nothing("queue/q?consumerGroup=g").await;
    assert_eq!(data(&server.pop("queue/q?batch=9").await), ["1", "2"], "nobody else's");
}

/// Each status must do what it says.
/// A message fails, is asked for again for free, and goes to the dead letters; one that fails too often does so, too.
#[tokio::test]
async fn statuses_do_what_they_say() {
    let server = Server::start().await;
    server.push("q", "p", &["1", "2"]).await;
    server.set("q", "retry_limit = 1").await;
    let path = "queue/q?wait=true&consumerGroup=g";
    for (status, retries) in [("failed", 0), ("retry", 1)] {
        let popped = server.pop(path).await;
        assert_eq!((data(&popped), &popped["messages"][0]["retryCount"]), (vec!["1"], &json!(retries)));
        let told = server.ack(&popped, status).await;
        assert_eq!(
            (&told[0]["success"], &told[0]["error"], &told[0]["dlq"]),
            (&json!(true), &Value::Null, &json!(false))
        );
        assert_eq!(told[0]["leaseReleased"], true);
    }
    assert_eq!(server.ack(&server.pop(path).await, "failed").await[0]["dlq"], true, "once too often");
    let popped = server.pop(path).await;
    assert_eq!((data(&popped), &popped["messages"][0]["retryCount"]), (vec!["2"], &json!(0)));
    let told = server.ack(&popped, "dlq").await;
    assert_eq!((&told[0]["success"], &told[0]["dlq"], &told[0]["error"]), (&json!(true), &json!(true), &Value::Null));
    server.pop_nothing("queue/q?consumerGroup=g").await;
}

/// A status may be left out, null or a truth value; one that nobody knows is refused, and nothing is acked.
/// The same message with each of them.
#[tokio::test]
async fn a_status_is_read_leniently_and_never_guessed() {
    let server = Server::start().await;
    server.push("q", "p", &["1"]).await;
    let popped = server.pop("queue/q?consumerGroup=bad").await;
    for status in [json!("done"), json!("COMPLETED "), json!(["completed"])] {
        let mut ack = said(&popped, "completed").remove(0);
        ack["status"] = status;
        assert_refused(&server.post("ack", &ack).await, 400, "status");
        let batch = json!({"acknowledgments": [said(&popped, "completed")[0], ack]});
        assert_refused(&server.post("ack/batch", &batch).await, 400, "acknowledgments[1].status");
    }
    for (group, status, released) in
        [("null", Value::Null, true), ("true", json!(true), true), ("false", json!(false), true)]
    {
        let mut ack = said(&server.pop(&format!("queue/q?consumerGroup={group}")).await, "completed").remove(0);
        ack["status"] = status;
        let told = server.post("ack", &ack).await.json();
        assert_eq!((&told[0]["success"], &told[0]["leaseReleased"]), (&json!(true), &json!(released)), "{group}");
    }
    server.pop_nothing("queue/q?consumerGroup=true").await;
    assert_eq!(data(&server.pop("queue/q?wait=true&consumerGroup=false").await), ["1"], "it failed");
    assert_eq!(server.ack(&popped, "completed").await[0]["success"], true, "the refused acks changed nothing");
}

/// An ack that does not count must say so, in the answer to that ack.
/// A lease that was ended, one that never was, a message that was not delivered, a partition and a group that do not exist.
#[tokio::test]
async fn an_ack_that_does_not_count_says_why() {
    let server = Server::start().await;
    server.push("q", "p", &["1", "2"]).await;
    let first = server.pop("queue/q?consumerGroup=g").await;
    server.ack(&first, "failed").await;
    let second = server.pop("queue/q?wait=true&consumerGroup=g").await;
    assert_ne!(first["leaseId"], second["leaseId"]);
    let own = said(&second, "completed").remove(0);
    let with = |key: &str, value: Value| {
        let mut ack = own.clone();
        ack[key] = value;
        ack
    };
    let nowhere = "00000000-0000-8000-8000-000000000001";
    let mut no_group = with("consumerGroup", json!("nobody"));
    no_group["leaseId"] = Value::Null;
    for (ack, why) in [
        (said(&first, "completed").remove(0), "the lease has expired or was released"),
        (with("leaseId", json!("not-a-lease")), "the lease has expired or was released"),
        (with("transactionId", json!("2")), "was not delivered under this lease"),
        (with("partitionId", json!(nowhere)), "unknown partition"),
        (no_group, "unknown consumer group"),
    ] {
        // Named, because a lease that never was cannot say whose it is.
        let mut batch = json!({"acknowledgments": [ack]});
        batch["consumerGroup"] = json!("g");
        let answer = server.post("ack/batch", &batch).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let told = answer.json();
        assert_eq!(told[0]["success"], false, "{why}: {told}");
        assert!(told[0]["error"].as_str().is_some_and(|error| error.contains(why)), "{why}: {told}");
    }
    assert_eq!(server.ack(&second, "completed").await[0]["success"], true, "none of them changed anything");
}

/// Within one call a later completed message never skips an earlier failed one.
/// Three messages; the second fails.
#[tokio::test]
async fn nothing_is_skipped_behind_a_failure() {
    let server = Server::start().await;
    server.push("q", "p", &["1", "2", "3"]).await;
    let popped = server.pop("queue/q?batch=3&consumerGroup=g").await;
    let mut acks = said(&popped, "completed");
    acks[1]["status"] = json!("failed");
    let told = server.post("ack/batch", &json!({"acknowledgments": acks})).await.json();
    assert_eq!(each(&told, "success"), [true, true, false]);
    assert!(told[2]["error"].as_str().is_some_and(|error| error.contains("again")), "{told}");
    assert_eq!(data(&server.pop("queue/q?batch=3&wait=true&consumerGroup=g").await), ["2", "3"]);
}

/// An ack that cannot be meant is refused by the name of what is wrong.
/// A table of bodies for each call.
#[tokio::test]
async fn an_ack_that_cannot_be_meant_is_refused() {
    let server = Server::start().await;
    let id = "00000000-0000-8000-8000-000000000001";
    for (body, said) in [
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
        assert_refused(&server.post("ack", &body).await, 400, said);
        assert_refused(&server.post("ack/batch", &json!({"acknowledgments": [body]})).await, 400, said);
    }
    for body in ["", "{}", r#"{"acknowledgments":null}"#] {
        assert_refused(&server.post_text("ack/batch", body).await, 400, "`acknowledgments`: required");
    }
    for path in ["ack", "ack/batch"] {
        assert_refused(&server.post_text(path, "{").await, 400, "invalid body");
    }
}
