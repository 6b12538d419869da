//! `/dlq…`.

use serde_json::json;

use super::super::fixture::{Server, assert_refused, data, each, keys};
use super::{Described, delete};

/// Makes a dead letter of every message in a queue.
async fn give_up(server: &Server, queue: &str, group: &str) {
    loop {
        let answer = server.get(&format!("pop/queue/{queue}?batch=9&consumerGroup={group}")).await;
        if answer.status == 204 {
            return;
        }
        server.ack(&answer.json(), "dlq").await;
    }
}

/// Dead letters are listed in the documented form, with all filters that clients send.
#[tokio::test]
async fn dead_letters_are_listed() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    let empty = described.ask("GET", "/dlq", "dlq?queue=q&limit=100&offset=0").await;
    assert_eq!((&empty["messages"], &empty["total"]), (&json!([]), &json!(0)));
    server.push("q", "a", &["1", "2"]).await;
    server.push("r", "b", &["3"]).await;
    let popped = server.pop("queue/q?batch=9&consumerGroup=g").await;
    server.set("q", "retry_limit = 0").await;
    server.ack(&popped, "failed").await;
    give_up(&server, "r", "h").await;
    let reply = described.ask("GET", "/dlq", "dlq?queue=q&consumerGroup=g&limit=100&offset=0").await;
    let letter = &reply["messages"][0];
    let expected = "consumerGroup createdAt data deadLetterId errorMessage failedAt id offset partition partitionId producerSub queue retryCount traceId transactionId";
    assert_eq!(keys(letter).join(" "), expected);
    assert_eq!(
        (&letter["errorMessage"], &letter["consumerGroup"], &letter["queue"]),
        (&json!("broken"), &json!("g"), &json!("q"))
    );
    for (query, expected, total) in [
        ("", vec!["3", "2", "1"], 3),
        ("limit=1&offset=1", vec!["2"], 3),
        ("limit=5&offset=9", vec![], 3),
        ("partition=b", vec!["3"], 1),
        ("consumerGroup=g", vec!["2", "1"], 2),
        ("from=2030-01-01", vec![], 0),
        ("to=2030-01-01&queue=r", vec!["3"], 1),
    ] {
        let reply = server.get(&format!("dlq?{query}")).await.json();
        assert_eq!(each(&reply["messages"], "transactionId"), expected, "{query}");
        assert_eq!((&reply["total"], &reply["pagination"]["total"]), (&json!(total), &json!(total)), "{query}");
    }
    assert_refused(&server.get("dlq?from=then").await, 400, "from");
}

/// A replay applies to the messages that its filter matches; with `dryRun` it counts only; for all messages `all=true`
/// is required.
#[tokio::test]
async fn dead_letters_are_replayed_by_filter() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    for (queue, names) in [("q", ["1", "2"]), ("r", ["3", "4"])] {
        server.push(queue, "p", &names).await;
        give_up(&server, queue, "g").await;
    }
    for body in [json!({}), json!({"dryRun": true}), json!({"all": false})] {
        assert_refused(&server.post("dlq/replay", &body).await, 400, "a filter or `all=true` is required");
    }
    let count = json!({"queue": "q", "dryRun": true});
    let counted = described.tell("/dlq/replay", "dlq/replay", &count, 200).await;
    assert_eq!((&counted["wouldReplay"], &counted["replayed"]), (&json!(2), &json!(0)));
    let reply = described.tell("/dlq/replay", "dlq/replay", &json!({"queue": "q"}), 200).await;
    assert_eq!(reply, json!({"replayed": 2, "kept": [], "keptCount": 0}));
    assert_eq!(data(&server.pop("queue/q?batch=9&consumerGroup=g").await), ["1", "2"]);
    let number = server.get("dlq?queue=r").await.json()["messages"][0]["deadLetterId"].clone();
    assert_eq!(server.post("dlq/replay", &json!({"deadLetterIds": [number]})).await.json()["replayed"], 1);
    server.post("system/maintenance", &json!({"enabled": true})).await;
    assert_refused(&server.post("dlq/replay", &json!({"all": true})).await, 409, "maintenance");
    server.post("system/maintenance", &json!({"enabled": false})).await;
    assert_eq!(server.post("dlq/replay", &json!({"all": true})).await.json()["replayed"], 1);
    assert_refused(&server.post("dlq/replay", &json!({"queue": "q", "from": "then"})).await, 400, "from");
}

/// A purge follows the same rules.
#[tokio::test]
async fn dead_letters_are_purged_by_filter() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    for (queue, names) in [("q", ["1", "2"]), ("r", ["3", "4"])] {
        server.push(queue, "p", &names).await;
        give_up(&server, queue, "g").await;
    }
    assert_refused(&delete(&server, "dlq").await, 400, "a filter or `all=true` is required");
    let counted = described.ask("DELETE", "/dlq", "dlq?queue=q&dryRun=true").await;
    assert_eq!(counted, json!({"purged": 0, "wouldPurge": 2}));
    assert_eq!(described.ask("DELETE", "/dlq", "dlq?queue=q").await, json!({"purged": 2}));
    assert_eq!(server.get("dlq").await.json()["total"], 2);
    assert_eq!(delete(&server, "dlq?all=true").await.json()["purged"], 2);
}
