//! duroxide's own stress test, unchanged: its pump, its orchestration, its activities, its figures.

use std::sync::Arc;
use std::time::Duration;

use duroxide::provider_stress_tests::{
    StressTestConfig, create_default_activities, create_default_orchestrations, run_stress_test,
};
use serde::{Deserialize, Serialize};

use crate::stage::{Dispatchers, PATIENCE};
use crate::{Result, System, millis};

/// Orchestrations that fan out, started for a fixed time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stress {
    /// Concurrent orchestrations.
    pub concurrent: usize,
    /// How long new ones are started; whole seconds.
    pub seconds: u64,
    /// Activities of each.
    pub activities: usize,
    /// How long each activity takes by itself.
    #[serde(rename = "activity_delay_ms", with = "millis")]
    pub activity_delay: Duration,
    /// Of the runtime.
    pub dispatchers: Dispatchers,
}

/// The figures of the stress test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StressOutcome {
    /// Orchestrations that were started.
    pub launched: usize,
    /// Those that completed.
    pub completed: usize,
    /// Those that failed, for any reason.
    pub failed: usize,
    /// Those of them that failed because of the provider.
    pub failed_infrastructure: usize,
    /// From the first start until none is running, which is checked every 100 ms.
    pub seconds: f64,
    /// Completed orchestrations per second.
    pub per_second: f64,
    /// The test's average latency: its time divided by the completed orchestrations.
    pub average_latency_ms: f64,
}

impl Stress {
    /// A quick validation: 3 activities of 50 ms, 1:1, 10 at a time, 30 s.
    pub const VALIDATION: Stress = Stress {
        concurrent: 10,
        seconds: 30,
        activities: 3,
        activity_delay: Duration::from_millis(50),
        dispatchers: Dispatchers::same(1),
    };
    /// The baseline: 5 activities of 10 ms, 1:1, 20 at a time, 10 s.
    pub const BASELINE: Stress = Stress {
        concurrent: 20,
        seconds: 10,
        activities: 5,
        activity_delay: Duration::from_millis(10),
        dispatchers: Dispatchers::same(1),
    };
    /// Concurrency: the baseline with 2:2.
    pub const CONCURRENCY: Stress = Stress { dispatchers: Dispatchers::same(2), ..Stress::BASELINE };
    /// Throughput with long polling: the baseline with 4:4, for 30 s.
    pub const LONG_POLL: Stress = Stress { dispatchers: Dispatchers::same(4), seconds: 30, ..Stress::BASELINE };

    /// The test starts a runtime of its own: there must be no other.
    pub(crate) async fn measure(&self, system: &System) -> Result<StressOutcome> {
        let activity_delay_ms = u64::try_from(self.activity_delay.as_millis())?;
        let config = StressTestConfig {
            max_concurrent: self.concurrent,
            duration_secs: self.seconds,
            tasks_per_instance: self.activities,
            activity_delay_ms,
            orch_concurrency: self.dispatchers.orchestrations,
            worker_concurrency: self.dispatchers.workers,
            wait_timeout_secs: PATIENCE.as_secs(),
        };
        let (activities, orchestrations) =
            (create_default_activities(activity_delay_ms), create_default_orchestrations());
        let provider = Arc::clone(system.provider());
        let done = run_stress_test(config, provider, activities, orchestrations).await;
        let done = done.map_err(|error| error.to_string())?;
        Ok(StressOutcome {
            launched: done.launched,
            completed: done.completed,
            failed: done.failed,
            failed_infrastructure: done.failed_infrastructure,
            seconds: done.total_time.as_secs_f64(),
            per_second: done.orch_throughput,
            average_latency_ms: done.avg_latency_ms,
        })
    }
}
