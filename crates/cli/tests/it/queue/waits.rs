//! `GET /pop/…?wait=true`: pops that wait, and how each wait ends.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::fixture::{Client, Server, acks_of, assert_refused, data, popping};
use crate::http::{Answer, eventually, parse};
use crate::process::PATIENCE;

/// A waiting pop, without a deadline within the test.
fn wait(client: Client, path: &str) -> JoinHandle<Answer> {
    let path = format!("{}&wait=true&timeout={}", popping(path), PATIENCE.as_millis());
    tokio::spawn(async move { client.get(&path).await })
}

async fn answered(waiting: JoinHandle<Answer>) -> Answer {
    timeout(PATIENCE, waiting).await.expect("answered in time").expect("no panic")
}

/// Waits until so many pops wait at a server, according to its metrics.
pub(super) async fn until_waiting(client: Client, count: usize) {
    let line = format!("reveille_wake_waiters{{consumer=\"pop\"}} {count}\n");
    eventually(client.address, "/metrics", |answer| answer.body.contains(&line)).await;
}

/// A waiting pop must be answered by a push, whatever it waits for, through any server of the same database.
/// One pop of each kind waits at one server; the message is pushed at another.
#[tokio::test]
async fn a_push_through_another_server_answers_waiting_pops() {
    let server = Server::start().await;
    let (_other, elsewhere) = server.another().await;
    let paths = [
        "queue/shop.orders?consumerGroup=queue",
        "queue/shop.orders/partition/p?consumerGroup=partition",
        "?namespace=shop&consumerGroup=namespace",
        "?task=orders&consumerGroup=task",
        "?namespace=shop&task=orders&consumerGroup=both",
    ];
    let waiting: Vec<_> = paths.iter().map(|path| wait(server.client, path)).collect();
    until_waiting(server.client, paths.len()).await;
    elsewhere.push("shop.orders", "p", &["1"]).await;
    for (waiting, path) in waiting.into_iter().zip(paths) {
        let answer = answered(waiting).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert_eq!(data(&answer.json()), ["1"], "{path}");
    }
    until_waiting(server.client, 0).await;
}

/// A wait must end when a message becomes readable again: by an ack, a failure, the end of a lease, a transaction.
/// The same partition is leased, and another pop waits for its next messages.
#[tokio::test]
async fn every_release_of_a_partition_answers_waiting_pops() {
    let server = Server::start().await;
    server.push("q", "p", &["1", "2", "3", "4"]).await;
    let path = "queue/q?consumerGroup=g";
    let mut held = server.pop(path).await;
    for how in ["ack", "failure", "transaction", "lease"] {
        let waiting = wait(server.client, path);
        until_waiting(server.client, 1).await;
        match how {
            "ack" => drop(server.ack(&held, "completed").await),
            "failure" => drop(server.ack(&held, "failed").await),
            "transaction" => {
                let mut ack = acks_of(&held, "completed").remove(0);
                ack["type"] = json!("ack");
                let reply = server.post("transaction", &json!({"operations": [ack]})).await.json();
                assert_eq!(reply["success"], true, "{reply}");
            }
            _ => {
                let sql = server.db.schema().sql("update {schema}.cursor set due_at = now(), version = version + 1");
                sqlx::query(&sql).execute(server.db.database().pool()).await.expect("the lease ends");
                // The lease was ended in the table, without a wake-up; a message for another partition causes a poll.
                server.push("q", "other", &["5"]).await;
            }
        }
        let answer = answered(waiting).await;
        assert_eq!(answer.status, 200, "{how}: {answer:?}");
        let popped = answer.json();
        let expected = match how {
            "ack" | "failure" => "2",
            "transaction" => "3",
            _ => "3",
        };
        assert_eq!(data(&popped), [expected], "{how}");
        held = popped;
    }
}

/// A wait without a message must be answered with 204 at its deadline, not before and not much later.
/// An unknown queue with a short deadline.
#[tokio::test]
async fn a_wait_ends_at_its_deadline() {
    let server = Server::start().await;
    let began = Instant::now();
    server.pop_nothing("queue/nothing?wait=true&timeout=700").await;
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(700) && took < Duration::from_secs(5), "{took:?}");
    let began = Instant::now();
    server.pop_nothing("queue/nothing?wait=false&timeout=60000").await;
    server.pop_nothing("queue/nothing?wait=true&timeout=0").await;
    assert!(began.elapsed() < Duration::from_secs(30), "no wait");
}

/// The waiter of a disconnected client must be removed at once, and the next message goes to another client.
/// A client closes its connection while it waits; then a message comes.
#[tokio::test]
async fn a_disconnected_client_leaves_the_wait() {
    let server = Server::start().await;
    let mut client = TcpStream::connect(server.address).await.expect("it listens");
    let text = "GET /api/v1/pop/queue/q?wait=true&timeout=3600000 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    client.write_all(text.as_bytes()).await.expect("sent");
    until_waiting(server.client, 1).await;
    drop(client);
    until_waiting(server.client, 0).await;
    server.push("q", "p", &["1"]).await;
    assert_eq!(data(&server.pop("queue/q").await), ["1"]);
}

/// A stopping server must answer waiting pops with 204 and then close the connection: a connection that breaks without
/// a response ends existing clients.
/// Several pops wait, one on a connection that is kept open; then the signal comes.
#[tokio::test]
async fn a_stopping_server_answers_waiting_pops() {
    let server = Server::start().await;
    let mut kept = TcpStream::connect(server.address).await.expect("it listens");
    let text = "GET /api/v1/pop/queue/q?wait=true&timeout=3600000 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    kept.write_all(text.as_bytes()).await.expect("sent");
    let waiting: Vec<_> = (0..5).map(|n| wait(server.client, &format!("queue/q?consumerGroup=g{n}"))).collect();
    until_waiting(server.client, 6).await;
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

/// Beyond the configured number of waiters, a waiting pop is rejected as transient, with a message that keeps existing
/// clients retrying. Two waiters are allowed; the third is rejected, and accepted when one has left.
#[tokio::test]
async fn pops_beyond_the_waiter_limit_are_rejected_for_now() {
    let server = Server::with(&["--queue-max-waiters=2"]).await;
    let waiting: Vec<_> = (0..2).map(|n| wait(server.client, &format!("queue/q{n}?consumerGroup=g"))).collect();
    until_waiting(server.client, 2).await;
    let refused = server.get("pop/queue/q?wait=true").await;
    assert_refused(&refused, 503, "connection");
    assert!(refused.headers.contains("retry-after: 1"), "{refused:?}");
    server.push("q0", "p", &["1"]).await;
    server.push("q1", "p", &["1"]).await;
    for waiting in waiting {
        assert_eq!(answered(waiting).await.status, 200);
    }
    server.pop_nothing("queue/q?wait=true&timeout=1").await;
}
