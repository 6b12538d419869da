//! A full disk: clients get an error in time, operators see the reason, and the server continues when there is space.

use std::time::Duration;

use reveille_pg::testing::{PrivateCluster, SmallDisk};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::fixture::{Client, assert_refused};
use crate::http::{eventually, get};
use crate::process::{PATIENCE, Reveille, command};

/// How long a push may take while the disk is full: the retries, and a busy machine. Existing clients wait for 30 s.
const IN_TIME: Duration = Duration::from_secs(20);

/// An incompressible text of `length` characters.
fn noise(length: usize) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'0' + (state >> 40) as u8 % 64)
    };
    std::iter::repeat_with(&mut next).filter(|letter| letter.is_ascii_alphanumeric()).take(length).collect()
}

fn large(transaction: &str) -> Value {
    json!({"items": [{"queue": "q", "partition": "p", "transactionId": transaction, "payload": noise(400_000)}]})
}

async fn serve(cluster: &PrivateCluster) -> (Reveille, Client) {
    let mut serve = command(&["serve", "--listen=127.0.0.1:0", "--acquire-timeout=2s"]);
    serve.env("DATABASE_URL", cluster.url());
    let reveille = Reveille::start(serve);
    let client = Client { address: reveille.address().await };
    eventually(client.address, "/health", |answer| answer.status == 200).await;
    (reveille, client)
}

/// While there is no space for tables, pushes get 503 in time with the reason, `/health` is degraded with the reason,
/// the log has a warning, and the metrics count it. When there is space again, pushes work and `/health` is healthy,
/// without any other action. The tables of a private PostgreSQL lie on a small file system, which is filled and freed.
#[tokio::test]
async fn a_full_disk_is_reported_and_recovered_from() {
    let Some(disk) = SmallDisk::mount(40) else { return };
    let Some(cluster) = PrivateCluster::start().await else { return };
    cluster.put_tables_on(&disk).await;
    let (reveille, client) = serve(&cluster).await;
    assert_eq!(client.post("push", &large("before")).await.status, 201);

    disk.fill();
    for attempt in ["first", "second", "third"] {
        let since = Instant::now();
        let refused = client.post("push", &large(attempt)).await;
        assert_refused(&refused, 503, "disk is full");
        assert!(refused.body.contains("connection") && refused.headers.contains("retry-after"), "{refused:?}");
        assert!(since.elapsed() < IN_TIME, "the {attempt} took {:?}", since.elapsed());
    }
    let degraded = |answer: &crate::http::Answer| answer.json()["degraded"].to_string().contains("disk is full");
    eventually(client.address, "/health", |answer| answer.status == 200 && degraded(answer)).await;
    reveille.line("the database's disk is full").await;
    assert!(shortages(&client).await > 0);

    disk.free();
    assert_eq!(client.post("push", &large("after")).await.status, 201);
    eventually(client.address, "/health", |answer| answer.status == 200 && !degraded(answer)).await;
    reveille.line("the database accepts writes again").await;
}

/// A server without writes must detect by itself whether there is space: `/health` stays degraded while there is none,
/// and is healthy when there is. One push fails. While the disk is full, the health check tries a write and fails as
/// well, which the metrics count; after that no client writes.
#[tokio::test]
async fn an_idle_server_is_degraded_until_a_write_succeeds() {
    let Some(disk) = SmallDisk::mount(40) else { return };
    let Some(cluster) = PrivateCluster::start().await else { return };
    cluster.put_tables_on(&disk).await;
    let (reveille, client) = serve(&cluster).await;
    assert_eq!(client.post("push", &large("before")).await.status, 201);
    disk.fill();
    // On a busy machine a push may first get no connection in time.
    let deadline = Instant::now() + PATIENCE;
    while !client.post("push", &large("refused")).await.body.contains("disk is full") {
        assert!(Instant::now() < deadline, "no push failed because of the disk");
    }
    let degraded = |answer: &crate::http::Answer| answer.json()["degraded"].to_string().contains("disk is full");
    let before = shortages(&client).await;
    while shortages(&client).await < before + 2 {
        assert!(Instant::now() < deadline, "no write was tried");
        let health = get(client.address, "/health").await;
        assert!(health.status == 200 && degraded(&health), "{health:?}");
    }
    disk.free();
    eventually(client.address, "/health", |answer| answer.status == 200 && !degraded(answer)).await;
    reveille.line("the database accepts writes again").await;
}

/// How often the disk was full, according to the metrics.
async fn shortages(client: &Client) -> u64 {
    let metrics = get(client.address, "/metrics").await.body;
    let counted =
        metrics.lines().find_map(|line| line.strip_prefix("reveille_database_shortages_total{reason=\"disk_full\"} "));
    counted.and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// While there is no space for the write-ahead log, PostgreSQL crashes. Pushes get 503 in time; when there is space and
/// it runs again, every acknowledged message is there.
/// The log of a private PostgreSQL lies on a small file system, which is filled and freed.
#[tokio::test]
async fn a_full_write_ahead_log_loses_nothing() {
    let Some(disk) = SmallDisk::mount(80) else { return };
    let extra = [("min_wal_size", "32MB"), ("max_wal_size", "48MB"), ("wal_recycle", "off")];
    let Some(cluster) = PrivateCluster::start_with(&extra).await else { return };
    cluster.put_wal_on(&disk).await;
    let (_reveille, client) = serve(&cluster).await;
    disk.fill();
    let (mut accepted, mut refused) = (Vec::new(), 0);
    for number in 0..200 {
        let transaction = number.to_string();
        let since = Instant::now();
        let answer = client.post("push", &large(&transaction)).await;
        assert!(since.elapsed() < PATIENCE, "{:?}", since.elapsed());
        match answer.status {
            201 => accepted.push(transaction),
            _ => {
                assert_refused(&answer, 503, "connection");
                refused += 1;
                break;
            }
        }
    }
    assert_eq!(refused, 1, "the log was never full");
    disk.free();
    let deadline = Instant::now() + PATIENCE;
    while get(client.address, "/health").await.status != 200 {
        assert!(Instant::now() < deadline, "it never came back");
        // PostgreSQL may have given up; then an operator starts it.
        let _ = cluster.start_again().await;
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(client.post("push", &large("after")).await.status, 201);
    let sql = "select transaction_ids[1] from reveille.segment order by first_offset";
    let pool = sqlx::PgPool::connect(cluster.url()).await.expect("it answers");
    let stored: Vec<String> = sqlx::query_scalar(sql).fetch_all(&pool).await.expect("messages");
    assert!(accepted.iter().all(|transaction| stored.contains(transaction)), "{accepted:?} in {stored:?}");
    pool.close().await;
}
