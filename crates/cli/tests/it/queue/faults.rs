//! Servers and databases that crash under load: every response was true, and a request without one can be repeated.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reveille_pg::testing::PrivateCluster;
use tokio::task::JoinSet;

use super::checker::{Numbers, Plan, Reads, Stage, consume, drain_and_check, finish, produce};
use super::fixture::{BASE, Client, Server, data};
use super::waits::until_waiting;
use crate::failover_client::{FailoverClient, LONGEST_WAIT};
use crate::http::eventually;
use crate::process::{Reveille, command};

/// Leases expire by themselves, because a consumer may crash.
const QUEUE: Plan =
    Plan { name: "checker.q", partitions: 6, lease: Duration::from_secs(2), retry_limit: 3, expires: true, fed: true };
const GROUPS: [(Option<&str>, Reads); 2] = [(None, Reads::All), (Some("named"), Reads::All)];
/// Messages pushed and acked between one fault and the next.
const LOAD: usize = 300;

/// Producers and consumers that fail over to another server, or repeat a request that was not answered.
async fn crowd(servers: &[SocketAddr]) -> (Arc<Stage>, JoinSet<()>) {
    let stage = Stage::set(&[QUEUE], servers, true).await;
    let numbers = Arc::new(Numbers::default());
    let mut people = JoinSet::new();
    for number in 0..4 {
        people.spawn(produce(stage.clone(), number, numbers.clone(), Duration::from_millis(100)));
    }
    for number in 100..104 {
        for (offset, (group, reads)) in GROUPS.iter().enumerate() {
            people.spawn(consume(stage.clone(), number * 10 + offset as u64, *group, *reads));
        }
    }
    (stage, people)
}

/// A killed server must lose nothing that it acknowledged, and no lease.
/// Two servers under load; one is killed, and its clients repeat unanswered requests at the other. The log is checked.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_queue_server_loses_nothing() {
    let server = Server::start().await;
    let (doomed, elsewhere) = server.another().await;
    let (stage, people) = crowd(&[server.address, elsewhere.address]).await;
    stage.busy(LOAD).await;
    doomed.signal("KILL").await;
    assert!(!doomed.ended().await.status.success());
    stage.busy(LOAD).await;
    finish(&stage, people).await;
    assert!(stage.unanswered() > 0, "no client used the killed server");
    drain_and_check(&stage, &GROUPS).await;
}

/// A database that crashes and recovers must lose nothing that was acknowledged, and pops that waited before must be
/// answered after it without a new request.
/// A private PostgreSQL is killed twice under load; unanswered requests are repeated. Pops of groups of their own wait
/// all the time; a push at the end answers them. The log is checked.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_crash_loses_no_message() {
    const WAITING: usize = 10;
    let Some(cluster) = PrivateCluster::start().await else { return };
    let mut serve = command(&["serve", "--listen=127.0.0.1:0", "--acquire-timeout=5s"]);
    serve.env("DATABASE_URL", cluster.url());
    let reveille = Reveille::start(serve);
    let client = Client { address: reveille.address().await };
    eventually(client.address, "/health", |answer| answer.status == 200).await;
    client.push("later", "p", &["early"]).await;
    let mut waiting = Vec::new();
    for number in 0..WAITING {
        let path = format!("queue/later?consumerGroup=g{number}");
        client.ack(&client.pop(&format!("{path}&wait=true")).await, "completed").await;
        let path = format!("pop/{path}&wait=true&timeout={}", LONGEST_WAIT.as_millis());
        waiting.push(tokio::spawn(async move {
            FailoverClient::new(BASE, &[client.address], 0).ask("GET", &path, None).await
        }));
    }
    until_waiting(client, WAITING).await;

    let (stage, people) = crowd(&[client.address]).await;
    for _ in 0..2 {
        stage.busy(LOAD).await;
        stage.crash(async { cluster.stop_immediate().await.expect("it stops") }).await;
        eventually(client.address, "/health", |answer| answer.status == 503).await;
        cluster.start_again().await.expect("it starts");
        eventually(client.address, "/health", |answer| answer.status == 200).await;
        stage.busy(LOAD).await;
    }
    finish(&stage, people).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()), "a waiting pop was answered early");
    client.push("later", "p", &["late"]).await;
    for waiting in waiting {
        let answer = waiting.await.expect("no panic").expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(data(&answer.json()), ["late"]);
    }
    drain_and_check(&stage, &GROUPS).await;
}
