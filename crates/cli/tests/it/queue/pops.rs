//! `GET /pop/…` without a wait.

use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fixture::{Server, assert_refused, data, keys, messages};
use crate::http::{get, request};

/// The response must have the form that clients read.
/// One message, popped for a group; every key and its value.
#[tokio::test]
async fn a_pop_answers_messages_under_a_lease() {
    let server = Server::start().await;
    let item = json!({"queue": "q", "partition": "p", "payload": {"n": 1}, "transactionId": "t", "traceId": "trace"});
    let reply = server.post("push", &json!({"items": [item]})).await.json();
    let popped = server.pop("queue/q?consumerGroup=g").await;
    let expected = "consumerGroup leaseId messages partition partitionId partitionsClaimed queue success";
    assert_eq!(keys(&popped).join(" "), expected);
    let lease = popped["leaseId"].as_str().expect("a lease");
    assert!(
        lease.len() == 36 && lease.chars().all(|c| c.is_ascii_hexdigit() || c == '-'),
        "it goes into paths: {lease}"
    );
    for (key, value) in [
        ("success", json!(true)),
        ("queue", json!("q")),
        ("partition", json!("p")),
        ("partitionId", reply[0]["partition_id"].clone()),
        ("consumerGroup", json!("g")),
        ("partitionsClaimed", json!(1)),
    ] {
        assert_eq!(popped[key], value, "{key}");
    }
    let message = &popped["messages"][0];
    let expected = "consumerGroup createdAt data id leaseId partition partitionId producerSub queue retryCount traceId \
                    transactionId";
    assert_eq!(keys(message).join(" "), expected);
    for (key, value) in [
        ("id", reply[0]["message_id"].clone()),
        ("transactionId", json!("t")),
        ("traceId", json!("trace")),
        ("data", json!({"n": 1})),
        ("producerSub", Value::Null),
        ("partitionId", reply[0]["partition_id"].clone()),
        ("partition", json!("p")),
        ("leaseId", json!(lease)),
        ("consumerGroup", json!("g")),
        ("queue", json!("q")),
        ("retryCount", json!(0)),
    ] {
        assert_eq!(message[key], value, "{key}");
    }
    let created = message["createdAt"].as_str().expect("a time");
    assert!(created.len() == 27 && created.ends_with('Z') && &created[10..11] == "T", "{created}");
}

/// A pop without a message is answered with 204 and no body: an unknown queue, a leased one, one that was read.
/// Pops after each of these.
#[tokio::test]
async fn a_pop_without_a_message_is_no_content() {
    let server = Server::start().await;
    server.pop_nothing("queue/unknown").await;
    server.pop_nothing("queue/unknown/partition/p").await;
    server.pop_nothing("?namespace=unknown").await;
    server.push("q", "p", &["1"]).await;
    let popped = server.pop("queue/q").await;
    assert_eq!(popped["consumerGroup"], "__QUEUE_MODE__");
    server.pop_nothing("queue/q").await;
    server.ack(&popped, "completed").await;
    server.pop_nothing("queue/q").await;
}

/// A batch has the requested size: one message, a number, or the server's choice; never more than one partition unless
/// requested. Pops of the same two partitions by groups of their own.
#[tokio::test]
async fn a_batch_has_the_requested_size() {
    let server = Server::start().await;
    let many: Vec<String> = (0..250).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    server.push("q", "a", &many).await;
    server.push("q", "b", &many).await;
    for (asked, count, partitions) in [
        ("", 1, 1),
        ("&batch=10", 10, 1),
        ("&batch=10.7", 10, 1),
        ("&batch=0", 1, 1),
        ("&batch=99999999999999999999", 250, 1),
        ("&autopilot=true", 200, 1),
        ("&autopilot=true&batch=3", 3, 1),
        ("&autopilot=True&partitions=1&frames=true", 200, 1),
        ("&batch=1000&partitions=2", 500, 2),
        ("&batch=300&partitions=50", 300, 2),
    ] {
        let group = asked.replace(['&', '=', '.'], "-");
        let popped = server.pop(&format!("queue/q?consumerGroup=g{group}{asked}")).await;
        assert_eq!((messages(&popped).len(), &popped["partitionsClaimed"]), (count, &json!(partitions)), "{asked}");
        let leases: Vec<&Value> = messages(&popped).iter().map(|message| &message["leaseId"]).collect();
        assert!(leases.iter().all(|lease| **lease == popped["leaseId"]), "one lease: {asked}");
    }
}

