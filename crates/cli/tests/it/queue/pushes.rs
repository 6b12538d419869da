//! `POST /push`.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use super::fixture::{Server, assert_refused, data, each, keys, messages};
use crate::http::send;

/// The response must have the form that clients read: an array in order, in snake case but for one name.
/// Pushes a message with every field and one with only a queue.
#[tokio::test]
async fn a_push_answers_each_message_in_order() {
    let server = Server::start().await;
    let items = json!([
        {"queue": "q", "partition": "p", "payload": {"a": 1}, "transactionId": "t", "traceId": "5d9e"},
        {"queue": "q"},
    ]);
    let answer = server.post("push", &json!({"items": items})).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let reply = answer.json();
    let expected = ["index", "message_id", "partition_id", "queueName", "status", "trace_id", "transaction_id"];
    for (index, item) in reply.as_array().expect("an array").iter().enumerate() {
        assert_eq!(keys(item), expected);
        assert_eq!(
            (&item["index"], &item["status"], &item["queueName"]),
            (&json!(index), &json!("queued"), &json!("q"))
        );
        assert!(item["message_id"].as_str().is_some_and(|id| id.len() == 36), "{item}");
    }
    assert_eq!((&reply[0]["transaction_id"], &reply[0]["trace_id"]), (&json!("t"), &json!("5d9e")));
    assert!(reply[1]["transaction_id"].as_str().is_some_and(|id| !id.is_empty()), "one is generated: {reply}");
    assert_eq!(reply[1]["trace_id"], Value::Null);
    assert_ne!(reply[0]["partition_id"], reply[1]["partition_id"]);
    assert_eq!(server.pop("queue/q/partition/Default").await["messages"][0]["data"], Value::Null, "none is null");
}

