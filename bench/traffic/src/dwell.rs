//! The waiting time of messages in many partitions, below saturation.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::latency::loaded;
use crate::load::{Load, Rate};
use crate::{Broker, Latencies, Queue, Result};

/// A load that is a share of the throughput.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dwell {
    /// The queue.
    pub queue: Queue,
    /// The load as a share of the throughput.
    pub share: f64,
    /// The duration.
    pub seconds: u64,
}

/// The result of a [`Dwell`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DwellOutcome {
    /// The times from sending to receiving, of all messages.
    pub latencies: Latencies,
    /// Messages received per second.
    pub per_second: f64,
    /// Messages that were sent and not received.
    pub missing: u64,
}

/// A load that is ready, and its rate.
pub(crate) struct Prepared {
    load: Load,
    rate: f64,
}

impl Dwell {
    pub(crate) async fn prepare<B: Broker>(&self, broker: &B) -> Result<Prepared> {
        let (load, rate) = loaded(broker, &self.queue, self.share).await?;
        Ok(Prepared { load, rate })
    }

    pub(crate) async fn measure(&self, Prepared { load, rate }: &mut Prepared) -> Result<DwellOutcome> {
        load.keep_latencies();
        load.set(Rate::PerSecond(*rate));
        let per_second = load.watch(Duration::from_secs(self.seconds)).await?;
        let missing = load.drain().await?;
        Ok(DwellOutcome { latencies: Latencies::of(load.latencies()), per_second, missing })
    }
}
