//! Single messages, while many receivers wait. The statements per message are counted from outside.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::probe::Probe;
use crate::{Broker, Latencies, Queue, Result, Sender};

/// Samples that are not counted.
const WARM_UP: usize = 20;

/// Messages that are sent one at a time to many waiting receivers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parked {
    /// The queue, with the number of receivers.
    pub queue: Queue,
    /// The number of messages.
    pub messages: usize,
    /// The average pause between two messages, in milliseconds.
    pub pause_ms: u64,
}

/// The result of a [`Parked`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParkedOutcome {
    /// The times from sending to receiving.
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
