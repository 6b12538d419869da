//! Every route of the document but flow's, tried out by schemathesis.

use serde_json::{Value, json};

use super::clients::quiet;
use super::fixture::{Server, messages};
use crate::schemathesis::{OTHERS, try_out};

/// Whatever is sent, the server must answer as its document says, take what the document allows, and have no error of its own.
/// A fixed seed, against a server with something of everything; in the end every route must have been answered with success at least
/// once, because a form that was never answered was never checked. How it is tried out is in `schema/`.
#[tokio::test]
async fn the_document_holds_against_whatever_is_sent() {
    // With a key, so that an encrypted queue can be had, as the document says.
    let key = format!("--queue-encryption-key={}", "0f".repeat(32));
    let server = Server::with(&[&key]).await;
    let made = make(&server).await;
    let environment = [("REVEILLE_TEST_PARTITION", made.partition.as_str()), ("REVEILLE_TEST_LEASE", &made.lease)];
    try_out(server.address, "queue", OTHERS, &environment).await;
    quiet(server).await;
}

/// What there is to be found.
struct Made {
    partition: String,
    lease: String,
}

/// Puts something of everything there: messages, some of them dead, some leased, and a note about each.
async fn make(server: &Server) -> Made {
    let configured = server.post("configure", &json!({"queue": "known", "options": {"retryLimit": 0}})).await;
    assert_eq!(configured.status, 200, "{configured:?}");
    let ids: Vec<String> = ["t", "d"].iter().flat_map(|kind| (0..10).map(move |n| format!("{kind}{n}"))).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for queue in ["known", "spare.mail"] {
        server.push(queue, "lane", &ids).await;
        server.push(queue, "Default", &ids).await;
    }
    for group in ["readers", "leavers"] {
        let popped = server.pop(&format!("queue/known/partition/lane?batch=2&consumerGroup={group}")).await;
        server.ack(&popped, "failed").await;
    }
    let leased = server.pop("queue/known/partition/lane?batch=2&consumerGroup=readers").await;
    let message = &messages(&leased)[0];
    for id in ids {
        let note = json!({"transactionId": id, "partitionId": message["partitionId"], "traceNames": ["noted"], "data": {"n": id}});
        assert_eq!(server.post("traces", &note).await.status, 201);
    }
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    Made { partition: text(&message["partitionId"]), lease: text(&leased["leaseId"]) }
}
