//! One orchestration of many activities, one after the other: what a single step costs when nothing can be grouped.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::stage::{Dispatchers, PATIENCE, Stage};
use crate::timestamps::millis_between;
use crate::{Result, script};

/// More than the slowest provider needs for a step; those that poll need 100 ms.
const STEP_PATIENCE: Duration = Duration::from_secs(1);

/// Sequential activities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// How many; at least two.
    pub steps: usize,
    /// Of the runtime.
    pub dispatchers: Dispatchers,
}

/// How long the steps took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChainOutcome {
    /// From one activity to the next, on average, by timestamps of the activities: the pauses of the polling client
    /// are not included.
    pub ms_per_step: f64,
    /// From the start of the orchestration until its completion was seen.
    pub total_ms: f64,
}

impl Chain {
    pub(crate) async fn measure(&self, stage: &Stage) -> Result<ChainOutcome> {
        let gaps = self.steps.checked_sub(1).filter(|gaps| *gaps > 0).ok_or("a chain has at least two steps")?;
        let (instance, steps) = (stage.instance("chain", 0), self.steps.to_string());
        let patience = PATIENCE + STEP_PATIENCE * u32::try_from(self.steps)?;
        let began = Instant::now();
        stage.system.complete(&instance, script::CHAIN, &steps, patience).await?;
        let total_ms = began.elapsed().as_secs_f64() * 1_000.0;
        let timestamps = stage.timestamps.take(&instance);
        let (Some(first), Some(last)) = (timestamps.first(), timestamps.last()) else {
            return Err("no step of the chain ran in this process: another runtime claimed it".into());
        };
        Ok(ChainOutcome { ms_per_step: millis_between(*first, *last) / gaps as f64, total_ms })
    }
}
