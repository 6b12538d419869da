//! Throughput: many orchestrations, each of some activities at once.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::latencies::Latencies;
use crate::pump::{pump, sorted};
use crate::stage::{Dispatchers, Stage};
use crate::{millis, script};

/// How the result of an orchestration is waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waits {
    /// As the users of the system wait: by duroxide's client, which polls, or in the provider's own way.
    #[default]
    Client,
    /// By a signal from the last turn, which runs in the same process, and status reads through duroxide's client: one
    /// after the signal, and until the ack of that turn has committed, more of them 1, 2, 4, 4, … ms apart.
    Signal,
}

/// Orchestrations that fan out, a number of them at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FanOut {
    /// How many in all.
    pub orchestrations: usize,
    /// Activities of each.
    pub activities: usize,
    /// How many are in progress at a time: started, and not yet seen to complete.
    pub concurrent: usize,
    /// Of the runtime.
    pub dispatchers: Dispatchers,
    /// How long each activity takes by itself.
    #[serde(rename = "activity_delay_ms", with = "millis")]
    pub activity_delay: Duration,
    /// How each result is waited for.
    #[serde(default)]
    pub waits: Waits,
}

/// Their rate and their latencies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FanOutOutcome {
    /// Orchestrations that completed.
    pub completed: usize,
    /// Those that did not.
    pub failures: usize,
    /// The error of the first of those.
    pub first_failure: Option<String>,
    /// From the first start until the last completion was seen.
    pub seconds: f64,
    /// Completed orchestrations per second.
    pub per_second: f64,
    /// From the start of each until its completion was seen.
    pub latencies: Latencies,
    /// Status reads of those that completed; `None` without [`Waits::Signal`], where the client's are not counted.
    pub status_reads: Option<usize>,
}

impl FanOut {
    /// Five activities without delay, 20 orchestrations at a time, waited for by the client.
    pub const fn new(orchestrations: usize, dispatchers: Dispatchers) -> FanOut {
        FanOut {
            orchestrations,
            activities: 5,
            concurrent: 20,
            dispatchers,
            activity_delay: Duration::ZERO,
            waits: Waits::Client,
        }
    }

    pub(crate) async fn measure(&self, stage: &Stage) -> FanOutOutcome {
        let input = script::fan_out_of(self.activities, self.activity_delay);
        let one = {
            let (stage, waits) = (stage.clone(), self.waits);
            move |number| {
                let (stage, input) = (stage.clone(), input.clone());
                async move {
                    let began = Instant::now();
                    let reads = match waits {
                        Waits::Client => {
                            stage.complete("fan-out", number, script::FAN_OUT, &input).await?;
                            0
                        }
                        Waits::Signal => stage.complete_by_signal("fan-out", number, script::FAN_OUT, &input).await?.1,
                    };
                    Ok((began.elapsed(), reads))
                }
            }
        };
        let began = Instant::now();
        let done = pump(self.orchestrations, self.concurrent, one).await;
        let seconds = began.elapsed().as_secs_f64();
        let (done, failures, first_failure) = sorted(done);
        let (latencies, reads): (Vec<Duration>, Vec<usize>) = done.into_iter().unzip();
        let completed = latencies.len();
        FanOutOutcome {
            completed,
            failures,
            first_failure,
            seconds,
            per_second: completed as f64 / seconds,
            latencies: latencies.into_iter().collect(),
            status_reads: (self.waits == Waits::Signal).then(|| reads.into_iter().sum()),
        }
    }
}
