//! How late timers fire.

use std::time::{Duration, SystemTime};

use duroxide::EventKind;
use serde::{Deserialize, Serialize};

use crate::latencies::Latencies;
use crate::pump::{pump, sorted, spread};
use crate::stage::{Dispatchers, Stage};
use crate::timestamps::millis_between;
use crate::{Result, script};

/// The shortest and the longest sleep: long enough to be stored and read again, short enough for many samples.
const SHORTEST_MS: f64 = 100.0;
const LONGEST_MS: f64 = 1_000.0;

/// Orchestrations that sleep for 100 to 1 000 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timer {
    /// How many in all.
    pub timers: usize,
    /// How many at a time. Few, because lateness is measured and not throughput.
    pub concurrent: usize,
    /// Of the runtime.
    pub dispatchers: Dispatchers,
}

/// How late they were.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimerOutcome {
    /// From the time at which a timer was due, according to its history, until the orchestration continued. The due
    /// time has whole milliseconds, so this is up to one too high. Negative: fired early, an error of the provider.
    pub lateness: Latencies,
    /// Orchestrations that did not complete.
    pub failures: usize,
    /// The error of the first of those.
    pub first_failure: Option<String>,
}

impl Timer {
    pub(crate) async fn measure(&self, stage: &Stage) -> TimerOutcome {
        let sleeper = {
            let stage = stage.clone();
            move |number| {
                let stage = stage.clone();
                async move {
                    let delay = SHORTEST_MS + spread(number) * (LONGEST_MS - SHORTEST_MS);
                    stage.complete("timer", number, script::SLEEP, &format!("{delay:.0}")).await?;
                    lateness(&stage, &stage.instance("timer", number)).await
                }
            }
        };
        let (lateness, failures, first_failure) = sorted(pump(self.timers, self.concurrent, sleeper).await);
        TimerOutcome { lateness: lateness.into_iter().collect(), failures, first_failure }
    }
}

async fn lateness(stage: &Stage, instance: &str) -> Result<f64> {
    let history = stage.system.provider().read(instance).await?;
    let due = history.iter().find_map(|event| match event.kind {
        EventKind::TimerCreated { fire_at_ms } => Some(SystemTime::UNIX_EPOCH + Duration::from_millis(fire_at_ms)),
        _ => None,
    });
    // The first one: a repeated turn adds a second.
    let fired = stage.timestamps.take(instance).first().copied();
    let (due, fired) = due.zip(fired).ok_or("a timer has no due time or no timestamp")?;
    Ok(millis_between(due, fired))
}
