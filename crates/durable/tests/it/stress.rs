//! duroxide's own stress tests, short: all orchestrations complete, and every history is consistent.
//!
//! The long runs, with figures, are the benchmark's.

use std::sync::Arc;

use async_trait::async_trait;
use duroxide::provider_stress_tests::large_payload::{LargePayloadConfig, run_large_payload_test_with_config};
use duroxide::provider_stress_tests::parallel_orchestrations::{
    ProviderStressFactory, run_parallel_orchestrations_test_with_config,
};
use duroxide::provider_stress_tests::{StressTestConfig, StressTestResult};
use duroxide::providers::Provider;
use reveille_durable::{LongPollConfig, Strategy};

use crate::consistency::check_all;
use crate::fixture::Fixture;

/// For how long orchestrations are launched; all that have been are waited for.
const SECONDS: u64 = 2;

/// What the stress test makes its provider with.
struct Ready(Fixture);

#[async_trait]
impl ProviderStressFactory for Ready {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.0.provider.clone())
    }
}

/// Twenty concurrent orchestrations, with five activities of 10 ms each.
fn baseline(dispatchers: usize) -> StressTestConfig {
    StressTestConfig {
        max_concurrent: 20,
        duration_secs: SECONDS,
        tasks_per_instance: 5,
        activity_delay_ms: 10,
        orch_concurrency: dispatchers,
        worker_concurrency: dispatchers,
        ..StressTestConfig::default()
    }
}

async fn parallel(long_poll: LongPollConfig, config: StressTestConfig) {
    let ready = Ready(Fixture::with(long_poll).await);
    let result = run_parallel_orchestrations_test_with_config(&ready, config).await.expect("a result");
    everything_succeeded(&ready, &result).await;
}

async fn everything_succeeded(ready: &Ready, result: &StressTestResult) {
    assert!(result.launched > 0, "{result:?}");
    assert_eq!((result.completed, result.failed), (result.launched, 0), "{result:?}");
    assert!(check_all(&ready.0.provider).await >= result.launched);
}

/// Ten orchestrations with three activities of 50 ms, by one dispatcher of each kind.
#[tokio::test(flavor = "multi_thread")]
async fn slow_activities_with_one_dispatcher_of_each_kind() {
    let slow = StressTestConfig { max_concurrent: 10, tasks_per_instance: 3, activity_delay_ms: 50, ..baseline(1) };
    parallel(LongPollConfig::enabled(), slow).await;
}

/// The baseline: one dispatcher of each kind.
#[tokio::test(flavor = "multi_thread")]
async fn one_dispatcher_of_each_kind() {
    parallel(LongPollConfig::enabled(), baseline(1)).await;
}

/// Two dispatchers of each kind.
#[tokio::test(flavor = "multi_thread")]
async fn two_dispatchers_of_each_kind() {
    parallel(LongPollConfig::enabled(), baseline(2)).await;
}

/// Four dispatchers of each kind, woken together.
#[tokio::test(flavor = "multi_thread")]
async fn four_dispatchers_of_each_kind() {
    parallel(LongPollConfig::enabled(), baseline(4)).await;
}

/// Four dispatchers of each kind, each woken by every wake-up.
#[tokio::test(flavor = "multi_thread")]
async fn four_dispatchers_of_each_kind_woken_by_broadcast() {
    let broadcast = LongPollConfig { strategy: Strategy::Broadcast, ..LongPollConfig::enabled() };
    parallel(broadcast, baseline(4)).await;
}

/// Two dispatchers of each kind that do not wait for work.
#[tokio::test(flavor = "multi_thread")]
async fn two_dispatchers_of_each_kind_without_long_polling() {
    parallel(LongPollConfig::default(), baseline(2)).await;
}

/// Histories of about a hundred events with payloads of up to 100 kB, with children.
#[tokio::test(flavor = "multi_thread")]
async fn large_payloads() {
    let ready = Ready(Fixture::new().await);
    let large = LargePayloadConfig::default();
    let base = StressTestConfig { duration_secs: SECONDS, ..large.base.clone() };
    let result = run_large_payload_test_with_config(&ready, LargePayloadConfig { base, ..large }).await;
    everything_succeeded(&ready, &result.expect("a result")).await;
}
