//! The console's pages of instances.

use serde_json::json;

use super::fixture::Server;
use crate::http::{Answer, get};

/// A name and a payload that would run in a page that does not escape them.
const EVIL: &str = "<script>alert(1)</script>\"'\u{202e}";

/// An address: every byte but letters and digits is encoded.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

async fn page(server: &Server, path: &str) -> Answer {
    let answer = get(server.address, &format!("/console/durable{path}")).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    assert!(answer.headers.contains("content-security-policy: default-src 'none'"), "{}", answer.headers);
    for part in ["<script>alert", " style="] {
        assert!(!answer.body.contains(part), "{path}: {part:?} in {}", answer.body);
    }
    answer
}

/// Every page must show what the API knows, with links and actions, and nothing that others wrote may become markup.
/// An instance with markup in its id, input, event and key, at every tab, while it waits and after its end.
#[tokio::test(flavor = "multi_thread")]
async fn every_page_shows_its_instance_and_escapes_it() {
    let server = Server::start().await;
    let none = page(&server, "").await.body;
    assert!(none.contains("No instances yet") && none.contains("reveille durable start"), "{none}");
    let pending = json!({"instance": "late", "name": EVIL, "text": EVIL});
    assert_eq!(server.post("instances", &pending).await.status, 201);
    let list = page(&server, "?status=Pending").await.body;
    assert!(list.contains("href=\"durable/late\"") && list.contains("&lt;script&gt;"), "{list}");

    let runtime = server.runtime().await;
    let id = format!("order {EVIL}");
    let start = json!({"instance": id, "name": "Order", "text": EVIL});
    assert_eq!(server.post("instances", &start).await.status, 201);
    server.ended("ship-of-order").await;
    let path = format!("/{}", encoded(&id));
    let api = format!("instances{path}");
    server.shows(&encoded(&id), "waits for the event").await;
    let shown = page(&server, &path).await.body;
    for part in [
        "It waits for the event &quot;Paid&quot;.",
        "ActivityCompleted",
        "href=\"durable/ship-of-order\"",
        "<rect",
        "Raise Paid",
        "reveille durable raise",
        "data-live=\"history\"",
        "reveille durable cancel",
        "dry_run=true",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let waiting = page(&server, &format!("{path}?tab=waiting&event={}", encoded(EVIL))).await.body;
    assert!(waiting.contains("<code>Paid</code>") && waiting.contains("events/%3Cscript%3E"), "{waiting}");
    let raised = server.post(&format!("{api}/events/Paid"), &json!({"text": EVIL})).await;
    assert_eq!(raised.status, 200, "{raised:?}");
    let ended = server.ended(&encoded(&id)).await;
    assert_eq!(ended["status"], "Completed");

    let raw = page(&server, &format!("{path}?view=raw")).await.body;
    assert!(raw.contains("\\u202e") && raw.contains("ExternalEvent"), "{raw}");
    let tree = page(&server, &format!("{path}?tab=children")).await.body;
    assert!(tree.contains("href=\"durable/ship-of-order\"") && tree.contains("Ship"), "{tree}");
    let executions = page(&server, &format!("{path}?tab=executions")).await.body;
    assert!(executions.contains("?execution=1\""), "{executions}");
    let keys = page(&server, &format!("{path}?tab=keys")).await.body;
    assert!(keys.contains("charged"), "{keys}");
    let child = page(&server, "/ship-of-order").await.body;
    assert!(child.contains("Parent") && child.contains("Completed"), "{child}");
    let list = page(&server, "?name=Order&status=Completed").await.body;
    assert!(list.contains("waiting for payment") && list.contains("--status Completed --name Order"), "{list}");
    let missing = get(server.address, "/console/durable/none").await;
    assert_eq!((missing.status, missing.body.contains("there is no instance")), (404, true), "{missing:?}");
    runtime.shutdown(Some(0)).await;
}
