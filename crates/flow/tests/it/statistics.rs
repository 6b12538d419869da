//! Statistics of task graphs, and that reading them costs nothing while idle.

use std::time::Duration;

use reveille_flow::{Figures, Flow};
use reveille_pg::testing::eventually;

use crate::fixture::{Fixture, NAMESPACE, submission};

/// Waits for statistics that fulfil a condition. They are read again only after a pause, so the test repeats the
/// request.
async fn figures(flow: &Flow, top: u32, wanted: impl Fn(&Figures) -> bool) -> Figures {
    let mut found = Figures::default();
    eventually("the figures are as wanted", async || {
        found = flow.figures(top).await.map(|aged| (*aged.value).clone()).unwrap_or_default();
        wanted(&found)
    })
    .await;
    found
}

fn amount(figures: &[reveille_flow::StateFigures], namespace: Option<&str>, state: &str) -> u64 {
    figures.iter().find(|one| one.namespace.as_deref() == namespace && one.state == state).map_or(0, |one| one.amount)
}

/// Tasks and steps are counted by state, and the age of the oldest ready step is reported.
/// Of three tasks one is complete, one has its step with a worker and one waits; the last is made older.
#[tokio::test]
async fn tasks_and_steps_are_counted_by_state() {
    let flow = Fixture::with("[{name: a, handler: {callable: h}}]").await;
    for _ in 0..3 {
        flow.task().await;
    }
    let done = flow.next().await;
    flow.complete(&done, serde_json::json!(1)).await;
    let _held = flow.next().await;
    let older = flow.db.schema().sql(
        "update {schema}.step set due_at = due_at - interval '100 s', ready_at = ready_at - interval '100 s' where state = 'ready'",
    );
    sqlx::query(&older).execute(flow.db.database().pool()).await.expect("made older");
    // Changed in the table only, so this process needs an event to read again.
    flow.task().await;

    let here = Some(NAMESPACE);
    let found = figures(&flow, 10, |found| amount(&found.tasks, here, "open") == 3).await;
    assert_eq!(amount(&found.tasks, here, "complete"), 1);
    assert_eq!((amount(&found.steps, here, "ready"), amount(&found.steps, here, "in_progress")), (2, 1));
    let (namespace, oldest) = found.oldest_ready.first().expect("a step waits");
    assert!(namespace.as_deref() == here && *oldest >= Duration::from_secs(100), "{oldest:?}");
    assert_eq!(found.investigations, 0);
    assert!(found.failed.iter().all(|(_, tasks)| *tasks == 0));

    // An event causes another read, this time without names.
    flow.db.database().session().await.expect("a session").finish().await.expect("given back");
    let summed = figures(&flow, 0, |found| amount(&found.tasks, None, "open") == 3).await;
    assert_eq!(amount(&summed.steps, None, "ready"), 2);
}

/// Steps of open tasks are counted in every state, and open tasks by the reason of their wait; ended tasks are not
/// counted.
/// One task has a step in progress after a complete one, one waits for a retry, one for its first attempt, and one has
/// ended. A fourth has failed beside a step in progress, whose lease the engine watches.
#[tokio::test]
async fn every_state_of_open_tasks_is_counted() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}, {name: c, dependencies: [b]}]").await;
    flow.template("retried", "[{name: r, retry: {backoff_base_ms: 3600000, max_backoff_ms: 3600000}}]").await;
    flow.template("failing", "[{name: f}, {name: g}]").await;
    flow.task().await;
    flow.waves().await;
    flow.task().await;
    flow.complete(&flow.next().await, serde_json::json!(1)).await;
    let _held = flow.next().await;
    flow.submit(submission("retried", serde_json::json!({}))).await.expect("a task");
    flow.fail(&flow.next().await, true).await;
    flow.submit(submission("failing", serde_json::json!({}))).await.expect("a task");
    let both = flow.now(2).await;
    flow.fail(&both[0], false).await;
    flow.task().await;

    let here = Some(NAMESPACE);
    let found = figures(&flow, 10, |found| amount(&found.tasks, here, "open") == 4).await;
    for (state, steps) in [
        ("pending", 1 + 2),
        ("ready", 1),
        ("in_progress", 2),
        ("waiting_for_retry", 1),
        ("complete", 1),
        ("error", 1),
        ("cancelled", 0),
        ("resolved_manually", 0),
    ] {
        assert_eq!(amount(&found.steps, here, state), steps, "{state}: {:?}", found.steps);
    }
    for (state, tasks) in [("steps_in_process", 2), ("waiting_for_retry", 1), ("enqueuing_steps", 1)] {
        assert_eq!(amount(&found.open_tasks, here, state), tasks, "{state}: {:?}", found.open_tasks);
    }
    assert_eq!(found.open_tasks.iter().map(|one| one.amount).sum::<u64>(), 4);
}
