//! Throughput: many orchestrations, each of some activities at once.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::latencies::Latencies;
use crate::pump::{pump, sorted};
use crate::stage::{Dispatchers, Stage};
use crate::{millis, script};

/// Orchestrations that fan out, a number of them at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FanOut {
    /// How many in all.
    pub orchestrations: usize,
    /// Activities of each.
    pub activities: usize,
    /// Started and not yet seen to complete.
    pub concurrent: usize,
    /// Of the runtime.
    pub dispatchers: Dispatchers,
    /// How long each activity takes by itself.
    #[serde(rename = "activity_delay_ms", with = "millis")]
    pub activity_delay: Duration,
}

/// How fast they went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FanOutOutcome {
    /// Orchestrations that completed.
    pub completed: usize,
    /// Those that did not.
    pub failures: usize,
    /// Why the first of those did not.
    pub first_failure: Option<String>,
    /// From the first start until the last completion was seen.
    pub seconds: f64,
    /// Completed orchestrations per second.
    pub per_second: f64,
    /// From the start of each until its completion was seen.
    pub latencies: Latencies,
}

impl FanOut {
    /// Five activities without delay, 20 orchestrations at a time.
    pub const fn new(orchestrations: usize, dispatchers: Dispatchers) -> FanOut {
        FanOut { orchestrations, activities: 5, concurrent: 20, dispatchers, activity_delay: Duration::ZERO }
    }

    pub(crate) async fn measure(&self, stage: &Stage) -> FanOutOutcome {
        let input = script::fan_out_of(self.activities, self.activity_delay);
        let one = {
            let stage = stage.clone();
            move |number| {
                let (stage, input) = (stage.clone(), input.clone());
                async move {
                    let began = Instant::now();
                    stage.complete("fan-out", number, script::FAN_OUT, &input).await?;
                    Ok(began.elapsed())
                }
            }
        };
        let began = Instant::now();
        let done = pump(self.orchestrations, self.concurrent, one).await;
        let seconds = began.elapsed().as_secs_f64();
        let (latencies, failures, first_failure) = sorted(done);
        let completed = latencies.len();
        let per_second = completed as f64 / seconds;
        FanOutOutcome {
            completed,
            failures,
            first_failure,
            seconds,
            per_second,
            latencies: latencies.into_iter().collect(),
        }
    }
}
