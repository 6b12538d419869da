//! A process that dies while it holds work: another one takes it over when the lease has ended.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use reveille_durable::PostgresProvider;
use tokio::time::Instant;

use super::process::{Process, child};
use super::{LEASE, PATIENCE, SHORT_LEASE, connected, four_each};
use crate::calls::{Done, ack, activity, completion, fetch, fetch_work, identity, send, send_work, start};
use crate::consistency;
use crate::fixture::Fixture;

/// How much earlier than by this process's count a lease may end: it began when the other process's claim was
/// committed, which was known here a little later.
const EARLY: Duration = Duration::from_millis(500);

/// A turn and an activity of a process that was killed between claim and ack are available to another one when their
/// leases have ended, and not before; the dead process's tokens are invalid from then on.
/// This test starts itself as another process, which claims, prints its tokens, and is killed.
#[tokio::test(flavor = "multi_thread")]
async fn claims_of_a_killed_process_are_available_when_their_leases_end() {
    const ME: &str = "killed::claims_of_a_killed_process_are_available_when_their_leases_end";
    if let Some(child) = child().await {
        let (item, turn, _) = fetch(&child.provider, SHORT_LEASE).await;
        let (work, token, _) = fetch_work(&child.provider, SHORT_LEASE).await;
        assert_eq!((item.instance.as_str(), identity(&work)), ("turn", ("work", 1)));
        child.say(&turn);
        child.say(&token);
        return std::future::pending().await;
    }
    let Fixture { db, provider } = Fixture::new().await;
    connected(&provider).await;
    send(&provider, start("turn", "")).await;
    send_work(&provider, activity("work", 1)).await;
    let other = Process::start(&db, ME, &[]);
    let (turn, token) = (other.said(0).await, other.said(1).await);
    let claimed = Instant::now();
    other.kill().await;

    let (item, new_turn, attempt) = fetch(&provider, LEASE).await;
    assert_eq!((item.instance.as_str(), attempt), ("turn", 2));
    let (work, new_token, attempt) = fetch_work(&provider, LEASE).await;
    assert_eq!((identity(&work), attempt), (("work", 1), 2));
    let waited = claimed.elapsed();
    assert!(waited + EARLY > SHORT_LEASE, "after {waited:?}, while the lease of {SHORT_LEASE:?} was still running");

    let dead = ack(&provider, &turn, Done::first("turn", "dead")).await.expect_err("the token of the dead");
    assert!(!dead.is_retryable(), "{dead}");
    let dead = provider.ack_work_item(&token, Some(completion("work", 1, "dead"))).await.expect_err("another");
    assert!(!dead.is_retryable(), "{dead}");
    ack(&provider, &new_turn, Done::first("turn", "alive")).await.expect("the living");
    provider.ack_work_item(&new_token, None).await.expect("the living");
}

/// An orchestration whose activity died with its process completes in another one.
/// Another process starts the activity, reports that, and is killed; here the same activity ends.
#[tokio::test(flavor = "multi_thread")]
async fn an_orchestration_outlives_the_process_that_worked_on_it() {
    const ME: &str = "killed::an_orchestration_outlives_the_process_that_worked_on_it";
    if let Some(child) = child().await {
        let provider = child.provider.clone();
        let child = Arc::new(child);
        let activities = ActivityRegistry::builder().register("Work", move |_: ActivityContext, input: String| {
            child.say(&input);
            std::future::pending()
        });
        let _runtime = runtime(&provider, activities.build()).await;
        return std::future::pending().await;
    }
    let Fixture { db, provider } = Fixture::new().await;
    let client = Client::new(Arc::new(provider.clone()));
    let other = Process::start(&db, ME, &[]);
    client.start_orchestration("i", "Two", "x").await.expect("started");
    assert_eq!(other.said(0).await, "x");
    other.kill().await;

    let activities = ActivityRegistry::builder()
        .register("Work", |_: ActivityContext, input: String| async move { Ok(format!("{input}x")) });
    let runtime = runtime(&provider, activities.build()).await;
    let ended = provider.wait_for_completion("i", PATIENCE).await.expect("an answer");
    assert!(matches!(&ended, Some(OrchestrationStatus::Completed { output, .. }) if output == "xxx"), "{ended:?}");
    consistency::check("i", 1, &provider.read("i").await.expect("its history"));
    runtime.shutdown(None).await;
}

/// Two activities in a row.
async fn runtime(provider: &PostgresProvider, activities: ActivityRegistry) -> Arc<Runtime> {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Two", |ctx: OrchestrationContext, input: String| async move {
            let once = ctx.schedule_activity("Work", input).await?;
            ctx.schedule_activity("Work", once).await
        })
        .build();
    Runtime::start_with_options(Arc::new(provider.clone()), activities, orchestrations, four_each()).await
}
