//! Throughput: many orchestrations, each of some activities at once.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::latencies::Latencies;
use crate::pump::{pump, sorted};
use crate::stage::{Dispatchers, Stage};
use crate::{Result, millis, script};

/// Part of the name of every instance.
const KIND: &str = "fan-out";

type Waiting = Pin<Box<dyn Future<Output = Result<Waited>> + Send>>;

/// How the result of an orchestration is waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Waits {
    /// As the users of the system wait: by duroxide's client, which polls, or in the provider's own way.
    #[default]
    Client,
    /// By a signal from the last turn, which runs in the same process, and one status read through duroxide's client.
    /// Orchestrations whose last turn has not committed at that read are verified at the end of the round, within the
    /// measured time: another read each, and more of them 1, 2, 4, 4, … ms apart for those that commit last.
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
    /// From the first start until the last completion was seen: with [`Waits::Signal`], until all are verified.
    pub seconds: f64,
    /// Completed orchestrations per second.
    pub per_second: f64,
    /// From the start of each until its completion was seen; with [`Waits::Signal`], until the one status read after
    /// the signal, which may be a commit earlier.
    pub latencies: Latencies,
    /// What only [`Waits::Signal`] counts; `None` without it, where the reads of the client are not counted.
    pub reads: Option<Reads>,
}

/// The status reads of orchestrations that completed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// All of them: one per orchestration after its signal, and those that verify.
    pub all: usize,
    /// Those of the verification at the end of the round.
    pub verifying: usize,
}

/// An orchestration that was waited for.
#[derive(Debug, Clone, Copy)]
struct Waited {
    number: usize,
    latency: Duration,
    /// Whether its completion was seen.
    is_verified: bool,
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
        let began = Instant::now();
        let waited = pump(self.orchestrations, self.concurrent, self.waiting(stage.clone())).await;
        let (waited, mut failures, mut first_failure) = sorted(waited);
        let unverified: Arc<[Waited]> = waited.iter().copied().filter(|one| !one.is_verified).collect();
        let (stage, fan_out, of) = (stage.clone(), *self, Arc::clone(&unverified));
        let verifying = move |index: usize| {
            let (stage, one) = (stage.clone(), of[index]);
            async move {
                let (output, reads) = stage.verify(KIND, one.number).await?;
                fan_out.check(&output).map(|()| (one.latency, reads))
            }
        };
        let (verified, lost, first_lost) = sorted(pump(unverified.len(), self.concurrent, verifying).await);
        let seconds = began.elapsed().as_secs_f64();
        failures += lost;
        first_failure = first_failure.or(first_lost);
        let verifying = verified.iter().map(|(_, reads)| reads).sum();
        let seen_at_once = waited.iter().filter(|one| one.is_verified).map(|one| one.latency);
        let latencies: Vec<Duration> = seen_at_once.chain(verified.iter().map(|(latency, _)| *latency)).collect();
        let completed = latencies.len();
        let reads = Reads { all: completed + verifying, verifying };
        FanOutOutcome {
            completed,
            failures,
            first_failure,
            seconds,
            per_second: completed as f64 / seconds,
            latencies: latencies.into_iter().collect(),
            reads: (self.waits == Waits::Signal).then_some(reads),
        }
    }

    /// Completes the orchestration of a number, as far as its way to wait says.
    fn waiting(self, stage: Stage) -> impl Fn(usize) -> Waiting + Clone + Send + 'static {
        let input = script::fan_out_of(self.activities, self.activity_delay);
        move |number| {
            let (stage, input) = (stage.clone(), input.clone());
            Box::pin(async move {
                let began = Instant::now();
                let output = match self.waits {
                    Waits::Client => Some(stage.complete(KIND, number, script::FAN_OUT, &input).await?),
                    Waits::Signal => stage.complete_by_signal(KIND, number, script::FAN_OUT, &input).await?,
                };
                let latency = began.elapsed();
                output.iter().try_for_each(|output| self.check(output))?;
                Ok(Waited { number, latency, is_verified: output.is_some() })
            })
        }
    }

    /// Every activity must have a result.
    fn check(self, output: &str) -> Result<()> {
        let expected = self.activities.to_string();
        if output == expected { Ok(()) } else { Err(format!("{output} of {expected} activities have a result").into()) }
    }
}
