//! Every route except those of flow, tested by schemathesis.

use serde_json::{Value, json};

use super::clients::quiet;
use super::fixture::{Server, messages};
use crate::schemathesis::{OTHERS, try_out};

/// The server must conform to its OpenAPI document for generated requests: it accepts what the document allows and has
/// no server errors. A fixed seed, against a server with data of every kind; every route must have been answered with
/// success at least once, because otherwise its response was never checked. The configuration is in `schema/`.
#[tokio::test]
async fn the_queue_server_conforms_to_its_openapi_document() {
    // With a key, because the document describes encrypted queues.
    let key = format!("--queue-encryption-key={}", "0f".repeat(32));
    let server = Server::with(&[&key]).await;
    let made = make(&server).await;
    let environment = [("REVEILLE_TEST_PARTITION", made.partition.as_str()), ("REVEILLE_TEST_LEASE", &made.lease)];
    try_out(server.address, "queue", OTHERS, &environment).await;
    quiet(server).await;
}

/// The data that requests can find.
struct Made {
    partition: String,
    lease: String,
}

/// Creates data of every kind: messages, leases, dead letters, and traces.
async fn make(server: &Server) -> Made {
    let configured = server.post("configure", &json!({"queue": "known", "options": {"retryLimit": 0}})).await;
    assert_eq!(configured.status, 200, "{configured:?}");
    let ids: Vec<String> = ["t", "d"].iter().flat_map(|kind| (0..10).map(move |n| format!("{kind}{n}"))).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for queue in ["known", "spare.mail"] {
        server.push(queue, "p", &ids).await;
        server.push(queue, "Default", &ids).await;
    }
    for group in ["readers", "leavers"] {
        let popped = server.pop(&format!("queue/known/partition/p?batch=2&consumerGroup={group}")).await;
        server.ack(&popped, "failed").await;
    }
    let leased = server.pop("queue/known/partition/p?batch=2&consumerGroup=readers").await;
    let message = &messages(&leased)[0];
    for id in ids {
        let note = json!({"transactionId": id, "partitionId": message["partitionId"], "traceNames": ["noted"], "data": {"n": id}});
        assert_eq!(server.post("traces", &note).await.status, 201);
    }
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    Made { partition: text(&message["partitionId"]), lease: text(&leased["leaseId"]) }
}
