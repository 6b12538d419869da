//! Ten thousand clients that wait at one server: their cost, and that each is served.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use reveille_pg::testing::{CountingRole, TestDb};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::fixture::{Client, messages};
use super::waits::until_waiting;
use crate::http::{eventually, parse};
use crate::process::{PATIENCE, Reveille};
use crate::serve::ready;

/// Queues, groups of each, and clients of each group: as many together as a server lets wait by default.
const QUEUES: usize = 10;
const GROUPS: usize = 10;
const CLIENTS: usize = 100;
const ALL: usize = QUEUES * GROUPS * CLIENTS;
/// Open files of the test and the server: a socket per client, and some more.
const FILES: usize = ALL + 2_000;
/// How long they wait without a message.
const IDLE: Duration = Duration::from_secs(10);
/// How long no statement must have been sent for the server to count as idle.
const IDLE_FOR: Duration = Duration::from_secs(4);
/// The memory that the server may use with all of them.
const MEMORY: u64 = 500 << 20;
/// How many connect at the same time: less than the kernel's backlog.
const AT_ONCE: usize = 100;

/// Raises the limit of open files of this process, or panics with the reason.
async fn allow_files() {
    let own = std::process::id().to_string();
    let raised = Command::new("prlimit").args(["--pid", &own, &format!("--nofile={FILES}:")]).output().await;
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap_or_default();
    let soft = line.split_whitespace().next().unwrap_or_default();
    let enough = soft == "unlimited" || soft.parse::<usize>().is_ok_and(|soft| soft >= FILES);
    assert!(enough, "this test needs {FILES} open files and may have {soft}; prlimit: {raised:?}");
}

/// A server with enough open files and rare maintenance, whose statements are counted.
async fn serve(db: &TestDb, role: &CountingRole) -> (Reveille, Client) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -S -n \"$1\" && exec \"$0\" serve", env!("CARGO_BIN_EXE_reveille"), &FILES.to_string()]);
    shell.env("REVEILLE_LISTEN", "127.0.0.1:0").env("REVEILLE_SCHEMA", db.schema().name());
    shell.env("DATABASE_URL", role.url()).env("RETENTION_INTERVAL", "3600000").env("EVICTION_INTERVAL", "3600000");
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let (reveille, address) = ready(shell).await;
    (reveille, Client { address })
}

/// A waiting pop on a connection of its own. Once it is sent, the next may connect.
async fn park(client: Client, number: usize, permit: tokio::sync::OwnedSemaphorePermit) -> Value {
    let (queue, group) = (number % QUEUES, number / QUEUES % GROUPS);
    let mut stream = TcpStream::connect(client.address).await.expect("it listens");
    let path = format!("/api/v1/pop/queue/parked.{queue}?consumerGroup=g{group}&wait=true&timeout=600000");
    let text = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await.expect("sent");
    drop(permit);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    let answer = parse(&answer);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Waits until no statement was sent to the database for a while.
async fn until_idle(role: &CountingRole) {
    let deadline = Instant::now() + PATIENCE;
    let (mut since, mut before) = (Instant::now(), role.statements().await);
    while since.elapsed() < IDLE_FOR {
        assert!(Instant::now() < deadline, "never idle: {before:?}");
        sleep(Duration::from_millis(500)).await;
        let now = role.statements().await;
        if now != before {
            (since, before) = (Instant::now(), now);
        }
    }
}

/// Ten thousand waiting clients must cost no statement and little memory, must all be served, and must leave nothing
/// behind. A hundred clients in each of ten groups of ten queues; the statements of the server's own role are counted
/// while no message comes. Then each queue gets a message in each of a hundred partitions, one for every client.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_waiting_clients_cost_no_statement_and_are_all_served() {
    allow_files().await;
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let (reveille, client) = serve(&db, &role).await;
    let alone = reveille.resident().unwrap_or(0);

    let room = std::sync::Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    let mut waiting = JoinSet::new();
    for number in 0..ALL {
        let permit = room.clone().acquire_owned().await.expect("never closed");
        waiting.spawn(park(client, number, permit));
    }
    until_waiting(client, ALL).await;
    until_idle(&role).await;
    let before = role.statements().await;
    sleep(IDLE).await;
    assert_eq!(role.statements().await, before, "no statement was sent");
    assert!(!before.is_empty(), "statements of this role are counted");
    let crowded = reveille.resident().unwrap_or(0);
    println!("resident: {} MB alone, {} MB with {ALL} waiting", alone >> 20, crowded >> 20);
    assert!(crowded <= MEMORY, "{} MB with {ALL} waiting", crowded >> 20);
    assert!(waiting.try_join_next().is_none(), "a waiting pop was answered early");

    for queue in 0..QUEUES {
        let item = |partition| json!({"queue": format!("parked.{queue}"), "partition": format!("p{partition}")});
        let pushed = client.post("push", &json!({"items": (0..CLIENTS).map(item).collect::<Vec<_>>()})).await;
        assert_eq!(pushed.status, 201, "{pushed:?}");
    }
    let mut served = BTreeSet::new();
    while let Some(popped) = timeout(PATIENCE, waiting.join_next()).await.expect("served in time") {
        let popped = popped.expect("served");
        let text = |key: &str| popped[key].as_str().expect("text").to_owned();
        assert_eq!(messages(&popped).len(), 1, "{popped}");
        served.insert((text("queue"), text("consumerGroup"), text("partition")));
    }
    assert_eq!(served.len(), ALL, "each got a partition of its own");
    until_waiting(client, 0).await;
    // The request for metrics has a connection, too.
    eventually(client.address, "/metrics", |answer| answer.body.contains("reveille_http_connections 1\n")).await;
    println!("resident: {} MB when all were served", reveille.resident().unwrap_or(0) >> 20);
}