/// A pop with `autoAck` needs no ack and has no lease.
/// Two pops, one after the other.
#[tokio::test]
async fn auto_ack_needs_no_ack() {
    let server = Server::start().await;
    server.push("q", "p", &["1", "2"]).await;
    for (expected, spelling) in [("1", "true"), ("2", "True")] {
        let popped = server.pop(&format!("queue/q?autoAck={spelling}")).await;
        assert_eq!((data(&popped), &popped["leaseId"]), (vec![expected], &json!("")));
        assert_eq!(popped["messages"][0]["leaseId"], "");
    }
    server.pop_nothing("queue/q?autoAck=1").await;
}

/// A path names one partition, or any; slashes in names may be escaped or not.
/// The same messages in two partitions, requested in each way.
#[tokio::test]
async fn a_path_names_the_queue_and_the_partition() {
    let server = Server::start().await;
    server.push("a/b", "c", &["c"]).await;
    server.push("a/b", "d/e", &["d/e"]).await;
    for (path, expected) in [
        ("queue/a%2Fb/partition/c", "c"),
        ("queue/a%2Fb/partition/d%2Fe", "d/e"),
        ("queue/a/b/partition/c", "c"),
        ("queue/a/b/partition/d%2Fe", "d/e"),
        ("queue/a%2Fb/partition/d/e", "d/e"),
    ] {
        let group = path.replace(['/', '%'], "_");
        let popped = server.pop(&format!("{path}?consumerGroup={group}")).await;
        assert_eq!((data(&popped), &popped["partition"]), (vec![expected], &json!(expected)), "{path}");
        server.pop_nothing(&format!("{path}?consumerGroup={group}")).await;
    }
    for path in ["queue/a/b", "queue/a%2Fb"] {
        server.pop(&format!("{path}?consumerGroup=any{}", path.len())).await;
    }
}

/// A namespace, a task, or both select all queues with such names; a pop without either is rejected. With a queue they
/// are ignored. One queue of two dotted names.
#[tokio::test]
async fn a_namespace_or_a_task_names_all_their_queues() {
    let server = Server::start().await;
    server.push("shop.orders", "p", &["1"]).await;
    for (query, found) in [
        ("namespace=shop", true),
        ("task=orders", true),
        ("namespace=shop&task=orders", true),
        ("namespace=shop&task=", true),
        ("namespace=other", false),
        ("namespace=shop&task=other", false),
    ] {
        let path = format!("?{query}&consumerGroup={}", query.replace(['=', '&'], "-"));
        match found {
            true => assert_eq!(server.pop(&path).await["queue"], "shop.orders", "{query}"),
            false => server.pop_nothing(&path).await,
        }
    }
    assert_refused(&server.get("pop?wait=true").await, 400, "a namespace or a task is required");
    assert_refused(&server.get("pop?namespace=&task=").await, 400, "a namespace or a task is required");
    server.pop("queue/shop.orders?namespace=other&task=other&consumerGroup=h").await;
}

/// A new group starts at its requested position, at its first pop only; an unknown position means the beginning.
/// Two messages, then a group for each way to request it, then a third message.
#[tokio::test]
async fn a_new_group_starts_at_its_requested_position() {
    let server = Server::start().await;
    server.push("q", "p", &["1"]).await;
    let created = server.pop("queue/q?consumerGroup=look").await["messages"][0]["createdAt"].clone();
    let created = created.as_str().expect("a time").to_owned();
    let table = [
        ("all", String::new(), vec!["1", "2"]),
        ("new", "&subscriptionMode=new".into(), vec!["2"]),
        ("now", "&subscriptionMode=now".into(), vec!["2"]),
        ("from-now", "&subscriptionFrom=now".into(), vec!["2"]),
        ("since", format!("&subscriptionFrom={created}"), vec!["1", "2"]),
        ("since-python", format!("&subscriptionFrom={}%2B00%3A00", created.trim_end_matches('Z')), vec!["1", "2"]),
        ("future", "&subscriptionFrom=2999-01-01T00:00:00Z".into(), vec![]),
        ("nonsense", "&subscriptionMode=sideways&subscriptionFrom=tomorrow".into(), vec!["1", "2"]),
    ];
    for (group, how, expected) in &table {
        let answer = server.get(&format!("pop/queue/q?consumerGroup={group}{how}")).await;
        let sees_first = expected.first() == Some(&"1");
        assert_eq!(answer.status, if sees_first { 200 } else { 204 }, "{group}: {answer:?}");
        if sees_first {
            server.ack(&answer.json(), "retry").await;
        }
    }
    server.push("q", "p", &["2"]).await;
    for (group, how, expected) in table.iter().filter(|(group, ..)| *group != "future") {
        // Sent with every pop, as clients do.
        let popped = server.pop(&format!("queue/q?batch=9&consumerGroup={group}{how}")).await;
        assert_eq!(data(&popped), *expected, "{group}");
    }
}

