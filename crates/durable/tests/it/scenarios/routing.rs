//! Activities that only some workers take.

use duroxide::providers::TagFilter;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use super::{Role, Two};

/// Says which worker executed it, and by which tag.
async fn tells(ctx: ActivityContext, _: String) -> Result<String, String> {
    let process = if ctx.worker_id().ends_with("there") { "there" } else { "here" };
    Ok(format!("{}:{process}", ctx.tag().unwrap_or("-")))
}

fn role(process: &str, filter: TagFilter) -> Role {
    let mixed = |ctx: OrchestrationContext, _: String| async move {
        let mut calls = Vec::new();
        for tag in [None, Some("gpu"), None, Some("disk"), Some("gpu")] {
            let activity = ctx.schedule_activity("tells", "");
            calls.push(if let Some(tag) = tag { activity.with_tag(tag) } else { activity });
        }
        let results: Result<Vec<String>, String> = ctx.join(calls).await.into_iter().collect();
        Ok(results?.join(" "))
    };
    let activities = ActivityRegistry::builder().register("tells", tells).build();
    let mut role = Role::new(activities, OrchestrationRegistry::builder().register("mixed", mixed).build());
    role.options.worker_tag_filter = filter;
    role.called(process)
}

/// Activities go where their tag is taken, and nowhere else.
/// One runtime takes what has no tag, the other two tags; ten orchestrations mix all of them.
#[tokio::test(flavor = "multi_thread")]
async fn activities_go_where_their_tag_is_taken() {
    let two = Two::with(role("here", TagFilter::DefaultOnly), role("there", TagFilter::tags(["gpu", "disk"]))).await;
    for number in 0..10 {
        two.here.begin(&format!("mixed-{number}"), "mixed", "").await;
    }
    for number in 0..10 {
        let output = two.output(&format!("mixed-{number}")).await;
        assert_eq!(output, "-:here gpu:there -:here disk:there gpu:there");
    }
    assert_eq!(two.finish().await, 10);
}

/// A runtime without workers leaves every activity to the other, which takes all of them; it takes turns all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_without_workers_leaves_activities_to_others() {
    let two = Two::with(role("here", TagFilter::None), role("there", TagFilter::Any)).await;
    two.here.begin("mixed", "mixed", "").await;
    assert_eq!(two.output("mixed").await, "-:there gpu:there -:there disk:there gpu:there");
    assert_eq!(two.finish().await, 1);
}

/// An activity whose tag no worker accepts waits, blocks nothing, and runs as soon as a worker accepts it.
/// The one runtime is replaced by one that takes the missing tag.
#[tokio::test(flavor = "multi_thread")]
async fn an_activity_waits_for_a_worker_that_accepts_its_tag() {
    let default_and = |tags: &[&str]| TagFilter::default_and(tags.iter().copied());
    let mut two = Two::with(role("here", TagFilter::DefaultOnly), role("there", default_and(&["gpu"]))).await;
    two.here.begin("mixed", "mixed", "").await;
    let disk = "select count(*) from {schema}.worker_queue where locked_until is null";
    crate::fixture::eventually("only the untaken is left", async || {
        let activities = two.count("select count(*) from {schema}.worker_queue").await;
        activities == 1 && two.count(disk).await == 1
    })
    .await;
    two.here.replace(role("here", default_and(&["disk"]))).await;
    let output = two.output("mixed").await;
    assert!(output.contains("disk:here") && output.contains("gpu:there"), "{output}");
    assert_eq!(two.finish().await, 1);
}
