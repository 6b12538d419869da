//! Pruning executions and deleting instances, while both runtimes go on.

use std::sync::Arc;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, ClientError, EventKind, InstanceFilter, OrchestrationContext, OrchestrationRegistry, PruneOptions,
};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Two;
use crate::fixture::{PATIENCE, eventually};

fn keep(last: u32) -> PruneOptions {
    PruneOptions { keep_last: Some(last), ..PruneOptions::default() }
}

/// Old executions can be pruned while the orchestration runs in the other process; the current one stays, and what
/// comes after it is as before.
/// A loop is pruned after every round.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_loop_is_pruned() {
    const ROUNDS: u64 = 5;
    let round = |ctx: OrchestrationContext, input: String| async move {
        let number: u64 = input.parse().map_err(|error| format!("{error}"))?;
        ctx.schedule_wait("next").await;
        if number == ROUNDS { Ok(input) } else { ctx.continue_as_new((number + 1).to_string()).await }
    };
    let two = Two::without_activities(OrchestrationRegistry::builder().register("round", round).build()).await;
    two.here.begin("loop", "round", "1").await;
    for number in 1..=ROUNDS {
        eventually("the round waits", async || {
            let history = two.there.client.read_execution_history("loop", number).await.unwrap_or_default();
            history.iter().any(|event| matches!(event.kind, EventKind::ExternalSubscribed { .. }))
        })
        .await;
        let pruned = two.there.client.prune_executions("loop", keep(1)).await.expect("pruned");
        assert_eq!(pruned.executions_deleted, u64::from(number > 1), "{pruned:?}");
        assert_eq!(two.here.client.list_executions("loop").await.expect("its executions"), [number]);
        two.here.client.raise_event("loop", "next", "").await.expect("raised");
    }
    assert_eq!(two.output("loop").await, ROUNDS.to_string());
    assert_eq!(two.finish().await, 1);
}

/// A tree that has ended is deleted as a whole, from its root only; its name can be used again, and nothing of the old
/// is left.
/// The second life has another history; the cache of neither process may remember the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_tree_leaves_nothing_and_its_name_is_free() {
    let parent = |ctx: OrchestrationContext, input: String| async move {
        ctx.set_kv_value("life", input.clone());
        ctx.set_custom_status(input.clone());
        ctx.schedule_sub_orchestration_with_id("child", "child", input).await
    };
    let child = |_: OrchestrationContext, input: String| async move { Ok(input) };
    let orchestrations = OrchestrationRegistry::builder().register("parent", parent).register("child", child).build();
    let two = Two::without_activities(orchestrations).await;
    for life in ["first", "second"] {
        two.here.begin("root", "parent", life).await;
        assert_eq!(two.output("root").await, life);
        let values = two.there.client.get_kv_all_values("root").await.expect("its values");
        assert_eq!(values.into_values().collect::<Vec<_>>(), [life]);
        let refused = two.there.client.delete_instance("child", false).await.expect_err("a child");
        assert!(matches!(refused, ClientError::CannotDeleteSubOrchestration { .. }), "{refused:?}");
        let deleted = two.there.client.delete_instance("root", false).await.expect("deleted");
        assert_eq!((deleted.instances_deleted, deleted.executions_deleted), (2, 2), "{deleted:?}");
        assert!(two.here.client.get_instance_info("child").await.is_err());
    }
    let left = "select (select count(*) from {schema}.history) + (select count(*) from {schema}.executions)
                     + (select count(*) from {schema}.kv_store) + (select count(*) from {schema}.kv_delta)";
    assert_eq!(two.count(left).await, 0);
    assert_eq!(two.finish().await, 0);
}

/// What runs is deleted by force only; then its activity is cancelled, its result is dropped, and the runtimes
/// continue.
/// The activity is under way; it answers after the deletion.
#[tokio::test(flavor = "multi_thread")]
async fn running_instances_are_deleted_by_force() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let work = {
        let (begun, go) = (begun.clone(), go.clone());
        move |_: ActivityContext, _: String| {
            let (begun, go) = (begun.clone(), go.clone());
            async move {
                begun.notify_one();
                go.notified().await;
                Ok(String::new())
            }
        }
    };
    let waits = |ctx: OrchestrationContext, _: String| async move { ctx.schedule_activity("work", "").await };
    let ends = |_: OrchestrationContext, _: String| async move { Ok(String::new()) };
    let orchestrations = OrchestrationRegistry::builder().register("waits", waits).register("ends", ends).build();
    let two = Two::start(ActivityRegistry::builder().register("work", work).build(), orchestrations).await;
    two.here.begin("doomed", "waits", "").await;
    timeout(PATIENCE, begun.notified()).await.expect("it begins");
    let refused = two.there.client.delete_instance("doomed", false).await.expect_err("it runs");
    assert!(matches!(refused, ClientError::InstanceStillRunning { .. }), "{refused:?}");
    two.there.client.delete_instance("doomed", true).await.expect("deleted");
    assert!(two.here.client.get_instance_info("doomed").await.is_err());
    go.notify_one();

    two.here.begin("after", "ends", "").await;
    two.output("after").await;
    assert!(two.there.client.get_instance_info("doomed").await.is_err(), "it did not come back");
    assert_eq!(two.finish().await, 1);
}

/// Many are deleted at once, those that have ended; what runs stays.
#[tokio::test(flavor = "multi_thread")]
async fn those_that_have_ended_are_deleted_together() {
    const ENDED: usize = 20;
    let ends = |_: OrchestrationContext, _: String| async move { Ok(String::new()) };
    let waits = |ctx: OrchestrationContext, _: String| async move { Ok(ctx.schedule_wait("go").await) };
    let orchestrations = OrchestrationRegistry::builder().register("ends", ends).register("waits", waits).build();
    let two = Two::without_activities(orchestrations).await;
    two.there.begin("runs", "waits", "").await;
    two.until("runs", "it waits", |kind| matches!(kind, EventKind::ExternalSubscribed { .. })).await;
    for number in 0..ENDED {
        two.here.begin(&format!("ends-{number}"), "ends", "").await;
    }
    for number in 0..ENDED {
        two.output(&format!("ends-{number}")).await;
    }
    let deleted = two.there.client.delete_instance_bulk(InstanceFilter::default()).await.expect("deleted");
    assert_eq!(deleted.instances_deleted, ENDED as u64);
    assert_eq!(two.here.client.list_all_instances().await.expect("the rest"), ["runs"]);
    two.there.client.raise_event("runs", "go", "on").await.expect("raised");
    assert_eq!(two.output("runs").await, "on");
    assert_eq!(two.finish().await, 1);
}
