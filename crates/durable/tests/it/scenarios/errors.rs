//! Errors, and what orchestrations do about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use duroxide::runtime::UnregisteredBackoffConfig;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{BackoffStrategy, ErrorDetails, EventKind, OrchestrationContext, OrchestrationRegistry, RetryPolicy};

use super::{Role, Two};

/// An activity's error is the orchestration's to handle; unhandled it is how the orchestration ends.
/// One orchestration undoes what it did before, the other gives up.
#[tokio::test(flavor = "multi_thread")]
async fn an_activitys_error_is_compensated_or_ends_the_orchestration() {
    let careful = |ctx: OrchestrationContext, _: String| async move {
        let booked = ctx.schedule_activity("book", "flight").await?;
        match ctx.schedule_activity("pay", "").await {
            Ok(paid) => Ok(paid),
            Err(error) => Ok(format!("{error}; {}", ctx.schedule_activity("undo", booked).await?)),
        }
    };
    let careless = |ctx: OrchestrationContext, _: String| async move { ctx.schedule_activity("pay", "").await };
    let activities = ActivityRegistry::builder()
        .register("book", |_, what: String| async move { Ok(what) })
        .register("pay", |_, _: String| async move { Err("no money".to_owned()) })
        .register("undo", |_, what: String| async move { Ok(format!("{what} undone")) })
        .build();
    let orchestrations =
        OrchestrationRegistry::builder().register("careful", careful).register("careless", careless).build();
    let two = Two::start(activities, orchestrations).await;
    two.here.begin("careful", "careful", "").await;
    two.there.begin("careless", "careless", "").await;
    assert_eq!(two.output("careful").await, "no money; flight undone");
    let details = two.failure("careless").await;
    assert!(
        matches!(&details, ErrorDetails::Application { message, .. } if message.contains("no money")),
        "{details:?}"
    );
    assert_eq!(two.finish().await, 2);
}

/// An activity is retried as often as the policy says, with its pauses, in whichever process; then its error counts.
/// One succeeds at the third attempt, one never; the attempts are counted.
#[tokio::test(flavor = "multi_thread")]
async fn an_activity_is_retried_as_its_policy_says() {
    let tries = |ctx: OrchestrationContext, name: String| async move {
        let pause = BackoffStrategy::Fixed { delay: Duration::from_millis(20) };
        ctx.schedule_activity_with_retry(name, "", RetryPolicy::new(4).with_backoff(pause)).await
    };
    let (third, never) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counted = |attempts: Arc<AtomicU32>, good_from: u32| {
        move |_, _: String| {
            let attempt = attempts.fetch_add(1, Ordering::SeqCst) + 1;
            async move { if attempt >= good_from { Ok(attempt.to_string()) } else { Err(format!("attempt {attempt}")) } }
        }
    };
    let activities = ActivityRegistry::builder()
        .register("third", counted(third.clone(), 3))
        .register("never", counted(never.clone(), u32::MAX))
        .build();
    let two = Two::start(activities, OrchestrationRegistry::builder().register("tries", tries).build()).await;
    two.here.begin("third", "tries", "third").await;
    two.there.begin("never", "tries", "never").await;
    assert_eq!(two.output("third").await, "3");
    assert!(two.failure("never").await.display_message().contains("attempt 4"));
    assert_eq!((third.load(Ordering::SeqCst), never.load(Ordering::SeqCst)), (3, 4));
    let history = two.history("never", 1).await;
    let failed = history.iter().filter(|event| matches!(event.kind, EventKind::ActivityFailed { .. }));
    assert_eq!(failed.count(), 4);
    assert_eq!(two.finish().await, 2);
}

/// A panic ends one orchestration and no other.
/// One panics in an activity, one by itself; a third goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_ends_one_orchestration_only() {
    let calls = |ctx: OrchestrationContext, name: String| async move { ctx.schedule_activity(name, "").await };
    let panics = |_: OrchestrationContext, input: String| async move {
        assert!(input.is_empty(), "an orchestration panics");
        Ok(input)
    };
    let activity = |_, input: String| async move {
        assert!(!input.is_empty(), "an activity panics");
        Ok(input)
    };
    let activities = ActivityRegistry::builder()
        .register("panics", activity)
        .register("works", |_, _: String| async move { Ok("well".to_owned()) })
        .build();
    let orchestrations = OrchestrationRegistry::builder().register("calls", calls).register("panics", panics).build();
    let two = Two::start(activities, orchestrations).await;
    two.here.begin("within", "calls", "panics").await;
    two.here.begin("itself", "panics", "now").await;
    two.here.begin("well", "calls", "works").await;
    assert!(two.failure("within").await.display_message().contains("an activity panics"));
    assert!(two.failure("itself").await.display_message().contains("an orchestration panics"));
    assert_eq!(two.output("well").await, "well");
    assert_eq!(two.finish().await, 3);
}

/// An unregistered activity is retried and then fails its orchestration, by name; one that the other process has runs
/// there.
/// An activity that only the other process has registered, and one that neither has.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_activities_fail_and_those_of_the_other_process_run() {
    let calls = |ctx: OrchestrationContext, name: String| async move { ctx.schedule_activity(name, "").await };
    let role = |activities: ActivityRegistry, attempts: u32| {
        let mut role = Role::new(activities, OrchestrationRegistry::builder().register("calls", calls).build());
        role.options.max_attempts = attempts;
        let soon = Duration::from_millis(20);
        role.options.unregistered_backoff = UnregisteredBackoffConfig { base_delay: soon, max_delay: soon };
        role
    };
    let known = || ActivityRegistry::builder().register("known", |_, _: String| async move { Ok("found".to_owned()) });
    let mut two = Two::with(role(ActivityRegistry::builder().build(), 1_000), role(known().build(), 1_000)).await;
    two.here.begin("found", "calls", "known").await;
    assert_eq!(two.output("found").await, "found");

    two.here.replace(role(known().build(), 5)).await;
    two.there.replace(role(known().build(), 5)).await;
    two.here.begin("lost", "calls", "unknown").await;
    let details = two.failure("lost").await;
    assert!(matches!(details, ErrorDetails::Poison { .. }), "{details:?}");
    assert_eq!(two.finish().await, 2);
}
