//! Timers.

use std::time::{Duration, Instant};

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Either2, EventKind, OrchestrationContext, OrchestrationRegistry};

use super::Two;

/// Timers fire in the order of their due times, whatever the order they were made in, and none before its time.
#[tokio::test(flavor = "multi_thread")]
async fn timers_fire_in_the_order_they_are_due() {
    let timers = |ctx: OrchestrationContext, _: String| async move {
        let late = ctx.schedule_timer(Duration::from_millis(600));
        let early = ctx.schedule_timer(Duration::from_millis(200));
        let middle = ctx.schedule_timer(Duration::from_millis(400));
        ctx.join3(late, early, middle).await;
        Ok(String::new())
    };
    let two = Two::without_activities(OrchestrationRegistry::builder().register("timers", timers).build()).await;
    let since = Instant::now();
    for number in 0..5 {
        two.here.begin(&format!("timers-{number}"), "timers", "").await;
    }
    for number in 0..5 {
        let instance = format!("timers-{number}");
        two.output(&instance).await;
        assert!(since.elapsed() >= Duration::from_millis(600), "after {:?}", since.elapsed());
        let history = two.history(&instance, 1).await;
        let fired: Vec<(u64, u64)> = history
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::TimerFired { fire_at_ms } => Some((fire_at_ms, event.timestamp_ms)),
                _ => None,
            })
            .collect();
        assert_eq!(fired.len(), 3);
        assert!(fired.is_sorted(), "{fired:?}");
        assert!(fired.iter().all(|(due, at)| at >= due), "{fired:?}");
    }
    assert_eq!(two.finish().await, 5);
}

/// A timer outlives the process that made it.
/// The one runtime that there is makes timers and is stopped; the other starts only then, and they fire there.
#[tokio::test(flavor = "multi_thread")]
async fn a_timer_outlives_the_process_that_made_it() {
    let sleeps = |ctx: OrchestrationContext, _: String| async move {
        ctx.schedule_timer(Duration::from_millis(1_500)).await;
        Ok("awake".to_owned())
    };
    let mut two = Two::without_activities(OrchestrationRegistry::builder().register("sleeps", sleeps).build()).await;
    two.there.stop().await;
    two.here.begin("sleeps", "sleeps", "").await;
    two.until("sleeps", "it sleeps", |kind| matches!(kind, EventKind::TimerCreated { .. })).await;
    two.here.stop().await;
    two.there.resume().await;
    assert_eq!(two.output("sleeps").await, "awake");
    assert_eq!(two.finish().await, 1);
}

/// A timer bounds an activity: whichever is first wins, and a timer that has lost does no harm when it is due.
/// One activity is faster than its timer, one never ends; afterwards the orchestration waits until both timers are long
/// due.
#[tokio::test(flavor = "multi_thread")]
async fn a_timer_bounds_an_activity() {
    let bounds = |ctx: OrchestrationContext, _: String| async move {
        let mut won = Vec::new();
        for name in ["fast", "endless"] {
            let timer = ctx.schedule_timer(Duration::from_millis(500));
            won.push(match ctx.select2(ctx.schedule_activity(name, ""), timer).await {
                Either2::First(result) => result?,
                Either2::Second(()) => "too late".to_owned(),
            });
        }
        ctx.schedule_timer(Duration::from_millis(700)).await;
        Ok(won.join(", "))
    };
    let endless = |ctx: duroxide::ActivityContext, _: String| async move {
        ctx.cancelled().await;
        Err("cancelled".to_owned())
    };
    let activities = ActivityRegistry::builder()
        .register("fast", |_, _: String| async move { Ok("in time".to_owned()) })
        .register("endless", endless)
        .build();
    let two = Two::start(activities, OrchestrationRegistry::builder().register("bounds", bounds).build()).await;
    two.there.begin("bounds", "bounds", "").await;
    assert_eq!(two.output("bounds").await, "in time, too late");
    assert_eq!(two.finish().await, 1);
}
