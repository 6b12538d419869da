//! `/consumer-groups/…`.

use serde_json::json;

use super::super::fixture::{Server, assert_refused, data, each};
use super::{Described, column, delete};
use crate::http::send;

/// Groups are listed with their lag, one by one, and those that lag; names may contain unescaped slashes.
#[tokio::test]
async fn groups_are_listed_with_their_lag() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    server.push("q", "p", &["1", "2"]).await;
    let popped = server.pop("queue/q?consumerGroup=a/b").await;
    let reply = described.ask("GET", "/consumer-groups", "consumer-groups").await;
    assert_eq!((column(&reply, "name"), column(&reply, "totalLag")), (json!(["a/b"]), json!([2])));
    assert_eq!((&reply[0]["state"], &reply[0]["subscriptionMode"]), (&json!("Active"), &json!("all")));
    server.ack(&popped, "completed").await;
    for path in ["a/b", "a%2Fb"] {
        let one = described.ask("GET", "/consumer-groups/{group}", &format!("consumer-groups/{path}")).await;
        assert_eq!((&one["name"], &one["queues"][0]["state"]), (&json!("a/b"), &json!("Lagging")));
        assert_eq!((&one["lagging"][0]["offsetLag"], &one["lagging"][0]["position"]), (&json!(1), &json!(1)));
    }
    let lagging = described.ask("GET", "/consumer-groups/lagging", "consumer-groups/lagging?minLagSeconds=0").await;
    assert_eq!(each(&lagging, "partitionName"), ["p"]);
    assert_eq!(server.get("consumer-groups/lagging?minLagSeconds=60").await.json(), json!([]));
    assert_refused(&server.get("consumer-groups/unknown").await, 404, "there is no consumer group");
    assert_refused(&server.get("consumer-groups/lagging?minLagSeconds=x").await, 400, "minLagSeconds");
}

/// A group is moved to the end and to a time, in all partitions or in one; an invalid request moves nothing.
#[tokio::test]
async fn a_group_is_moved() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    for partition in ["p", "r/s"] {
        server.push("a/b", partition, &["1"]).await;
    }
    server.ack(&server.pop("queue/a%2Fb?consumerGroup=g/h&batch=9&partitions=9").await, "completed").await;
    let seek = "/consumer-groups/{group}/queues/{queue}/seek";
    let reply = described
        .tell(seek, "consumer-groups/g/h/queues/a/b/seek", &json!({"timestamp": "2020-01-01T00:00:00Z"}), 200)
        .await;
    let expected =
        json!({"success": true, "consumerGroup": "g/h", "queue": "a/b", "partition": null, "partitionsUpdated": 2});
    assert_eq!(reply, expected);
    let reply = described.tell(seek, "consumer-groups/g%2Fh/queues/a%2Fb/seek", &json!({"toEnd": true}), 200).await;
    assert_eq!(reply["partitionsUpdated"], 2);
    server.pop_nothing("queue/a%2Fb?consumerGroup=g/h").await;
    let part = "/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek";
    let early = json!({"timestamp": "2020-01-01"});
    for path in ["g/h/queues/a/b/partitions/r/s/seek", "g%2Fh/queues/a%2Fb/partitions/r%2Fs/seek"] {
        let reply = described.tell(part, &format!("consumer-groups/{path}"), &early, 200).await;
        assert_eq!((&reply["partition"], &reply["partitionsUpdated"]), (&json!("r/s"), &json!(1)), "{path}");
    }
    let again = server.pop("queue/a%2Fb?consumerGroup=g/h&batch=9&partitions=9").await;
    assert_eq!((data(&again), &again["partition"]), (vec!["1"], &json!("r/s")));
    let path = "consumer-groups/g%2Fh/queues/a%2Fb/seek";
    for (body, message) in [
        (json!({}), "toEnd"),
        (json!({"toEnd": false}), "toEnd"),
        (json!({"timestamp": "yesterday"}), "timestamp"),
        (json!({"timestamp": "2020-01-01", "toEnd": true}), "must not be combined with"),
        (json!({"toEnd": "yes"}), "invalid body"),
    ] {
        assert_refused(&server.post(path, &body).await, 400, message);
    }
    let nothing = send(server.address, "POST", &format!("/api/v1/{path}"), &[], b"").await;
    assert_refused(&nothing, 400, "toEnd");
    assert_refused(&server.post("consumer-groups/g/queues/none/seek", &early).await, 404, "has no consumer group");
    let absent = server.post("consumer-groups/g%2Fh/queues/a%2Fb/partitions/none/seek", &early).await;
    assert_refused(&absent, 404, "has no partition");
}

/// A deleted group reads from the beginning again, in one queue or in all; with its metadata kept it starts where its
/// subscription says.
#[tokio::test]
async fn a_group_is_deleted() {
    let server = Server::start().await;
    let described = Described::of(&server).await;
    let read = async |queue: &str| {
        let popped = server.pop(&format!("queue/{queue}?consumerGroup=g/h")).await;
        server.ack(&popped, "completed").await;
    };
    for queue in ["q", "a%2Fb"] {
        server.push(&queue.replace("%2F", "/"), "p", &["1"]).await;
        read(queue).await;
    }
    let of_queue = "/consumer-groups/{group}/queues/{queue}";
    let reply = described.ask("DELETE", of_queue, "consumer-groups/g/h/queues/a/b?deleteMetadata=true").await;
    assert_eq!(reply, json!({"success": true, "consumerGroup": "g/h", "queues": 1, "metadataDeleted": true}));
    server.pop_nothing("queue/q?consumerGroup=g/h").await;
    read("a%2Fb").await;
    let reply = described.ask("DELETE", "/consumer-groups/{group}", "consumer-groups/g%2Fh").await;
    assert_eq!(reply["queues"], 2);
    read("q").await;
    assert_eq!(delete(&server, "consumer-groups/unknown").await.json()["queues"], 0);
    let since = json!({"subscriptionTimestamp": "2030-01-01T00:00:00Z"});
    let subscription = "/consumer-groups/{group}/subscription";
    let reply = described.tell(subscription, "consumer-groups/g/h/subscription", &since, 200).await;
    assert_eq!((&reply["queues"], &reply["subscriptionTimestamp"]), (&json!(1), &json!("2030-01-01T00:00:00.000000Z")));
    let reply = delete(&server, "consumer-groups/g/h?deleteMetadata=False").await.json();
    assert_eq!((&reply["queues"], &reply["metadataDeleted"]), (&json!(1), &json!(false)));
    server.pop_nothing("queue/q?consumerGroup=g/h").await;
    assert_refused(&server.post("consumer-groups/unknown/subscription", &since).await, 404, "no consumer group");
    for body in [json!({}), json!({"subscriptionTimestamp": "soon"}), json!({"subscriptionTimestamp": [1]})] {
        let answer = server.post("consumer-groups/g/subscription", &body).await;
        assert_refused(&answer, 400, "subscriptionTimestamp");
    }
    assert_refused(&server.post("consumer-groups/g/whatever", &json!({})).await, 404, "nothing of that name");
}
