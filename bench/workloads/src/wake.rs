//! How soon an idle process runs an orchestration that another process starts.
//!
//! It has two processes: a worker, whose runtime is idle, and a client, which starts an orchestration of one activity
//! at a time, with pauses. Both use the clock of one machine; the activity returns the timestamps of the worker.

use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::latencies::Latencies;
use crate::pump::{sorted, spread};
use crate::stage::{Dispatchers, Stage};
use crate::timestamps::millis_between;
use crate::{Result, millis, script};

/// Pauses differ by up to this much, so that starts are not in phase with providers that poll every 100 ms.
const JITTER: Duration = Duration::from_millis(100);

/// The process with the idle runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WakeWorker {
    /// Of the runtime.
    pub dispatchers: Dispatchers,
}

/// The process that starts orchestrations. A [`WakeWorker`] has to be ready before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WakeClient {
    /// How many orchestrations.
    pub samples: usize,
    /// The pause before each of them, and up to 100 ms more.
    #[serde(rename = "pause_ms", with = "millis")]
    pub pause: Duration,
}

/// How soon, counted from the call that starts an orchestration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WakeOutcome {
    /// Until its first turn began.
    pub to_turn: Latencies,
    /// Until its activity began.
    pub to_activity: Latencies,
    /// Until its completion was seen.
    pub to_completion: Latencies,
    /// Orchestrations that did not complete.
    pub failures: usize,
    /// The error of the first of those.
    pub first_failure: Option<String>,
}

struct Sample {
    turn_ms: f64,
    activity_ms: f64,
    completion: Duration,
}

impl WakeClient {
    pub(crate) async fn measure(&self, stage: &Stage) -> WakeOutcome {
        let mut done = Vec::with_capacity(self.samples);
        for number in 0..self.samples {
            sleep(self.pause + JITTER.mul_f64(spread(number))).await;
            done.push(sample(stage, number).await);
        }
        let (samples, failures, first_failure) = sorted(done);
        WakeOutcome {
            to_turn: samples.iter().map(|sample| sample.turn_ms).collect(),
            to_activity: samples.iter().map(|sample| sample.activity_ms).collect(),
            to_completion: samples.iter().map(|sample| sample.completion).collect(),
            failures,
            first_failure,
        }
    }
}

async fn sample(stage: &Stage, number: usize) -> Result<Sample> {
    let (started, began) = (SystemTime::now(), Instant::now());
    let report = stage.complete("wake", number, script::ONE, "").await?;
    let completion = began.elapsed();
    let (turn, activity) = report.split_once(' ').ok_or("the output of the worker is not two timestamps")?;
    let since = |nanos: &str| -> Result<f64> {
        Ok(millis_between(started, SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos.parse()?)))
    };
    Ok(Sample { turn_ms: since(turn)?, activity_ms: since(activity)?, completion })
}
