//! `GET /openapi.json`: the document matches the server.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::fixture::{Server, acks_of};
use crate::described::fits;
use crate::http::{get, request};

/// The document must be available without the base path, and every route in it must exist.
/// Each path of it is requested with its method; none is unknown to the server, and those of the contract are all
/// there.
#[tokio::test]
async fn every_route_of_the_document_exists() {
    let server = Server::start().await;
    let answer = get(server.address, "/openapi.json").await;
    assert_eq!(answer.status, 200);
    assert!(answer.headers.contains("content-type: application/json"), "{}", answer.headers);
    let document = answer.json();
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.")), "{document}");
    let paths = document["paths"].as_object().expect("paths");
    for (method, path) in [
        ("post", "/push"),
        ("get", "/pop/queue/{queue}"),
        ("get", "/pop/queue/{queue}/partition/{partition}"),
        ("get", "/pop"),
        ("post", "/ack"),
        ("post", "/ack/batch"),
        ("post", "/lease/{leaseId}/extend"),
        ("post", "/transaction"),
    ] {
        assert!(paths[&format!("/api/v1{path}")][method].is_object(), "{method} {path} is missing");
    }
    for (path, methods) in paths {
        for method in methods.as_object().expect("methods").keys() {
            // A stream of events without end, with tests of its own.
            if path == "/v1/changes" {
                continue;
            }
            // With names that do not exist, and without a body: any response but "no such route" is accepted.
            let named = path.replace(['{', '}'], "");
            let answer = request(server.address, &method.to_uppercase(), &named).await;
            assert!(!answer.body.contains("no route for") && answer.status != 405, "{method} {path}: {answer:?}");
        }
    }
}

/// The page for users must name every route of the server, and no other.
/// Compares each method and path in it with the document.
#[tokio::test]
async fn the_page_names_every_route() {
    let server = Server::start().await;
    let document = get(server.address, "/openapi.json").await.json();
    let page = include_str!("../../../../../docs/http-api.md");
    let named: BTreeSet<String> = page
        .split('`')
        .filter(|code| [" /api/v1", " /v1"].iter().any(|base| code.contains(base)) && !code.contains('\n'))
        .map(|code| code.split('?').next().unwrap_or(code).to_owned())
        .collect();
    let mut served = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let ours = path.starts_with("/api/v1") || path.starts_with("/v1");
        for method in methods.as_object().expect("methods").keys().filter(|_| ours) {
            served.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    assert!(served.len() > 80, "{served:?}");
    assert_eq!(named, served);
}

/// Responses must match the document.
/// Real responses of each route against the schemas: every key is described, and every required one is there.
#[tokio::test]
async fn answers_are_as_the_document_says() {
    let server = Server::start().await;
    let document = get(server.address, "/openapi.json").await.json();
    let pushed = server.push("q", "p", &["1", "2"]).await;
    check(&document, "/push", "post", "201", &pushed);
    let popped = server.pop("queue/q").await;
    check(&document, "/pop/queue/{queue}", "get", "200", &popped);
    let lease = popped["leaseId"].as_str().expect("a lease");
    let extended = server.post(&format!("lease/{lease}/extend"), &json!({})).await.json();
    check(&document, "/lease/{leaseId}/extend", "post", "200", &extended);
    let acked = server.ack(&popped, "completed").await;
    check(&document, "/ack/batch", "post", "200", &acked);
    let popped = server.pop("queue/q/partition/p").await;
    check(&document, "/pop/queue/{queue}/partition/{partition}", "get", "200", &popped);
    let mut ack = acks_of(&popped, "completed").remove(0);
    ack["type"] = json!("ack");
    let push = json!({"type": "push", "items": [{"queue": "q"}]});
    let reply = server.post("transaction", &json!({"operations": [ack, push]})).await.json();
    check(&document, "/transaction", "post", "200", &reply);
    check(&document, "/push", "post", "400", &server.post("push", &json!({})).await.json());
}

pub(super) fn check(document: &Value, path: &str, method: &str, status: &str, answer: &Value) {
    let described = &document["paths"][format!("/api/v1{path}")][method]["responses"][status];
    let schema = &described["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "{method} {path} {status} is not described: {described}");
    fits(document, schema, answer).unwrap_or_else(|why| panic!("{method} {path} {status}: {why}"));
    // Proves that the check can fail.
    fits(document, schema, &json!(7)).expect_err("no answer is a number");
}
