//! `/resources/…`.

use serde_json::{Value, json};

use super::super::fixture::{Server, assert_refused, each, keys};
use super::{Described, column};

/// Queues are listed with their contents, found by part of their names, page by page.
#[tokio::test]
async fn queues_are_listed_with_their_contents() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    server.push("shop.orders", "a", &["1", "2"]).await;
    server.push("shop.orders", "b", &["3"]).await;
    server.push("mail", "a", &["4"]).await;
    let popped = server.pop("queue/shop.orders?consumerGroup=g&batch=9").await;
    let reply = described.ask("GET", "/resources/queues", "resources/queues").await;
    assert_eq!((column(&reply["queues"], "name"), &reply["total"]), (json!(["mail", "shop.orders"]), &json!(2)));
    let orders = &reply["queues"][1];
    assert_eq!(keys(orders).join(" "), "createdAt id messages name namespace partitions task");
    assert_eq!(
        (&orders["namespace"], &orders["task"], &orders["partitions"]),
        (&json!("shop"), &json!("orders"), &json!(2))
    );
    let processing = popped["messages"].as_array().expect("messages").len();
    assert_eq!(
        orders["messages"],
        json!({"total": 3, "pending": 3 - processing, "processing": processing, "completed": 0})
    );
    let found = server.get("resources/queues?search=SHOP&limit=5&offset=0").await.json();
    assert_eq!(each(&found["queues"], "name"), ["shop.orders"]);
    let paged = server.get("resources/queues?limit=1&offset=1").await.json();
    assert_eq!((column(&paged["queues"], "name"), &paged["total"]), (json!(["shop.orders"]), &json!(2)));
    assert_refused(&server.get("resources/queues?limit=many").await, 400, "limit");
    let spaces = described.ask("GET", "/resources/namespaces", "resources/namespaces").await;
    assert_eq!(each(&spaces["namespaces"], "name"), ["shop"]);
    let tasks = described.ask("GET", "/resources/tasks", "resources/tasks").await;
    assert_eq!(each(&tasks["tasks"], "queues"), [1]);
    let overview = described.ask("GET", "/resources/overview", "resources/overview").await;
    assert_eq!(
        (&overview["queues"], &overview["partitions"], &overview["messages"]["total"]),
        (&json!(2), &json!(3), &json!(4))
    );
}

/// A queue is shown with the cursor and the lease of each group in each partition, also by a name with unescaped
/// slashes.
#[tokio::test]
async fn a_queue_is_shown_with_its_leases() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    server.push("a/b", "p", &["1", "2", "3"]).await;
    let popped = server.pop("queue/a%2Fb?consumerGroup=g&batch=2").await;
    let reply = described.ask("GET", "/resources/queues/{queue}", "resources/queues/a/b").await;
    assert_eq!(
        (&reply["name"], &reply["options"]["leaseTime"], &reply["partitionCount"]),
        (&json!("a/b"), &json!(300), &json!(1))
    );
    let cursor = &reply["partitions"][0]["cursors"][0];
    assert_eq!((&cursor["consumerGroup"], &cursor["position"], &cursor["lag"]), (&json!("g"), &json!(0), &json!(3)));
    assert_eq!((&cursor["leaseId"], &cursor["leasedMessages"]), (&popped["leaseId"], &json!(2)));
    assert!(cursor["leaseExpiresAt"].is_string() && cursor["lastReadAt"].is_string(), "{cursor}");
    assert_eq!(reply["consumerGroups"][0]["totalLag"], 3);
    server.ack(&popped, "completed").await;
    let reply = server.get("resources/queues/a%2Fb?partition=p").await.json();
    let cursor = &reply["partitions"][0]["cursors"][0];
    assert_eq!(
        (&cursor["position"], &cursor["leaseId"], &cursor["leaseExpiresAt"]),
        (&json!(2), &Value::Null, &Value::Null)
    );
    let listed = described.ask("GET", "/resources/partitions", "resources/partitions?queue=a/b&limit=7").await;
    assert_eq!((column(&listed["partitions"], "name"), &listed["total"]), (json!(["p"]), &json!(1)));
    assert_refused(&server.get("resources/queues/none").await, 404, "there is no queue");
}

/// The depth of a group is returned in the form that the newer client documents.
#[tokio::test]
async fn depth_is_returned_per_group() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    server.push("a/b", "p", &["1", "2"]).await;
    server.push("a/b", "r", &["3"]).await;
    let popped = server.pop("queue/a%2Fb/partition/p?consumerGroup=g&batch=2").await;
    server.ack(&popped, "completed").await;
    let reply = described.ask("GET", "/resources/queues/{queue}/depth", "resources/queues/a/b/depth?group=g").await;
    let expected = json!({"queue": "a/b", "group": "g", "pending": 1, "partitionsPending": 1, "conflation": false,
        "effectivePending": 1, "partitions": [{"partition": "r", "pending": 1}]});
    assert_eq!(reply, expected);
    let no_group = server.get("resources/queues/a%2Fb/depth").await.json();
    assert_eq!((&no_group["group"], &no_group["pending"]), (&json!("__QUEUE_MODE__"), &json!(3)));
    assert_refused(&server.get("resources/queues/none/depth").await, 404, "there is no queue");
}
