//! Single messages for receivers of which many wait: what each of them asks for is counted from outside.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::probe::Probe;
use crate::{Broker, Latencies, Queue, Result, Sender};

/// Samples that are not counted.
const WARM_UP: usize = 20;

/// Messages one at a time; each waiting receiver gets one now and then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parked {
    /// Where they go, and how many wait there.
    pub queue: Queue,
    /// How many.
    pub messages: usize,
    /// Between two, in milliseconds.
    pub pause_ms: u64,
}

/// How long they took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParkedOutcome {
    /// From sending to receiving.
    pub latencies: Latencies,
}

impl Parked {
    pub(crate) async fn prepare<B: Broker>(&self, broker: &B) -> Result<Probe<B::Sender>> {
        let mut probe = Probe::start(broker, &self.queue).await?;
        probe.sample(WARM_UP, Duration::from_millis(self.pause_ms)).await?;
        Ok(probe)
    }

    pub(crate) async fn measure<S: Sender>(&self, probe: &mut Probe<S>) -> Result<ParkedOutcome> {
        let latencies = probe.sample(self.messages, Duration::from_millis(self.pause_ms)).await?;
        Ok(ParkedOutcome { latencies: Latencies::of(latencies) })
    }
}
