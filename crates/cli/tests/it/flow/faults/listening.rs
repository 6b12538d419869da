//! Lost notifications: briefly, repeatedly, or always.

use std::time::Duration;

use reveille_pg::testing::{TestDb, pooler};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::super::claims::{answered, wait};
use super::super::fixture::{Client, Server};
use super::crowd::Crowd;
use crate::http::{Answer, eventually, get};
use crate::serve::{ready, serve};

/// How often the listener is terminated.
const TIMES: usize = 5;
/// A disconnected listener falls back to polling ten times a second, and polls when it reconnects. The rest is slack
/// for a busy machine.
const LATE: Duration = Duration::from_secs(10);
/// Steps completed under each fault.
const LOAD: usize = 100;

/// Whether the listener is connected, according to the metrics.
fn is_listening(answer: &Answer) -> bool {
    let listener = |line: &&str| line.starts_with("reveille_wake_listener_up{");
    answer.body.lines().filter(listener).any(|line| line.ends_with(" 1"))
}

/// A listener that is terminated repeatedly delays and loses no step, and reconnects. The server has its own database
/// role, so that its listener can be identified. Claims wait there, and tasks are submitted elsewhere right after each
/// termination, under load.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_listener_delays_nothing() {
    let server = Server::of("[{name: woken}]").await;
    let Some(role) = server.db.counting_role().await else { return };
    let mut disconnected = serve(&server.db, &[]);
    disconnected.env("DATABASE_URL", role.url());
    let (_disconnected, there) = server.another_by(disconnected).await;
    let mut waiting: JoinSet<Answer> = (0..TIMES).map(|_| answered(wait(&there, Some(&["woken"])))).collect();
    there.until_waiting(TIMES).await;
    let crowd = Crowd::gather(&server, &[there.address, server.address]).await;
    let end = "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity
               where usename = $1 and application_name = 'reveille listener'";
    let end = async || {
        let ended = sqlx::query_scalar::<_, i64>(end).bind(role.name()).fetch_one(server.db.database().pool()).await;
        ended.expect("end the listener") > 0
    };
    let mut slowest = Duration::ZERO;
    for _ in 0..TIMES {
        reveille_pg::testing::eventually("the listener is there, and ended", end).await;
        let submitted = Instant::now();
        server.task(json!({})).await;
        let answer = waiting.join_next().await.expect("one for each").expect("no panic");
        assert_eq!(answer.status, 200, "{answer:?}");
        slowest = slowest.max(submitted.elapsed());
    }
    crowd.busy(LOAD).await;
    println!("the listener was ended {TIMES} times; the slowest claim came {slowest:?} after its task");
    assert!(slowest < LATE, "{slowest:?}");
    eventually(there.address, "/metrics", is_listening).await;
    crowd.finish(server.db.database().pool(), server.db.schema()).await;
}

/// Without any notifications all tasks complete, wherever they are submitted. Two servers reach the database through a
/// pooler that carries no notifications. A claim waits at one for a task from the other; then both are under load.
#[tokio::test(flavor = "multi_thread")]
async fn without_notifications_all_tasks_complete() {
    let db = TestDb::new().await;
    let Some(pooler) = pooler(&db).await else { return };
    let behind = async || {
        let mut behind = serve(&db, &["--pooler"]);
        behind.env("DATABASE_URL", pooler.url());
        let (reveille, address) = ready(behind).await;
        (reveille, Client::of(address).await)
    };
    let ((_one, one), (_other, other)) = (behind().await, behind().await);
    one.template("t", "[{name: woken}]").await;
    let waiting = wait(&one, Some(&["woken"]));
    one.until_waiting(1).await;
    let submitted = Instant::now();
    other.task(json!({})).await;
    assert_eq!(answered(waiting).await.status, 200);
    println!("without notifications: claimed {:?} after it was submitted elsewhere", submitted.elapsed());
    let crowd = Crowd::gather(&one, &[one.address, other.address]).await;
    crowd.busy(LOAD).await;
    for client in [&one, &other] {
        let metrics = get(client.address, "/metrics").await;
        assert!(!is_listening(&metrics), "{}", metrics.body);
    }
    crowd.finish(db.database().pool(), db.schema()).await;
}
