//! A database that dies under load.

use reveille_pg::testing::PrivateCluster;
use reveille_pg::{Database, Schema};
use serde_json::{Value, json};

use super::super::fixture::{BASE, Client, claim, text};
use super::crowd::Crowd;
use crate::failover_client::{FailoverClient, LONGEST_WAIT};
use crate::http::eventually;
use crate::process::command;
use crate::serve::ready;

/// Steps completed between one fault and the next.
const LOAD: usize = 100;

/// A database crash loses nothing that was acknowledged, and claims that waited before are answered after it without a
/// new request. A private PostgreSQL is killed twice under load; rejected requests are repeated at the same server.
/// Claims for another step wait all the time and are answered by tasks submitted at the end. All responses are compared
/// with the database.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_crash_loses_nothing() {
    const WAITING: usize = 10;
    let Some(cluster) = PrivateCluster::start().await else { return };
    let mut serve = command(&["serve", "--listen=127.0.0.1:0", "--acquire-timeout=1s"]);
    serve.env("DATABASE_URL", cluster.url());
    let (_reveille, address) = ready(serve).await;
    let client = Client::of(address).await;
    client.template("t", "[{name: later}]").await;
    let mut request = claim(1, LONGEST_WAIT.as_millis() as u64);
    request["steps"] = json!(["later"]);
    let wait = |_| {
        let (mut kept, request) = (FailoverClient::new(BASE, &[address], 0), request.clone());
        tokio::spawn(async move { kept.ask("POST", "workers/claim", Some(&request)).await })
    };
    let waiting: Vec<_> = (0..WAITING).map(wait).collect();
    client.until_waiting(WAITING).await;

    let crowd = Crowd::gather(&client, &[address]).await;
    for _ in 0..2 {
        crowd.busy(LOAD).await;
        cluster.stop_immediate().await.expect("it stops");
        eventually(address, "/health", |answer| answer.status == 503).await;
        cluster.start_again().await.expect("it starts");
        eventually(address, "/health", |answer| answer.status == 200).await;
    }
    crowd.busy(LOAD).await;
    let database = Database::connect_lazy(cluster.url(), reveille_pg::Options::default()).expect("a pool");
    crowd.finish(database.pool(), &Schema::new("reveille").expect("a schema")).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()), "a waiting claim was answered early");
    let mut tasks = Vec::new();
    for _ in 0..WAITING {
        tasks.push(client.task(json!({})).await);
    }
    let mut claimed = Vec::new();
    for waiting in waiting {
        let answer = waiting.await.expect("no panic").expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        let step: Value = answer.json()["steps"][0].clone();
        assert_eq!((&step["name"], &step["attempt"]), (&json!("later"), &json!(1)), "{step}");
        claimed.push(text(&step["task_uuid"]));
    }
    tasks.sort();
    claimed.sort();
    assert_eq!(claimed, tasks, "each got one of its own");
}
