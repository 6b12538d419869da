//! Every route of the document, tried out by schemathesis: it makes requests from `/openapi.json`, good ones and bad ones, and each answer
//! must be one that the document describes.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::clients::quiet;
use super::fixture::{Server, messages};
use crate::http::get;
use crate::python::python;

/// How long it may take. It takes a third of that on a machine that has other things to do.
const DEADLINE: Duration = Duration::from_secs(150);

/// Whatever is sent, the server must answer as its document says, take what the document allows, and have no error of its own.
/// A fixed seed, against a server with something of everything; in the end every route must have been answered with success at least
/// once, because a form that was never answered was never checked. How it is tried out is in `schema/`.
#[tokio::test]
async fn the_document_holds_against_whatever_is_sent() {
    // With a key, so that an encrypted queue can be had, as the document says.
    let key = format!("--queue-encryption-key={}", "0f".repeat(32));
    let server = Server::with(&[&key]).await;
    let made = make(&server).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/queue/schema");

    let mut schemathesis = python("schemathesis", "python");
    schemathesis.args(["-m", "schemathesis.cli", "--config-file"]).arg(folder.join("schemathesis.toml"));
    schemathesis.args(["run", &format!("http://{}/openapi.json", server.address)]);
    schemathesis.env("PYTHONPATH", &folder).env("SCHEMATHESIS_HOOKS", "hooks");
    schemathesis.env("REVEILLE_TEST_PARTITION", made.partition).env("REVEILLE_TEST_LEASE", made.lease);
    // It leaves folders of its own where it runs.
    schemathesis.current_dir(env!("CARGO_TARGET_TMPDIR"));
    let ended = timeout(DEADLINE, schemathesis.output()).await.expect("it ends in time").expect("it runs");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{}\n{said}\n{}", ended.status, String::from_utf8_lossy(&ended.stderr));

    let document = get(server.address, "/openapi.json").await.json();
    let answered = get(server.address, "/metrics").await.body;
    let never: Vec<String> = routes(&document).filter(|route| !has_succeeded(&answered, route)).map(show).collect();
    assert!(never.is_empty(), "never answered with success: {never:?}\n{said}");
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

/// The methods and paths of a document.
fn routes(document: &Value) -> impl Iterator<Item = (&str, &str)> {
    let paths = document["paths"].as_object().expect("paths").iter();
    paths.flat_map(|(path, methods)| {
        methods.as_object().expect("methods").keys().map(move |method| (method.as_str(), path.as_str()))
    })
}

fn show((method, path): (&str, &str)) -> String {
    format!("{method} {path}")
}

/// Whether the server's metrics count an answer of success.
fn has_succeeded(metrics: &str, (method, path): &(&str, &str)) -> bool {
    let counted =
        format!(r#"reveille_http_requests_total{{method="{}",route="{path}",status="2"#, method.to_uppercase());
    metrics.lines().any(|line| line.starts_with(&counted))
}
