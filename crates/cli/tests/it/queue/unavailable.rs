//! An unavailable database: the responses to clients, and that nothing is lost.

use reveille_pg::testing::PrivateCluster;
use serde_json::json;

use super::fixture::{Client, assert_refused, data};
use crate::http::eventually;
use crate::process::{Reveille, command};

/// While the database is unavailable every call must be rejected as transient, with a message that keeps existing
/// clients retrying and has no text of the database; afterwards everything is as before.
/// A private PostgreSQL is stopped and started again; no call is retried for longer than the wait for a connection.
#[tokio::test]
async fn calls_are_rejected_as_transient_without_a_database() {
    let Some(cluster) = PrivateCluster::start().await else { return };
    let mut serve = command(&["serve", "--listen=127.0.0.1:0", "--acquire-timeout=1s"]);
    serve.env("DATABASE_URL", cluster.url());
    let reveille = Reveille::start(serve);
    let client = Client { address: reveille.address().await };
    eventually(client.address, "/health", |answer| answer.status == 200).await;
    client.push("q", "p", &["1", "2"]).await;
    let popped = client.pop("queue/q?consumerGroup=g").await;

    cluster.stop_immediate().await.expect("it stops");
    let refused = client.get("pop/queue/q?consumerGroup=h").await;
    assert_refused(&refused, 503, "connection");
    assert!(refused.headers.contains("retry-after: 1"), "{refused:?}");
    let lease = popped["leaseId"].as_str().expect("a lease");
    let extended = client.post(&format!("lease/{lease}/extend"), &json!({})).await;
    assert_refused(&extended, 503, "connection");

    cluster.start_again().await.expect("it starts");
    eventually(client.address, "/health", |answer| answer.status == 200).await;
    assert_eq!(client.ack(&popped, "completed").await[0]["success"], true);
    assert_eq!(data(&client.pop("queue/q?consumerGroup=g").await), ["2"]);
    reveille.signal("TERM").await;
    assert_eq!(reveille.ended().await.status.code(), Some(0));
}
