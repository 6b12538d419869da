//! Item 16: an idle runtime sends no statements.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{ObservabilityConfig, Runtime, RuntimeOptions};
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry};
use reveille_durable::LongPollConfig;
use reveille_pg::testing::TestDb;
use tokio::time::sleep;

use super::{connected_as, until_idle};
use crate::fixture::{PATIENCE, eventually};

/// How long idleness is watched: longer than the interval of the listener's heartbeats, so that one is included.
const WATCHED: Duration = Duration::from_secs(18);
/// How long a dispatcher waits before it comes back, so that each does so several times.
const COMES_BACK: Duration = Duration::from_secs(5);
/// How often the runtime asks to renew sessions, to clean them up, and for its gauges: more often than by default, so
/// that it is many times.
const ASKED_EVERY: Duration = Duration::from_secs(2);

/// The options of a runtime that is watched.
fn watched() -> RuntimeOptions {
    RuntimeOptions {
        orchestration_concurrency: 4,
        worker_concurrency: 4,
        dispatcher_long_poll_timeout: COMES_BACK,
        // If the last poll claimed something, one more follows when its lease would have expired: before the watch begins.
        worker_lock_timeout: ASKED_EVERY,
        session_lock_timeout: ASKED_EVERY * 2,
        session_cleanup_interval: ASKED_EVERY,
        observability: ObservabilityConfig { gauge_poll_interval: ASKED_EVERY, ..ObservabilityConfig::default() },
        ..RuntimeOptions::default()
    }
}

/// A runtime of four and four dispatchers that has worked and has nothing to do sends no statement.
/// The server counts the statements of its role, with the default options of long polling, except that aggressive
/// polling after a wake-up that a busy machine delays is short.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_runtime_sends_no_statement() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let config = LongPollConfig { aggressive_poll_duration: Duration::from_secs(1), ..LongPollConfig::enabled() };
    let provider = connected_as(&role, &db, config).await;
    let greets = |ctx: OrchestrationContext, name: String| async move { ctx.schedule_activity("greet", name).await };
    let activities =
        ActivityRegistry::builder().register("greet", |_, name: String| async move { Ok(format!("hello {name}")) });
    let orchestrations = OrchestrationRegistry::builder().register("greets", greets);
    let store = Arc::new(provider.clone());
    let runtime =
        Runtime::start_with_options(store.clone(), activities.build(), orchestrations.build(), watched()).await;

    // Warm-up: it has worked, and has asked once for the sessions that it has not.
    let client = Client::new(store);
    for number in 0..20 {
        client.start_orchestration(format!("greets-{number}"), "greets", "you").await.expect("started");
    }
    for number in 0..20 {
        let ended = provider.wait_for_completion(&format!("greets-{number}"), PATIENCE).await.expect("waiting");
        ended.expect("it has ended");
    }
    eventually("sessions have been asked for", async || {
        // By how they begin: PostgreSQL 18 leaves out the comment that names them.
        let asked = async |beginning| role.calls_matching(beginning).await > 0;
        asked("with in_use as").await && asked("with orphaned as").await
    })
    .await;
    until_idle(&role).await;
    // The gauges read the tables once more after the last activity.
    let mut calls = role.calls().await;
    eventually("the gauges are read", async || {
        sleep(ASKED_EVERY * 3).await;
        let now = role.calls().await;
        std::mem::replace(&mut calls, now) == now
    })
    .await;

    let before: HashMap<String, i64> = role.statements().await.into_iter().collect();
    sleep(WATCHED).await;
    let mut since = role.statements().await;
    // After a notification with a due time, the listener reads the server's clock with its next heartbeat, once.
    since.retain(|(statement, calls)| {
        let more = calls - before.get(statement).copied().unwrap_or(0);
        more > i64::from(statement.contains("clock_timestamp()"))
    });
    assert_eq!(since, [], "statements of an idle runtime");
    assert!(before.keys().any(|statement| statement.contains("claim_instances(")), "claims are counted");
    runtime.shutdown(Some(0)).await;
}