/// A request for conflated messages must be rejected, before any message is leased.
/// The rejected pop leaves the message to the next.
#[tokio::test]
async fn conflation_is_rejected_before_a_message_is_leased() {
    let server = Server::start().await;
    server.push("q", "p", &["1"]).await;
    for path in ["queue/q", "queue/q/partition/p"] {
        let answer = server.get(&format!("pop/{path}?conflation=true&consumerGroup=g")).await;
        assert_refused(&answer, 400, "conflation");
    }
    assert_eq!(data(&server.pop("queue/q?consumerGroup=g&conflation=false").await), ["1"]);
}

/// Invalid parameters are rejected by name, and no message is leased.
/// A table of them; the message is still there afterwards.
#[tokio::test]
async fn invalid_parameters_are_rejected() {
    let server = Server::start().await;
    server.push("q", "p", &["1"]).await;
    let long = "x".repeat(1_001);
    for (query, message) in [
        ("batch=many", "batch"),
        ("batch=-1", "batch"),
        ("batch=NaN", "batch"),
        ("partitions=none", "partitions"),
        ("wait=perhaps", "wait"),
        ("wait=true&timeout=soon", "timeout"),
        ("autoAck=maybe", "autoAck"),
        ("consumerGroup=a%00b", "consumerGroup"),
        (&format!("consumerGroup={long}"), "consumerGroup"),
    ] {
        assert_refused(&server.get(&format!("pop/queue/q?{query}")).await, 400, message);
    }
    assert_refused(&server.get("pop/queue/a%00b").await, 400, "`queue`: must not contain a NUL");
    assert_refused(
        &server.get(&format!("pop/queue/{long}")).await,
        400,
        "`queue`: must have at most 1000 characters, has 1001",
    );
    assert_refused(&server.get("pop/queue/%FF").await, 400, "path");
    // The framework would answer HEAD like GET and discard the messages.
    assert_eq!(request(server.address, "HEAD", "/api/v1/pop/queue/q").await.status, 405);
    assert_eq!(data(&server.pop("queue/q").await), ["1"]);
}

/// Large responses are compressed only for clients that accept it.
/// The same messages requested with and without compression; the compressed response is decompressed.
#[tokio::test]
async fn large_responses_are_compressed_on_request() {
    let server = Server::start().await;
    let payload = "0123456789".repeat(1_000);
    server.post("push", &json!({"items": [{"queue": "q", "payload": payload}]})).await;
    let plain = server.get("pop/queue/q?consumerGroup=plain").await;
    assert!(!plain.headers.contains("content-encoding") && plain.body.len() > 10_000);

    let text = "GET /api/v1/pop/queue/q?consumerGroup=small HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                accept-encoding: gzip, deflate\r\n\r\n";
    let mut stream = TcpStream::connect(server.address).await.expect("it listens");
    stream.write_all(text.as_bytes()).await.expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("answered");
    let end = bytes.windows(4).position(|piece| piece == b"\r\n\r\n").expect("headers") + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    assert!(head.contains("content-encoding: gzip") && head.contains("content-type: application/json"), "{head}");
    assert!(bytes.len() < 2_000, "{}", bytes.len());
    let mut unpacked = String::new();
    GzDecoder::new(&*dechunked(&bytes[end..])).read_to_string(&mut unpacked).expect("gzip");
    let popped: Value = serde_json::from_str(&unpacked).expect("JSON");
    assert_eq!(data(&popped), [payload.as_str()]);

    assert!(!get(server.address, "/health").await.headers.contains("content-encoding"));
}

/// The body of an answer that comes in chunks.
fn dechunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|piece| piece == b"\r\n").expect("a chunk's size");
        let size = std::str::from_utf8(&rest[..end]).expect("text");
        let size = usize::from_str_radix(size, 16).expect("a number");
        if size == 0 {
            return body;
        }
        body.extend(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
}
