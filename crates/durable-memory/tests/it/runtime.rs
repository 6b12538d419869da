//! duroxide's runtime on the provider, end to end.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus, RuntimeOptions,
};
use reveille_durable_memory::{MemoryProvider, Polling};

/// Longer than any orchestration here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const INSTANCES: usize = 50;

/// Many orchestrations with activities, a timer and a child at once all complete, and leave nothing in a queue.
/// Fifty run with four dispatchers of each kind; each fans out to three activities, sleeps, and calls a child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orchestrations_complete_and_leave_nothing_behind() {
    let provider = MemoryProvider::new(Polling::Long);
    let store: Arc<dyn Provider> = Arc::new(provider.clone());
    let activities = ActivityRegistry::builder()
        .register("Double", |_: ActivityContext, input: String| async move { Ok(input.repeat(2)) })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Child", |ctx: OrchestrationContext, input: String| async move {
            ctx.schedule_activity("Double", input).await
        })
        .register("Parent", |ctx: OrchestrationContext, input: String| async move {
            let doubled = ctx.join((0..3).map(|_| ctx.schedule_activity("Double", input.clone())).collect()).await;
            ctx.schedule_timer(Duration::from_millis(20)).await;
            let last = ctx.schedule_sub_orchestration("Child", input).await?;
            let all = doubled.into_iter().collect::<Result<Vec<_>, _>>()?;
            Ok(format!("{}{last}", all.concat()))
        })
        .build();
    let options = RuntimeOptions { orchestration_concurrency: 4, worker_concurrency: 4, ..RuntimeOptions::default() };
    let runtime = Runtime::start_with_options(Arc::clone(&store), activities, orchestrations, options).await;
    let client = Client::new(store);
    for number in 0..INSTANCES {
        client.start_orchestration(format!("parent-{number}"), "Parent", "x").await.unwrap();
    }
    for number in 0..INSTANCES {
        let status = client.wait_for_orchestration(&format!("parent-{number}"), PATIENCE).await.unwrap();
        assert!(matches!(&status, OrchestrationStatus::Completed { output, .. } if output == "xxxxxxxx"), "{status:?}");
    }
    runtime.shutdown(None).await;

    let metrics = provider.get_system_metrics().await.unwrap();
    assert_eq!((metrics.total_instances, metrics.completed_instances), (2 * INSTANCES as u64, 2 * INSTANCES as u64));
    let depths = provider.get_queue_depths().await.unwrap();
    assert_eq!((depths.orchestrator_queue, depths.worker_queue), (0, 0));
}
