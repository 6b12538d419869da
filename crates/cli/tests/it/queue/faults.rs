//! Servers and databases that die under load: what was answered is true, and what was not can be repeated.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reveille_pg::testing::PrivateCluster;
use tokio::task::JoinSet;

use super::checker::{Numbers, Plan, Reads, Stage, consume, finish, produce, settle};
use super::fixture::{BASE, Client, Server, data};
use super::waits::until_waiting;
use crate::http::eventually;
use crate::kept::{Kept, LONGEST_WAIT};
use crate::process::{Reveille, command};

/// Everything here ends by itself: whoever holds a lease may die.
const QUEUE: Plan =
    Plan { name: "checker.q", lanes: 6, lease: Duration::from_secs(2), retry_limit: 3, expires: true, fed: true };
const GROUPS: [(Option<&str>, Reads); 2] = [(None, Reads::All), (Some("named"), Reads::All)];
/// Messages pushed and acked between one fault and the next.
const LOAD: usize = 300;

/// Producers and consumers that go to another server, or ask again, when nobody answers.
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

/// A server that is killed must lose nothing that it answered, and nothing that it had leased.
/// Two servers under load; one is killed, its clients go to the other with what was not answered. The log is judged.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_loses_nothing() {
    let server = Server::start().await;
    let (doomed, elsewhere) = server.another().await;
    let (stage, people) = crowd(&[server.address, elsewhere.address]).await;
    stage.busy(LOAD).await;
    doomed.signal("KILL").await;
    assert!(!doomed.ended().await.status.success());
    stage.busy(LOAD).await;
    finish(&stage, people).await;
    assert!(stage.unanswered() > 0, "nobody had anything to do with the one that was killed");
    settle(&stage, &GROUPS).await;
}

/// A database that dies and comes back must lose nothing that was answered, and whoever waited before must be served after, without asking again.
/// A private PostgreSQL is killed twice under load; what was not answered is repeated. Pops of groups of their own wait all the while; a push after the end
/// answers them. The log is judged.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_dies_loses_nothing() {
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
        waiting.push(tokio::spawn(async move { Kept::new(BASE, &[client.address], 0).ask("GET", &path, None).await }));
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
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()), "somebody was sent away");
    client.push("later", "p", &["late"]).await;
    for waiting in waiting {
        let answer = waiting.await.expect("no panic").expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(data(&answer.json()), ["late"]);
    }
    settle(&stage, &GROUPS).await;
}
