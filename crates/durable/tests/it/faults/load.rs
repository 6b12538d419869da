//! Orchestrations as a load during faults, and their invariants afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duroxide::RuntimeOptions;
use duroxide::providers::{Provider, ProviderAdmin};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, EventKind, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use reveille_durable::PostgresProvider;

use super::{PATIENCE, eventually, four_each};
use crate::consistency;

/// Concurrent activities, and then sequential ones.
const FAN_OUT: usize = 3;
const STEPS: usize = 2;
/// Activities of one orchestration.
pub(super) const ACTIVITIES: usize = FAN_OUT + STEPS;

/// A runtime at work. Clones are one.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) provider: PostgresProvider,
    runtime: Arc<Runtime>,
    executed: Arc<AtomicUsize>,
}

impl Load {
    /// Four dispatchers of each kind.
    pub(super) async fn start(provider: &PostgresProvider) -> Load {
        Load::with(provider, four_each()).await
    }

    pub(super) async fn with(provider: &PostgresProvider, options: RuntimeOptions) -> Load {
        let executed = Arc::new(AtomicUsize::new(0));
        let counted = executed.clone();
        let activities = ActivityRegistry::builder().register("Step", move |_: ActivityContext, input: String| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move { Ok((number(&input) + 1).to_string()) }
        });
        let orchestrations = OrchestrationRegistry::builder().register("Count", count);
        let store: Arc<dyn Provider> = Arc::new(provider.clone());
        let runtime = Runtime::start_with_options(store, activities.build(), orchestrations.build(), options).await;
        Load { provider: provider.clone(), runtime, executed }
    }

    pub(super) fn client(&self) -> Client {
        Client::new(Arc::new(self.provider.clone()))
    }

    /// Starts an orchestration that counts from `number`; returns its instance.
    pub(super) async fn begin(&self, number: usize) -> String {
        let instance = format!("count-{number}");
        self.client().start_orchestration(&instance, "Count", number.to_string()).await.expect("started, if late");
        instance
    }

    /// How many activities were executed; some more than once, if a claim or an answer was lost.
    pub(super) fn executed(&self) -> usize {
        self.executed.load(Ordering::Relaxed)
    }

    /// Waits until so many activities were executed.
    pub(super) async fn until_executed(&self, activities: usize) {
        eventually("activities are executed", async || self.executed() >= activities).await;
    }

    /// Waits for the end of an orchestration that counted from `number`, and checks its result and its history.
    pub(super) async fn finish(&self, number: usize) {
        let instance = format!("count-{number}");
        let ended = self.provider.wait_for_completion(&instance, PATIENCE).await.expect("an answer, if late");
        let output = match ended {
            Some(OrchestrationStatus::Completed { output, .. }) => output,
            other => panic!("{instance} ended as {other:?}"),
        };
        assert_eq!(output, (FAN_OUT * (number + 1) + STEPS).to_string(), "{instance}");
        let history = self.provider.read(&instance).await.expect("its history");
        consistency::check(&instance, 1, &history);
        let count = |is: fn(&EventKind) -> bool| history.iter().filter(|event| is(&event.kind)).count();
        assert_eq!(count(|kind| matches!(kind, EventKind::ActivityScheduled { .. })), ACTIVITIES, "{history:#?}");
        assert_eq!(count(|kind| matches!(kind, EventKind::ActivityCompleted { .. })), ACTIVITIES, "{history:#?}");
        assert_eq!(count(|kind| matches!(kind, EventKind::TimerFired { .. })), 1, "{history:#?}");
        assert!(matches!(history.last().map(|event| &event.kind), Some(EventKind::OrchestrationCompleted { .. })));
    }

    /// Runs so many orchestrations at once and checks each.
    pub(super) async fn complete(&self, count: usize) {
        for number in 0..count {
            self.begin(number).await;
        }
        for number in 0..count {
            self.finish(number).await;
        }
    }

    /// Waits until the queues are empty: duplicated or unclaimed work would be left in them.
    pub(super) async fn stop(self) {
        eventually("the queues are empty", async || {
            let depths = self.provider.get_queue_depths().await.expect("an answer");
            (depths.orchestrator_queue, depths.worker_queue) == (0, 0)
        })
        .await;
        self.runtime.shutdown(None).await;
    }
}

async fn count(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let side_by_side = (0..FAN_OUT).map(|_| ctx.schedule_activity("Step", input.clone())).collect();
    let mut sum = 0;
    for result in ctx.join(side_by_side).await {
        sum += number(&result?);
    }
    ctx.schedule_timer(Duration::from_millis(20)).await;
    for _ in 0..STEPS {
        sum = number(&ctx.schedule_activity("Step", sum.to_string()).await?);
    }
    Ok(sum.to_string())
}

fn number(text: &str) -> usize {
    text.parse().expect("a number")
}
