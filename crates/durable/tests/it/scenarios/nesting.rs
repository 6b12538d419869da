//! Orchestrations that start others.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{EventKind, OrchestrationContext, OrchestrationRegistry};

use super::Two;

/// Splits a range in halves, down to single numbers, and sums it up.
async fn sum(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let (from, to): (u64, u64) = serde_json::from_str(&input).map_err(|error| error.to_string())?;
    if to - from == 1 {
        return ctx.schedule_activity("number", from.to_string()).await;
    }
    let middle = (from + to) / 2;
    let half = |from: u64, to: u64| ctx.schedule_sub_orchestration("sum", format!("[{from},{to}]"));
    let (low, high) = ctx.join2(half(from, middle), half(middle, to)).await;
    let number = |text: String| text.parse::<u64>().map_err(|error| error.to_string());
    Ok((number(low?)? + number(high?)?).to_string())
}

fn activities() -> ActivityRegistry {
    ActivityRegistry::builder().register("number", |_, input: String| async move { Ok(input) }).build()
}

/// A tree of orchestrations, four deep, is worked on by both runtimes and comes together in its root.
/// The family is known to the admin side: every child has its parent.
#[tokio::test(flavor = "multi_thread")]
async fn a_tree_of_orchestrations_comes_together_in_its_root() {
    const LEAVES: u64 = 8;
    let orchestrations = OrchestrationRegistry::builder().register("sum", sum).build();
    let two = Two::start(activities(), orchestrations).await;
    two.there.begin("root", "sum", &format!("[0,{LEAVES}]")).await;
    assert_eq!(two.output("root").await, (0..LEAVES).sum::<u64>().to_string());

    let tree = two.here.client.get_instance_tree("root").await.expect("its tree");
    assert_eq!(tree.all_ids.len() as u64, 2 * LEAVES - 1, "{tree:?}");
    for instance in tree.all_ids.iter().filter(|instance| *instance != "root") {
        let parent = two.here.client.get_instance_info(instance).await.expect("a child").parent_instance_id;
        assert!(parent.is_some_and(|parent| tree.all_ids.contains(&parent)), "{instance}");
    }
    assert_eq!(two.finish().await as u64, 2 * LEAVES - 1);
}

/// A child's failure is its parent's to handle, and children can have names of the parent's choice.
/// One child fails, one does not; the parent returns both results.
#[tokio::test(flavor = "multi_thread")]
async fn a_parent_gets_the_failure_of_a_child_and_continues() {
    let parent = |ctx: OrchestrationContext, _: String| async move {
        let good = ctx.schedule_sub_orchestration_with_id("child", "good-child", "good").await;
        let bad = ctx.schedule_sub_orchestration_with_id("child", "bad-child", "bad").await;
        Ok(format!("{good:?} {bad:?}"))
    };
    let child = |_: OrchestrationContext, input: String| async move {
        if input == "good" { Ok("well".to_owned()) } else { Err("broken".to_owned()) }
    };
    let orchestrations = OrchestrationRegistry::builder().register("parent", parent).register("child", child).build();
    let two = Two::start(activities(), orchestrations).await;
    two.here.begin("parent", "parent", "").await;
    let output = two.output("parent").await;
    assert!(output.starts_with("Ok(\"well\") Err(") && output.contains("broken"), "{output}");
    assert_eq!(two.output("good-child").await, "well");
    assert!(two.failure("bad-child").await.display_message().contains("broken"));
    assert_eq!(two.finish().await, 3);
}

/// A detached orchestration outlives the one that started it, and has no parent.
/// The first ends at once; the second ends when an event is raised from the other side.
#[tokio::test(flavor = "multi_thread")]
async fn a_detached_orchestration_outlives_its_starter() {
    let starter = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_orchestration("long", "detached", "");
        Ok(String::new())
    };
    let long = |ctx: OrchestrationContext, _: String| async move { Ok(ctx.schedule_wait("go").await) };
    let orchestrations = OrchestrationRegistry::builder().register("starter", starter).register("long", long).build();
    let two = Two::start(activities(), orchestrations).await;
    two.here.begin("starter", "starter", "").await;
    two.output("starter").await;
    two.until("detached", "it waits", |kind| matches!(kind, EventKind::ExternalSubscribed { .. })).await;
    two.there.client.raise_event("detached", "go", "gone").await.expect("raised");
    assert_eq!(two.output("detached").await, "gone");
    let info = two.there.client.get_instance_info("detached").await.expect("it is there");
    assert_eq!(info.parent_instance_id, None);
    assert_eq!(two.finish().await, 2);
}
