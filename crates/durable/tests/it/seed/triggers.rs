//! Items 1 and 2: the triggers, and the notifications of the triggers and of the provider.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duroxide::providers::{Provider, WorkItem};
use reveille_durable::PostgresProvider;
use reveille_pg::testing::TestDb;
use sqlx::postgres::{PgListener, PgNotification};
use tokio::time::timeout;

use super::{activity, calm, connected, insert, send, start};
use crate::fixture::PATIENCE;

/// How far the clocks of this process and the server may seem apart, in milliseconds.
const ABOUT_MS: i64 = 1_000;

async fn listener(db: &TestDb, suffix: &str) -> PgListener {
    let mut listener = PgListener::connect(db.url()).await.expect("connect");
    listener.listen(&reveille_wake::channel_name(db.schema().name(), suffix)).await.expect("listen");
    listener
}

async fn next(listener: &mut PgListener) -> PgNotification {
    timeout(PATIENCE, listener.recv()).await.expect("a notification").expect("the connection")
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

async fn prepared() -> (TestDb, PostgresProvider) {
    let db = TestDb::new().await;
    let provider = connected(&db, calm()).await;
    (db, provider)
}

/// Item 1: both queues have their trigger once the schema is made.
#[tokio::test(flavor = "multi_thread")]
async fn both_queues_have_their_trigger() {
    let (db, _provider) = prepared().await;
    let triggers = "select t.tgname::text, c.relname::text from pg_trigger t join pg_class c on c.oid = t.tgrelid
                    join pg_namespace n on n.oid = c.relnamespace
                    where n.nspname = $1 and t.tgname like '%\\_notify' order by t.tgname";
    let triggers: Vec<(String, String)> =
        sqlx::query_as(triggers).bind(db.schema().name()).fetch_all(db.database().pool()).await.expect("the triggers");
    let named = |trigger: &str, table: &str| (trigger.to_owned(), table.to_owned());
    assert_eq!(triggers, [named("trg_orch_notify", "orchestrator_queue"), named("trg_worker_notify", "worker_queue")]);
}

/// Item 2: a message notifies with its due time in milliseconds, on the channel of its schema.
/// One is due now, one, a timer, in a minute.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_notifies_with_its_due_time() {
    let (db, provider) = prepared().await;
    let mut listener = listener(&db, "orch_work").await;
    send(&provider, "now").await;
    let notification = next(&mut listener).await;
    assert_eq!(notification.channel(), format!("{}_orch_work", provider.schema_name()));
    let due: i64 = notification.payload().parse().expect("milliseconds");
    assert!(due <= now_ms() + ABOUT_MS, "{due} is not now");

    let fire_at_ms = now_ms() + 60_000;
    let timer =
        WorkItem::TimerFired { instance: "later".into(), execution_id: 1, id: 2, fire_at_ms: fire_at_ms as u64 };
    provider.enqueue_for_orchestrator(timer, None).await.expect("sent");
    let due: i64 = next(&mut listener).await.payload().parse().expect("milliseconds");
    assert!((due - fire_at_ms).abs() < ABOUT_MS, "{due} is not about {fire_at_ms}");

    provider.enqueue_for_orchestrator(start("delayed"), Some(Duration::from_secs(60))).await.expect("sent");
    let due: i64 = next(&mut listener).await.payload().parse().expect("milliseconds");
    assert!((due - now_ms() - 60_000).abs() < ABOUT_MS, "{due} is not in a minute");
}

/// Item 2: an activity notifies without a payload.
#[tokio::test(flavor = "multi_thread")]
async fn an_activity_notifies_without_a_payload() {
    let (db, provider) = prepared().await;
    let mut listener = listener(&db, "worker_work").await;
    provider.enqueue_for_worker(activity("busy")).await.expect("sent");
    let notification = next(&mut listener).await;
    assert_eq!(notification.channel(), format!("{}_worker_work", provider.schema_name()));
    assert_eq!(notification.payload(), "");
}

/// Item 2: rows that psql inserts or makes due earlier notify as well, by the triggers.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_other_programs_notify() {
    let (db, _provider) = prepared().await;
    let (mut messages, mut work) = (listener(&db, "orch_work").await, listener(&db, "worker_work").await);
    insert(&db, "inserted", false).await;
    let due: i64 = next(&mut messages).await.payload().parse().expect("milliseconds");
    assert!(due <= now_ms() + ABOUT_MS, "{due} is not now");
    let again = db.schema().sql("update {schema}.orchestrator_queue set visible_at = now()");
    sqlx::query(&again).execute(db.database().pool()).await.expect("re-timed");
    next(&mut messages).await;

    let insert = db.schema().sql(
        "insert into {schema}.worker_queue (instance_id, execution_id, activity_id, work_item) values ('i', 1, 2, $1)",
    );
    let item = serde_json::to_string(&activity("i")).expect("JSON");
    sqlx::query(&insert).bind(item).execute(db.database().pool()).await.expect("inserted");
    assert_eq!(next(&mut work).await.payload(), "");
}
