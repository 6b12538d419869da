//! `POST /configure`, `DELETE /resources/queues/{queue}`, `DELETE /queues/{queue}/clear`.

use serde_json::{Value, json};

use super::super::fixture::{Server, assert_refused, keys};
use super::{Described, delete};

/// A queue is created with the options that clients send, and the response has all options, with the defaults that
/// clients expect. Sends what existing clients send for a plain `create`, then one more option.
#[tokio::test]
async fn a_queue_is_configured_and_all_options_come_back() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    let plain = json!({"queue": "shop.orders", "namespace": null, "task": null, "options": {
        "leaseTime": 300, "retryLimit": 3, "priority": 0, "delayedProcessing": 0, "windowBuffer": 0, "maxSize": 0,
        "retentionSeconds": 0, "completedRetentionSeconds": 0, "encryptionEnabled": false}});
    let reply = described.tell("/configure", "configure", &plain, 200).await;
    assert_eq!(keys(&reply).join(" "), "configured namespace options partitionId queue queueId task");
    assert_eq!(
        (&reply["configured"], &reply["namespace"], &reply["task"]),
        (&json!(true), &json!("shop"), &json!("orders"))
    );
    let defaults = json!({"leaseTime": 300, "retryLimit": 3, "retryDelay": 1000, "maxSize": 0, "ttl": 3600,
        "deadLetterQueue": false, "dlqAfterMaxRetries": false, "priority": 0, "delayedProcessing": 0, "windowBuffer": 0,
        "retentionSeconds": 0, "completedRetentionSeconds": 0, "retentionEnabled": false, "encryptionEnabled": false,
        "maxWaitTimeSeconds": 0, "chargeExpiredLeases": true, "consumedRetentionSeconds": 86400});
    assert_eq!(reply["options"], defaults);
    let more = json!({"queue": "shop.orders", "options": {"dlqAfterMaxRetries": true, "ttl": 60.0, "unknown": [1], "retryLimit": null}});
    let reply = server.post("configure", &more).await.json();
    let options = &reply["options"];
    assert_eq!(
        (&options["dlqAfterMaxRetries"], &options["ttl"], &options["retryLimit"]),
        (&json!(true), &json!(60), &json!(3))
    );
    let pushed = server.push("shop.orders", "Default", &["1"]).await;
    assert_eq!(pushed[0]["partition_id"], reply["partitionId"]);
}

/// An invalid option is rejected with its name, and no queue is created.
/// A table of them.
#[tokio::test]
async fn invalid_options_are_rejected() {
    let server = Server::start().await;
    for (body, message) in [
        (json!({}), "`queue`: required"),
        (json!({"queue": null}), "queue"),
        (json!({"queue": ""}), "`queue`: must not be empty"),
        (json!({"queue": 7}), "`queue`: must be a string"),
        (json!({"queue": "q\u{0}"}), "NUL"),
        (json!({"queue": "q", "options": {"leaseTime": 0}}), "leaseTime"),
        (json!({"queue": "q", "options": {"leaseTime": "300"}}), "leaseTime"),
        (json!({"queue": "q", "options": {"retryLimit": -1}}), "retryLimit"),
        (json!({"queue": "q", "options": {"ttl": 1e18}}), "ttl"),
        (json!({"queue": "q", "options": {"maxSize": 1.5}}), "maxSize"),
        (json!({"queue": "q", "options": {"retentionEnabled": "yes"}}), "retentionEnabled"),
        (json!({"queue": "q", "options": {"encryptionEnabled": true}}), "`encryptionEnabled`: this server has no"),
        (json!({"queue": "q", "options": 7}), "invalid body"),
        (json!("q"), "invalid body"),
    ] {
        assert_refused(&server.post("configure", &body).await, 400, message);
    }
    assert_eq!(server.get("resources/queues").await.json()["total"], 0);
}

/// A queue is deleted whether or not it exists, also by a name with unescaped slashes; a push then creates a new queue.
#[tokio::test]
async fn a_queue_is_deleted_even_if_absent() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    for (name, path) in [("plain", "plain"), ("a/b 🐘", "a/b%20%F0%9F%90%98"), ("c/d", "c%2Fd"), ("depth", "depth")] {
        server.push(name, "p", &["1"]).await;
        let reply = described.ask("DELETE", "/resources/queues/{queue}", &format!("resources/queues/{path}")).await;
        assert_eq!(reply, json!({"deleted": true, "queue": name, "existed": true}));
        let again = delete(&server, &format!("resources/queues/{path}")).await.json();
        assert_eq!(again["existed"], false);
        let pushed = server.push(name, "p", &["1"]).await;
        assert_eq!(pushed[0]["status"], "queued");
    }
}

/// A queue, or one of its partitions, is cleared, and delivers the messages that come later.
#[tokio::test]
async fn a_queue_is_cleared() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    for name in ["q", "a/b"] {
        server.push(name, "p", &["1", "2"]).await;
        server.push(name, "r", &["3"]).await;
        let reply = described.ask("DELETE", "/queues/{queue}/clear", &format!("queues/{name}/clear?partition=p")).await;
        assert_eq!(reply, json!({"cleared": true, "queue": name, "partition": "p", "messages": 2}));
        let reply = delete(&server, &format!("queues/{name}/clear")).await.json();
        assert_eq!((&reply["messages"], &reply["partition"]), (&json!(1), &Value::Null));
    }
    server.pop_nothing("queue/q").await;
    server.push("q", "p", &["1"]).await;
    server.pop("queue/q").await;
    assert_refused(&delete(&server, "queues/none/clear").await, 404, "there is no queue");
    assert_refused(&delete(&server, "queues/q/empty/it").await, 404, "nothing of that name");
}
