//! Cancelling orchestrations, and what they were waiting for.

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, AppErrorKind, Either2, ErrorDetails, Event, EventKind, OrchestrationContext, OrchestrationRegistry,
};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Two;
use crate::fixture::PATIENCE;

/// An activity that ends only by being cancelled, and what it reports.
#[derive(Clone, Default)]
struct Endless {
    begun: Arc<Notify>,
    cancelled: Arc<Notify>,
}

impl Endless {
    fn activities(&self) -> ActivityRegistry {
        let endless = self.clone();
        let work = move |ctx: ActivityContext, _: String| {
            let endless = endless.clone();
            async move {
                endless.begun.notify_one();
                ctx.cancelled().await;
                endless.cancelled.notify_one();
                Err("cancelled".to_owned())
            }
        };
        ActivityRegistry::builder().register("endless", work).build()
    }

    async fn heard(what: &Notify) {
        timeout(PATIENCE, what.notified()).await.expect("notified");
    }
}

fn was_cancelled(details: &ErrorDetails, why: &str) -> bool {
    matches!(details, ErrorDetails::Application { kind: AppErrorKind::Cancelled { reason }, .. } if reason.contains(why))
}

fn count(history: &[Event], is_it: impl Fn(&EventKind) -> bool) -> usize {
    history.iter().filter(|event| is_it(&event.kind)).count()
}

/// Cancelling an orchestration ends it, and the activity it waits for is cancelled, in whatever process it runs.
/// It is cancelled twice, from both sides: the first reason counts, and the history knows of one.
#[tokio::test(flavor = "multi_thread")]
async fn cancelling_an_orchestration_stops_its_activity() {
    let endless = Endless::default();
    let waits = |ctx: OrchestrationContext, _: String| async move { ctx.schedule_activity("endless", "").await };
    let orchestrations = OrchestrationRegistry::builder().register("waits", waits).build();
    let two = Two::start(endless.activities(), orchestrations).await;
    two.here.begin("doomed", "waits", "").await;
    Endless::heard(&endless.begun).await;
    two.there.client.cancel_instance("doomed", "enough").await.expect("cancelled");
    let details = two.failure("doomed").await;
    assert!(was_cancelled(&details, "enough"), "{details:?}");
    Endless::heard(&endless.cancelled).await;

    two.here.client.cancel_instance("doomed", "again").await.expect("no harm");
    let history = two.history("doomed", 1).await;
    assert_eq!(count(&history, |kind| matches!(kind, EventKind::OrchestrationCancelRequested { .. })), 1);
    assert_eq!(count(&history, |kind| matches!(kind, EventKind::ActivityCancelRequested { .. })), 1);
    assert_eq!(two.finish().await, 1);
}

/// Cancelling a parent cancels its children, and theirs.
/// Three generations wait for an event that never comes.
#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_parent_cancels_its_descendants() {
    let generation = |ctx: OrchestrationContext, input: String| async move {
        let below: u32 = input.parse().map_err(|error| format!("{error}"))?;
        if below == 0 {
            return Ok(ctx.schedule_wait("never").await);
        }
        let id = format!("generation-{}", below - 1);
        ctx.schedule_sub_orchestration_with_id("generation", id, (below - 1).to_string()).await
    };
    let orchestrations = OrchestrationRegistry::builder().register("generation", generation).build();
    let two = Two::without_activities(orchestrations).await;
    two.there.begin("generation-2", "generation", "2").await;
    two.until("generation-0", "all wait", |kind| matches!(kind, EventKind::ExternalSubscribed { .. })).await;
    two.here.client.cancel_instance("generation-2", "enough").await.expect("cancelled");
    for generation in 0..3 {
        let details = two.failure(&format!("generation-{generation}")).await;
        assert!(
            matches!(details, ErrorDetails::Application { kind: AppErrorKind::Cancelled { .. }, .. }),
            "{details:?}"
        );
    }
    assert_eq!(two.finish().await, 3);
}

