//! A database that is away: what clients hear, and that they find everything when it is back.

use reveille_pg::testing::PrivateCluster;
use serde_json::json;

use super::fixture::{Client, assert_refused, data};
use crate::http::eventually;
use crate::process::{Reveille, command};

/// While the database is away every call must be refused for now, in words that keep a client of the field alive and in none of the
/// database's; when it is back, everything is as it was.
/// A private PostgreSQL is stopped and started again; nothing is tried for longer than the server waits for a connection.
#[tokio::test]
async fn calls_are_refused_for_now_while_the_database_is_away() {
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
