//! Fan-out and fan-in.

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, EventKind, OrchestrationContext, OrchestrationRegistry};
use tokio::sync::Barrier;
use tokio::time::sleep;

use super::{Role, Two, WORKERS};

/// Schedules as many activities as its input says, and joins their results.
async fn fan_out(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let count: usize = input.parse().map_err(|error| format!("{error}"))?;
    let activities = (0..count).map(|number| ctx.schedule_activity("work", number.to_string())).collect();
    let results: Result<Vec<String>, String> = ctx.join(activities).await.into_iter().collect();
    Ok(results?.join(" "))
}

fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder().register("fan out", fan_out).build()
}

/// The activities of one orchestration are executed by all runtimes there are, at the same time.
/// They wait for each other, and are as many as both runtimes together can execute: one alone would wait for ever.
#[tokio::test(flavor = "multi_thread")]
async fn activities_of_one_orchestration_run_in_both_processes_at_once() {
    let met = Arc::new(Barrier::new(2 * WORKERS));
    let role = |process: &'static str| {
        let met = met.clone();
        let work = move |_: ActivityContext, _: String| {
            let met = met.clone();
            async move {
                met.wait().await;
                Ok(process.to_owned())
            }
        };
        Role::new(ActivityRegistry::builder().register("work", work).build(), orchestrations())
    };
    let two = Two::with(role("here"), role("there")).await;
    two.here.begin("fan", "fan out", &(2 * WORKERS).to_string()).await;
    let output = two.output("fan").await;
    let there = output.split(' ').filter(|process| *process == "there").count();
    assert_eq!(there, WORKERS, "{output}");
    assert_eq!(two.finish().await, 1);
}

/// Results come in the order of scheduling, whichever worker executes the activities and in whatever order they end.
/// Later activities are faster; forty orchestrations run side by side, started from both sides.
#[tokio::test(flavor = "multi_thread")]
async fn results_are_joined_in_the_order_of_scheduling() {
    const ORCHESTRATIONS: usize = 40;
    const ACTIVITIES: u64 = 5;
    let work = |_: ActivityContext, input: String| async move {
        let number: u64 = input.parse().map_err(|error| format!("{error}"))?;
        sleep(Duration::from_millis(ACTIVITIES - number)).await;
        Ok(number.to_string())
    };
    let activities = ActivityRegistry::builder().register("work", work).build();
    let two = Two::start(activities, orchestrations()).await;
    for number in 0..ORCHESTRATIONS {
        let from = if number % 2 == 0 { &two.here } else { &two.there };
        from.begin(&format!("fan-{number}"), "fan out", &ACTIVITIES.to_string()).await;
    }
    for number in 0..ORCHESTRATIONS {
        let instance = format!("fan-{number}");
        assert_eq!(two.output(&instance).await, "0 1 2 3 4", "{instance}");
        let history = two.history(&instance, 1).await;
        let completed = history.iter().filter(|event| matches!(event.kind, EventKind::ActivityCompleted { .. }));
        assert_eq!(completed.count() as u64, ACTIVITIES);
    }
    assert_eq!(two.finish().await, ORCHESTRATIONS);
}
