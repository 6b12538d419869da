//! Undecodable rows at the head of a queue: the rows after them are still served.

use std::sync::Arc;

use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use reveille_pg::testing::TestDb;

use super::load::Load;
use super::{PATIENCE, eventually, four_each};
use crate::consistency;
use crate::fixture::Fixture;

/// Texts that are no work item: no JSON, other JSON, an item with other fields, an empty text.
const GARBAGE: [&str; 5] = ["not json", "{\"Unheard\": {}}", "{\"ActivityExecute\": {\"id\": \"x\"}}", "[]", ""];
/// Other orchestrations that continue.
const ORCHESTRATIONS: usize = 10;

/// Puts garbage for an instance in front of everything in a queue: it has been due for an hour.
async fn spoil(db: &TestDb, queue: &str, columns: &str, values: &str, instance: &str) {
    let sql = db.schema().sql(&format!(
        "insert into {{schema}}.{queue} (instance_id, visible_at, work_item{columns})
         select $1, now() - interval '1 h', text{values} from unnest($2::text[]) text"
    ));
    sqlx::query(&sql).bind(instance).bind(&GARBAGE[..]).execute(db.database().pool()).await.expect("insert");
}

async fn left(db: &TestDb, queue: &str) -> i64 {
    let sql = db.schema().sql(&format!("select count(*) from {{schema}}.{queue}"));
    sqlx::query_scalar(&sql).fetch_one(db.database().pool()).await.expect("count")
}

/// Activities that cannot be read are dropped, and those after them executed.
#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_activity_does_not_block_the_queue() {
    let Fixture { db, provider } = Fixture::new().await;
    spoil(&db, "worker_queue", ", execution_id, activity_id", ", 1, 2", "count-0").await;
    let load = Load::start(&provider).await;
    load.complete(ORCHESTRATIONS).await;
    assert_eq!(left(&db, "worker_queue").await, 0);
    load.stop().await;
}

/// Messages that cannot be read to an instance that does not exist block nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_message_to_a_missing_instance_does_not_block_the_queue() {
    let Fixture { db, provider } = Fixture::new().await;
    spoil(&db, "orchestrator_queue", "", "", "unknown").await;
    let load = Load::start(&provider).await;
    load.complete(ORCHESTRATIONS).await;
}

/// Unreadable messages are removed with the next turn of their instance, which continues as if they had never come; so
/// do other instances.
/// An orchestration waits for an event; garbage comes before it.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_message_does_not_stall_its_instance() {
    let Fixture { db, provider } = Fixture::new().await;
    let orchestrations = OrchestrationRegistry::builder()
        .register("Wait", |ctx: OrchestrationContext, _: String| async move {
            ctx.set_custom_status("waiting");
            Ok(ctx.schedule_wait("event").await)
        })
        .build();
    let activities = ActivityRegistry::builder().build();
    let store: Arc<dyn Provider> = Arc::new(provider.clone());
    let runtime = Runtime::start_with_options(store.clone(), activities, orchestrations, four_each()).await;
    let client = Client::new(store);
    for instance in ["spoilt", "other"] {
        client.start_orchestration(instance, "Wait", "").await.expect("started");
        let waits = provider.wait_for_status_change(instance, 0, PATIENCE).await.expect("an answer");
        assert!(matches!(waits, Some(OrchestrationStatus::Running { .. })), "{waits:?}");
    }
    spoil(&db, "orchestrator_queue", "", "", "spoilt").await;
    eventually("the garbage is gone", async || left(&db, "orchestrator_queue").await == 0).await;
    for instance in ["spoilt", "other"] {
        client.raise_event(instance, "event", "data").await.expect("raised");
        let ended = provider.wait_for_completion(instance, PATIENCE).await.expect("an answer");
        assert!(matches!(&ended, Some(OrchestrationStatus::Completed { output, .. }) if output == "data"), "{ended:?}");
        consistency::check(instance, 1, &provider.read(instance).await.expect("its history"));
    }
    runtime.shutdown(None).await;
}
