//! A server is killed after or while it publishes steps through PGMQ: workers of another server receive them.
//!
//! Queue and server process are real.

use reveille_flow::{Flow, Options, Provider, StepMessage};
use reveille_pg::testing::{TestDb, eventually};
use serde_json::{Value, json};
use sqlx::postgres::PgListener;
use tokio::time::timeout;
use uuid::Uuid;

use super::super::fixture::{Client, JSON, Server, claim};
use crate::process::PATIENCE;

/// The number of steps in a test.
const STEPS: usize = 5;

/// A server whose namespace `tests` uses PGMQ, with a template of one step.
async fn through_pgmq() -> Server {
    let server = Server::of("[{name: a}]").await;
    let set = server.send("PUT", "namespaces/tests", &[JSON], br#"{"provider": "pgmq"}"#).await;
    assert_eq!(set.status, 200, "{set:?}");
    server
}

/// Published steps by task, with the number of their message: they are due later than the three seconds for sending.
async fn published(db: &TestDb) -> Vec<(Uuid, i64)> {
    let sql = "select task_id, published from {schema}.step
        where state = 'ready' and published is not null and due_at > now() + interval '4 s' order by task_id";
    sqlx::query_as(db.schema().sql(sql)).fetch_all(db.database().pool()).await.expect("steps")
}

/// Claims and completes so many steps in their first attempt. Returns their tasks in order.
async fn complete(client: &Client, count: usize) -> Vec<Uuid> {
    let mut tasks = Vec::new();
    while tasks.len() < count {
        let answer = client.post("workers/claim", &claim(count, 60_000)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let steps = answer.json()["steps"].as_array().expect("steps").clone();
        assert!(steps.iter().all(|step| step["attempt"] == 1), "{steps:?}");
        let done: Vec<Value> = steps.iter().map(|step| json!({"token": step["token"], "result": 1})).collect();
        let reply = client.report("complete", json!(done)).await;
        assert!(reply.iter().all(|reply| reply["task_state"] == "complete"), "{reply:?}");
        let task = |step: &Value| step["task_uuid"].as_str().and_then(|id| id.parse::<Uuid>().ok()).expect("an id");
        tasks.extend(steps.iter().map(task));
    }
    tasks.sort();
    tasks
}

/// A new queue of a namespace with `announces` is announced.
#[tokio::test]
async fn a_new_queue_is_announced() {
    let server = Server::of("[{name: a}]").await;
    let mut listener = PgListener::connect_with(server.db.database().pool()).await.expect("a listener");
    let channel = format!("{}_pgmq_queue_created", server.db.schema().name());
    listener.listen(&channel).await.expect("listening");
    let settings = br#"{"provider": "pgmq", "announces": true}"#;
    assert_eq!(server.send("PUT", "namespaces/tests", &[JSON], settings).await.status, 200);
    server.task(json!({})).await;
    let reply = timeout(PATIENCE, listener.recv()).await.expect("in time").expect("a notification");
    assert!(reply.payload().contains("tests"), "{}", reply.payload());
}

/// Steps that a killed server had published are received by another. They are not published again: that is due in an
/// hour, and the steps keep their message numbers until they are claimed.
#[tokio::test]
async fn steps_published_by_a_killed_server_are_received() {
    let server = through_pgmq().await;
    for _ in 0..STEPS {
        server.task(json!({})).await;
    }
    let mut sent = Vec::new();
    eventually("everything is published", async || {
        sent = published(&server.db).await;
        sent.len() == STEPS
    })
    .await;
    let later =
        server.db.schema().sql("update {schema}.step set due_at = now() + interval '1 h' where state = 'ready'");
    sqlx::query(&later).execute(server.db.database().pool()).await.expect("an hour");
    server.reveille.signal("KILL").await;
    let (_other, elsewhere) = server.another().await;
    assert_eq!(published(&server.db).await, sent, "nothing is published again");
    let tasks = complete(&elsewhere, STEPS).await;
    assert_eq!(tasks, sent.iter().map(|(task, _)| *task).collect::<Vec<_>>());
}

/// Steps that a killed server had taken but not sent are due again within three seconds, and another server publishes
/// them. The queue is locked, so that the server waits between the two. The due time is read from the rows, by the
/// database's clock.
#[tokio::test]
async fn steps_not_yet_sent_by_a_killed_server_are_published() {
    let server = through_pgmq().await;
    let first: Uuid = server.task(json!({})).await.parse().expect("an id");
    assert_eq!(complete(&server, 1).await, [first], "the queue is there");
    let pool = server.db.database().pool();
    // The message of an ended step has the name of the queue.
    let library = Flow::open(server.db.database().clone(), server.db.schema().clone(), Options::default());
    let library = library.await.expect("open a flow");
    let (namespace, step) = ("tests".to_owned(), "a".to_owned());
    let old = StepMessage { task: first, ordinal: 0, number: 1, namespace, step, priority: 0, attempt: 0 };
    let sent = library.provider(Provider::Pgmq).expect("a queue").publish(&[old]).await.expect("sent");
    let queue = format!("pgmq.q_{}", sent[0].queue);
    let mut lock = pool.begin().await.expect("a transaction");
    let sql = format!("lock table {queue} in access exclusive mode");
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut *lock).await.expect("locked");
    for _ in 0..STEPS {
        server.task(json!({})).await;
    }
    let mut blocked: Vec<i32> = Vec::new();
    eventually("it has taken a step, and cannot send it", async || {
        let taken = "select count(*) from {schema}.step where state = 'ready' and published is not null";
        let taken: i64 = sqlx::query_scalar(server.db.schema().sql(taken)).fetch_one(pool).await.expect("a count");
        let waiting = "select pid from pg_locks where relation = $1::regclass and not granted";
        blocked = sqlx::query_scalar(waiting).bind(&queue).fetch_all(pool).await.expect("backends");
        taken > 0 && !blocked.is_empty()
    })
    .await;
    server.reveille.signal("KILL").await;
    for pid in blocked {
        sqlx::query("select pg_terminate_backend($1)").bind(pid).execute(pool).await.expect("ended");
    }
    lock.rollback().await.expect("the queue is free");
    let soon =
        "select coalesce(bool_and(due_at <= now() + interval '3 s'), true) from {schema}.step where state = 'ready'";
    let soon: bool = sqlx::query_scalar(server.db.schema().sql(soon)).fetch_one(pool).await.expect("an answer");
    assert!(soon, "everything is due within the lease of a sender");
    let (_other, elsewhere) = server.another().await;
    assert_eq!(complete(&elsewhere, STEPS).await.len(), STEPS);
}