/// A payload must be returned byte by byte, whatever JSON it is.
/// Payloads that a parser would change: spaces, the order of keys, long numbers, escapes, NUL, nothing.
#[tokio::test]
async fn a_payload_is_returned_byte_by_byte() {
    let server = Server::start().await;
    let payloads = [
        r#"{ "b" : 1,  "a":[ ] }"#,
        "12345678901234567890.123456789012345678901234567890",
        "1E400",
        r#""\u0000\ud83d\ude00\/""#,
        r#""😀 \"quoted\"""#,
        "null",
        "{}",
        "[[[[[[[[]]]]]]]]",
    ];
    for payload in payloads {
        let text = format!(r#"{{"items":[{{"queue":"q","payload":{payload}}}]}}"#);
        assert_eq!(server.post_text("push", &text).await.status, 201, "{payload}");
    }
    let popped = server.get("pop/queue/q?batch=100&autoAck=true").await;
    let sent: Vec<String> = popped.body.split(r#""data":"#).skip(1).map(str::to_owned).collect();
    assert_eq!(sent.len(), payloads.len());
    for (sent, payload) in sent.iter().zip(payloads) {
        assert!(sent.starts_with(&format!("{payload},\"producerSub\":null")), "{payload} came back as {sent}");
    }
}

/// A transaction id may be any scalar; it counts as its text.
/// Pushes a number, its text, a boolean and nothing.
#[tokio::test]
async fn a_transaction_id_of_any_kind_is_its_text() {
    let server = Server::start().await;
    let item = |id: Value| json!({"queue": "q", "transactionId": id});
    let items = [item(json!(42)), item(json!("42")), item(json!(true)), item(json!("")), item(Value::Null)];
    let reply = server.post("push", &json!({"items": items})).await.json();
    assert_eq!(each(&reply, "status"), ["queued", "duplicate", "queued", "queued", "queued"]);
    assert_eq!(reply[0]["transaction_id"], "42");
    assert_eq!(reply[1]["message_id"], reply[0]["message_id"], "a duplicate has the id of the original");
    assert_eq!(reply[2]["transaction_id"], "true");
    assert_ne!(reply[3]["transaction_id"], reply[4]["transaction_id"]);
    let again = server.post("push", &json!({"items": [item(json!(42))]})).await.json();
    assert_eq!((&again[0]["status"], &again[0]["message_id"]), (&json!("duplicate"), &reply[0]["message_id"]));
}

/// The producer of a message is set by the server, never by the client.
/// A message with a producer in its body is returned without one.
#[tokio::test]
async fn a_client_cannot_set_the_producer() {
    let server = Server::start().await;
    let item = json!({"queue": "q", "producerSub": "admin", "producer": "admin", "payload": 1});
    assert_eq!(server.post("push", &json!({"items": [item]})).await.status, 201);
    assert_eq!(server.pop("queue/q").await["messages"][0]["producerSub"], Value::Null);
}

/// An invalid push must be rejected as a whole, with a message that names the parameter, and change nothing.
/// A table of bodies; the valid message beside each invalid one must not arrive.
#[tokio::test]
async fn an_invalid_push_is_rejected_as_a_whole() {
    let server = Server::start().await;
    let long = "x".repeat(1_001);
    let table = [
        ("", "`items`: required"),
        ("{", "invalid body"),
        ("[]", "invalid body"),
        (r#"{"items":"x"}"#, "invalid body"),
        (r#"{"items":[7]}"#, "invalid body"),
        (r#"{"items":[{"queue":"good"},{"payload":1}]}"#, "`items[1].queue`: required"),
        (r#"{"items":[{"queue":"good"},{"queue":null}]}"#, "`items[1].queue`: required"),
        (r#"{"items":[{"queue":"good"},{"queue":7}]}"#, "`items[1].queue`: must be a string"),
        (r#"{"items":[{"queue":"good"},{"queue":""}]}"#, "`items[1].queue`: must not be empty"),
        (r#"{"items":[{"queue":"good"},{"queue":"a\u0000b"}]}"#, "`items[1].queue`: must not contain a NUL"),
        (
            &format!(r#"{{"items":[{{"queue":"good"}},{{"queue":"{long}"}}]}}"#),
            "`items[1].queue`: must have at most 1000 characters, has 1001",
        ),
        (r#"{"items":[{"queue":"good"},{"queue":"q","partition":42}]}"#, "`items[1].partition`: must be a string"),
        (r#"{"items":[{"queue":"good"},{"queue":"q","transactionId":{}}]}"#, "items[1].transactionId"),
        (
            r#"{"items":[{"queue":"good"},{"queue":"q","transactionId":"a\u0000"}]}"#,
            "`items[1].transactionId`: must not contain a NUL",
        ),
        (r#"{"items":[{"queue":"good"},{"queue":"q","payload":NaN}]}"#, "invalid body"),
        (r#"{"items":[{"queue":"good"},{"queue":"\ud800"}]}"#, "items[1].queue"),
    ];
    for (body, message) in table {
        assert_refused(&server.post_text("push", body).await, 400, message);
    }
    let bytes = [b"{\"items\":[{\"queue\":\"", [0xff, 0xfe].as_slice(), b"\"}]}"].concat();
    let answer = send(server.address, "POST", "/api/v1/push", &["content-type: application/json"], &bytes).await;
    assert_refused(&answer, 400, "invalid body");
    server.pop_nothing("queue/good").await;
    assert_eq!(server.post_text("push", r#"{"items":[]}"#).await.json(), json!([]));
}

/// A binary push must be rejected as not supported, with a client error: the client would retry a server error.
/// The content type of the clients' binary form, other types, and none: a web page may send the last two to any
/// address.
#[tokio::test]
async fn a_body_that_is_not_json_is_refused() {
    let server = Server::start().await;
    for kind in ["application/x-queen-push", "text/plain"] {
        let header = format!("content-type: {kind}");
        let answer = send(server.address, "POST", "/api/v1/push", &[&header], b"QPB1\0\0").await;
        assert_refused(&answer, 415, kind);
    }
    let unsaid = send(server.address, "POST", "/api/v1/push", &[], br#"{"items":[]}"#).await;
    assert_refused(&unsaid, 415, "application/json");
}

/// A name may be any text, and is returned unchanged.
/// Slashes, quotes, percent signs, emoji and the longest name, as queue and partition, popped by the path.
#[tokio::test]
async fn names_may_be_any_text() {
    let server = Server::start().await;
    let longest = "🐘".repeat(1_000);
    let names = ["a/b", "a b", "ü\"'", "100%", "a%2Fb", "x?y#z", "..", "a.b.c", "\u{1}\n", "🐘", &longest];
    for name in names {
        server.push(name, name, &[name]).await;
        let path: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let popped = server.pop(&format!("queue/{path}/partition/{path}?autoAck=true")).await;
        assert_eq!((&popped["queue"], &popped["partition"]), (&json!(name), &json!(name)));
        assert_eq!((messages(&popped).len(), &popped["messages"][0]["data"]), (1, &json!(name)));
        server.push(name, "another", &["2"]).await;
        assert_eq!(data(&server.pop(&format!("queue/{path}?autoAck=true")).await), ["2"]);
    }
}

/// A queue at its `maxSize` rejects a message with a reason, in its element of the response.
/// One of two queues is full.
#[tokio::test]
async fn a_full_queue_rejects_its_messages_and_no_others() {
    let server = Server::start().await;
    server.push("full", "Default", &["1"]).await;
    server.set("full", "max_size = 1").await;
    let answer = server.post("push", &json!({"items": [{"queue": "full"}, {"queue": "free"}]})).await;
    assert_eq!(answer.status, 201);
    let reply = answer.json();
    assert_eq!(each(&reply, "status"), ["failed", "queued"]);
    assert!(reply[0]["error"].as_str().is_some_and(|error| error.contains("maxSize")), "{reply}");
    assert_eq!((&reply[0]["message_id"], reply[1].get("error")), (&Value::Null, None));
}

/// An encrypted queue works on a server with the key, and is rejected by one without it: there is never plaintext.
/// Two servers of one database, one with a key; the stored bytes are read.
#[tokio::test]
async fn an_encrypted_queue_needs_the_key() {
    let server = Server::with(&[&format!("--queue-encryption-key={}", "0f".repeat(32))]).await;
    let (_other, keyless) = server.another().await;
    server.push("q", "p", &["open"]).await;
    server.set("q", "encryption_enabled = true, revision = revision + 1").await;
    let body = json!({"items": [{"queue": "q", "partition": "p", "payload": "secret"}]});
    assert_refused(&keyless.post("push", &body).await, 500, "no encryption key");
    assert_eq!(server.post("push", &body).await.status, 201);
    let sql = "select count(*) from {schema}.segment s cross join unnest(s.payloads) as p (payload)
               where position(convert_to('secret', 'UTF8') in p.payload) > 0";
    let sql = server.db.schema().sql(sql);
    let plain: i64 = sqlx::query_scalar(&sql).fetch_one(server.db.database().pool()).await.expect("a number");
    assert_eq!(plain, 0);
    assert_refused(&keyless.get("pop/queue/q?batch=9&consumerGroup=g").await, 500, "cannot be decrypted");
    let has_check = |answer: &crate::http::Answer| answer.body.contains("encryption: queue");
    let health = crate::http::eventually(keyless.address, "/health", has_check).await;
    assert_eq!(health.status, 200, "degraded, and ready");
    assert_eq!(data(&server.pop("queue/q?batch=9&wait=true&consumerGroup=g").await), ["open", "secret"]);
}

/// Bodies of several megabytes are accepted up to the configured limit, compressed or not; larger ones are rejected.
/// Ten thousand messages at once; then bodies around a limit of two megabytes, one of them only after decompression.
#[tokio::test]
async fn a_body_is_accepted_up_to_the_limit() {
    let server = Server::with(&["--max-body-mb=2"]).await;
    let item = |index: usize| json!({"queue": "q", "payload": "x".repeat(100), "transactionId": index});
    let reply = server.post("push", &json!({"items": (0..10_000).map(item).collect::<Vec<_>>()})).await;
    assert_eq!((reply.status, each(&reply.json(), "status").len()), (201, 10_000));

    let body = |bytes: usize| json!({"items": [{"queue": "q", "payload": "x".repeat(bytes)}]});
    assert_eq!(server.post("push", &body((2 << 20) - 100)).await.status, 201);
    assert_refused(&server.post("push", &body(2 << 20)).await, 413, "too large");
    // A kilobyte that decompresses to three megabytes.
    let bomb = gzipped(body(3 << 20).to_string().as_bytes());
    let headers = ["content-type: application/json", "content-encoding: gzip"];
    let answer = send(server.address, "POST", "/api/v1/push", &headers, &bomb).await;
    assert_refused(&answer, 413, "too large");
}

/// Requests may be compressed.
/// Pushes in gzip and zstd; one in an unknown encoding; one that is not gzip.
#[tokio::test]
async fn a_request_may_be_compressed() {
    let server = Server::start().await;
    let body = |text: &str| json!({"items": [{"queue": "q", "payload": text}]}).to_string().into_bytes();
    let address = server.address;
    let push = async |encoding: &str, bytes: Vec<u8>| {
        let headers = ["content-type: application/json", &format!("content-encoding: {encoding}")];
        send(address, "POST", "/api/v1/push", &headers, &bytes).await
    };
    assert_eq!(push("gzip", gzipped(&body("gzip"))).await.status, 201);
    assert_eq!(push("zstd", zstd_of(&body("zstd"))).await.status, 201);
    assert_refused(&push("x-mystery", body("lost")).await, 415, "x-mystery");
    assert_refused(&push("gzip", body("lost")).await, 400, "incomplete body");
    assert_eq!(data(&server.pop("queue/q?batch=9").await), ["gzip", "zstd"]);
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes it")
}

/// A zstd frame with a few uncompressed bytes.
fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    let size = u8::try_from(bytes.len()).expect("a short text");
    let (magic, one_segment) = ([0x28, 0xb5, 0x2f, 0xfd], 0x20);
    let last_raw_block = (u32::from(size) << 3 | 1).to_le_bytes();
    [magic.as_slice(), &[one_segment, size], &last_raw_block[..3], bytes].concat()
}
