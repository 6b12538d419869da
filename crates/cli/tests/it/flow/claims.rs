//! `POST /v1/workers/claim`: what a claim returns, and how its wait ends.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::fixture::{Client, Server, claim};
use crate::http::{Answer, assert_refused, parse};
use crate::process::PATIENCE;

/// A claim that waits as long as a test may last, for steps with these names or for all.
pub(super) fn wait(client: &Client, steps: Option<&[&str]>) -> JoinHandle<Answer> {
    let mut request = claim(1, PATIENCE.as_millis() as u64);
    request["steps"] = json!(steps);
    let client = client.clone();
    tokio::spawn(async move { client.post("workers/claim", &request).await })
}

pub(super) async fn answered(waiting: JoinHandle<Answer>) -> Answer {
    timeout(PATIENCE, waiting).await.expect("answered in time").expect("no panic")
}

/// The text of a waiting claim, for a test that owns the connection.
fn waiting_request() -> String {
    let body = claim(1, 600_000).to_string();
    let head = "POST /v1/workers/claim HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
    format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// A claim returns everything that a handler needs: input, results of all steps before, attempt, lease, checkpoint.
#[tokio::test]
async fn a_claim_returns_all_that_a_handler_needs() {
    let steps = "[{name: a, handler: {callable: first, initialization: {url: x}}, timeout_seconds: 90, retry: {max_attempts: 5}}, \
                  {name: b, dependencies: [a]}, {name: c, dependencies: [b]}]";
    let server = Server::of(steps).await;
    let task = server.task(json!({"order": 7})).await;
    let mut request = claim(1, 0);
    request["lease_ms"] = json!(30_000);
    let claimed = server.post("workers/claim", &request).await.json()["steps"][0].clone();
    let expected = json!({
        "token": claimed["token"], "task_uuid": task, "namespace": "tests", "name": "a", "callable": "first",
        "initialization": {"url": "x"}, "attempt": 1, "max_attempts": 5, "lease_ms": 30_000, "timeout_ms": 90_000,
        "context": {"order": 7}, "correlation_id": null, "input": null, "checkpoint": null, "results": {},
    });
    assert_eq!(claimed, expected);
    for (name, results) in
        [("a", json!({})), ("b", json!({"a": {"a": 1}})), ("c", json!({"a": {"a": 1}, "b": {"b": 1}}))]
    {
        let step = if name == "a" { claimed.clone() } else { server.now(1).await.remove(0) };
        assert_eq!((&step["name"], &step["results"]), (&json!(name), &results));
        server.report("complete", json!([{"token": step["token"], "result": {name: 1}}])).await;
    }
}

/// A waiting claim is answered by a task submitted through any server, by the completion of the last dependency of a
/// step, and by a released step.
#[tokio::test]
async fn every_cause_of_a_ready_step_answers_a_waiting_claim() {
    let server = Server::of("[{name: a}, {name: b, dependencies: [a]}]").await;
    let (_other, elsewhere) = server.another().await;
    let waiting = wait(&server.client, None);
    server.until_waiting(1).await;
    elsewhere.task(json!({})).await;
    let first = answered(waiting).await.json()["steps"][0].clone();
    assert_eq!(first["name"], "a");

    let waiting = wait(&server.client, Some(&["a"]));
    server.until_waiting(1).await;
    elsewhere.report("release", json!([{"token": first["token"]}])).await;
    let again = answered(waiting).await.json()["steps"][0].clone();
    assert_eq!((&again["name"], &again["attempt"]), (&json!("a"), &json!(1)), "not charged");

    let waiting = wait(&server.client, Some(&["b"]));
    server.until_waiting(1).await;
    elsewhere.report("complete", json!([{"token": again["token"], "result": 1}])).await;
    assert_eq!(answered(waiting).await.json()["steps"][0]["name"], "b");
}

/// A claim without a ready step is answered with 204 and no body, with and without a wait.
#[tokio::test]
async fn an_empty_claim_is_answered_with_204() {
    let server = Server::start().await;
    for wait_ms in [0, 300] {
        let answer = server.post("workers/claim", &claim(1, wait_ms)).await;
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{answer:?}");
    }
}

/// When a worker disconnects, its waiter is removed at once, and the next step goes to another worker with no attempt
/// counted. The next claim waits, because a poll that began for the disconnected worker may hold the step briefly
/// before it is released.
#[tokio::test]
async fn a_disconnected_worker_leaves_the_wait() {
    let server = Server::of("[{name: a}]").await;
    let mut worker = TcpStream::connect(server.address).await.expect("it listens");
    worker.write_all(waiting_request().as_bytes()).await.expect("sent");
    server.until_waiting(1).await;
    drop(worker);
    server.until_waiting(0).await;
    server.task(json!({})).await;
    let answer = server.post("workers/claim", &claim(1, 60_000)).await;
    assert_eq!(answer.json()["steps"][0]["attempt"], 1, "{answer:?}");
}

/// A stopping server answers waiting claims with 204, and then exits.
#[tokio::test]
async fn a_stopping_server_answers_waiting_claims() {
    let server = Server::start().await;
    let mut kept = TcpStream::connect(server.address).await.expect("it listens");
    kept.write_all(waiting_request().as_bytes()).await.expect("sent");
    let waiting: Vec<_> = (0..3).map(|_| wait(&server.client, None)).collect();
    server.until_waiting(4).await;
    let Server { reveille, db: _db, .. } = server;
    reveille.signal("TERM").await;
    for waiting in waiting {
        assert_eq!(answered(waiting).await.status, 204);
    }
    let mut answer = String::new();
    timeout(PATIENCE, kept.read_to_string(&mut answer)).await.expect("closed in time").expect("no reset");
    assert_eq!(parse(&answer).status, 204);
    let ended = reveille.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
}

/// Beyond the configured number of waiters a claim is rejected with 503, and accepted again when a waiter has left.
#[tokio::test]
async fn claims_beyond_the_waiter_limit_are_rejected_for_now() {
    let server = Server::with(&["--flow-max-waiters=2"]).await;
    server.template("t", "[{name: a}]").await;
    let waiting: Vec<_> = (0..2).map(|_| wait(&server.client, None)).collect();
    server.until_waiting(2).await;
    let refused = server.post("workers/claim", &claim(1, 10_000)).await;
    assert_refused(&refused, 503, "connection");
    assert!(refused.headers.contains("retry-after: 1"), "{refused:?}");
    for _ in 0..2 {
        server.task(json!({})).await;
    }
    for waiting in waiting {
        assert_eq!(answered(waiting).await.status, 200);
    }
    assert_eq!(server.post("workers/claim", &claim(1, 1)).await.status, 204);
}

/// Invalid parameters are rejected with a message that names them, and nothing is claimed.
#[tokio::test]
async fn invalid_claims_are_rejected() {
    let server = Server::of("[{name: a}]").await;
    server.task(json!({})).await;
    let with = |key: &str, value: Value| {
        let mut request = claim(1, 0);
        request[key] = value;
        request
    };
    let table = [
        (with("namespaces", json!([])), "`namespaces`: must not be empty"),
        (with("namespaces", json!(["a\u{0}"])), "`namespaces`: "),
        (with("namespaces", json!(vec!["x"; 1_001])), "`namespaces`: must have at most 1000 elements, got 1001"),
        (with("steps", json!(["x".repeat(201)])), "`steps`: "),
        (with("worker", json!("w\u{0}")), "`worker`: "),
        (with("worker", Value::Null), "invalid body"),
        (with("max_steps", json!(0)), "`max_steps`: "),
        (with("max_steps", json!(1_001)), "`max_steps`: "),
        (with("lease_ms", json!(1)), "`lease_ms`: "),
        (with("lease_ms", json!(100_000_000)), "`lease_ms`: "),
        (with("wait_ms", json!(600_001)), "`wait_ms`: "),
        (with("wait_ms", json!(-1)), "invalid body"),
        (with("colour", json!(1)), "colour"),
    ];
    for (request, message) in table {
        assert_refused(&server.post("workers/claim", &request).await, 400, message);
    }
    assert_eq!(server.now(9).await.len(), 1);
}