/// Cancelling what has ended, or never was, changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn cancelling_too_late_changes_nothing() {
    let ends = |_: OrchestrationContext, _: String| async move { Ok("done".to_owned()) };
    let two = Two::without_activities(OrchestrationRegistry::builder().register("ends", ends).build()).await;
    two.here.begin("ended", "ends", "").await;
    two.output("ended").await;
    let before = two.history("ended", 1).await;
    two.there.client.cancel_instance("ended", "late").await.expect("no harm");
    two.there.client.cancel_instance("unknown", "late").await.expect("no harm");
    two.here.begin("after", "ends", "").await;
    two.output("after").await;
    assert_eq!(two.output("ended").await, "done");
    assert_eq!(two.history("ended", 1).await, before);
    assert_eq!(two.finish().await, 2);
}

/// The loser of a race is cancelled: an activity is notified, a child ends; the orchestration continues with the
/// winner.
/// Both lose against an event raised from the other side.
#[tokio::test(flavor = "multi_thread")]
async fn losers_of_a_race_are_cancelled() {
    let endless = Endless::default();
    let races = |ctx: OrchestrationContext, _: String| async move {
        let (work, go) = (ctx.schedule_activity("endless", ""), ctx.schedule_wait("first"));
        let Either2::Second(first) = ctx.select2(work, go).await else { return Err("an activity won".to_owned()) };
        let child = ctx.schedule_sub_orchestration_with_id("waits", "loser", "");
        let Either2::Second(second) = ctx.select2(child, ctx.schedule_wait("second")).await else {
            return Err("a child won".to_owned());
        };
        Ok(format!("{first} {second}"))
    };
    let waits = |ctx: OrchestrationContext, _: String| async move { Ok(ctx.schedule_wait("never").await) };
    let orchestrations = OrchestrationRegistry::builder().register("races", races).register("waits", waits).build();
    let two = Two::start(endless.activities(), orchestrations).await;
    two.here.begin("races", "races", "").await;
    Endless::heard(&endless.begun).await;
    two.there.client.raise_event("races", "first", "one").await.expect("raised");
    Endless::heard(&endless.cancelled).await;
    two.until("loser", "the child waits", |kind| matches!(kind, EventKind::ExternalSubscribed { .. })).await;
    two.here.client.raise_event("races", "second", "two").await.expect("raised");
    assert_eq!(two.output("races").await, "one two");
    assert!(matches!(
        two.failure("loser").await,
        ErrorDetails::Application { kind: AppErrorKind::Cancelled { .. }, .. }
    ));
    let history = two.history("races", 1).await;
    assert_eq!(count(&history, |kind| matches!(kind, EventKind::ActivityCancelRequested { .. })), 1);
    assert_eq!(count(&history, |kind| matches!(kind, EventKind::SubOrchestrationCancelRequested { .. })), 1);
    assert_eq!(two.finish().await, 2);
}

/// An activity that lost against a timer before it was claimed is never executed.
/// No runtime takes its tag, so it waits in the queue until the timer fires.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_activity_that_was_not_claimed_never_runs() {
    let races = |ctx: OrchestrationContext, _: String| async move {
        let work = ctx.schedule_activity("endless", "").with_tag("unserved");
        let timer = ctx.schedule_timer(Duration::from_millis(300));
        Ok(ctx.select2(work, timer).await.index().to_string())
    };
    let orchestrations = OrchestrationRegistry::builder().register("races", races).build();
    let two = Two::start(Endless::default().activities(), orchestrations).await;
    two.here.begin("races", "races", "").await;
    two.until("races", "it is scheduled", |kind| matches!(kind, EventKind::ActivityScheduled { .. })).await;
    assert_eq!(two.output("races").await, "1");
    assert_eq!(two.count("select count(*) from {schema}.worker_queue").await, 0);
    assert_eq!(two.finish().await, 1);
}
