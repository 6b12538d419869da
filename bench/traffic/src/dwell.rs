//! The waiting time of messages in many partitions, below saturation.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::latency::loaded;
use crate::load::{Load, Rate};
use crate::{Broker, Latencies, Queue, Result};

/// A load that is a share of what goes through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dwell {
    /// What is used, and how.
    pub queue: Queue,
    /// How much, as a share of what goes through.
    pub share: f64,
    /// For how long.
    pub seconds: u64,
}

/// How long it waited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DwellOutcome {
    /// From sending to receiving, of every message.
    pub latencies: Latencies,
    /// Messages per second.
    pub per_second: f64,
    /// Messages that should have been received and were not.
    pub missing: u64,
}

/// Ready to begin.
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
