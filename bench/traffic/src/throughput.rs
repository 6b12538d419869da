//! Throughput, from sending to ending.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::{Load, Rate};
use crate::{Broker, Queue, Result};

/// Until connections are warm, statements are prepared, and the backlog has its final size.
const RUN_UP: Duration = Duration::from_secs(2);

/// All senders and receivers work as fast as they can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// What is used, and how.
    pub queue: Queue,
    /// For how long.
    pub seconds: u64,
}

/// What went through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputOutcome {
    /// Messages per second that every group received, while it was measured.
    pub per_second: f64,
    /// The same, second by second.
    pub each_second: Vec<f64>,
    /// Messages that every group received, from the first to the last: what a round's costs are divided by.
    pub messages: u64,
    /// Messages that a group should have received and has not.
    pub missing: u64,
}

/// Ready to begin.
pub(crate) struct Prepared {
    load: Load,
    before: u64,
    seconds: u64,
}

impl Throughput {
    pub(crate) async fn prepare<B: Broker>(&self, broker: &B) -> Result<Prepared> {
        let mut load = Load::start(broker, &self.queue).await?;
        load.set(Rate::Full);
        load.watch(RUN_UP).await?;
        load.drain().await?;
        let before = load.received();
        Ok(Prepared { load, before, seconds: self.seconds })
    }
}

impl Prepared {
    pub(crate) async fn measure(&mut self) -> Result<ThroughputOutcome> {
        let load = &mut self.load;
        load.set(Rate::Full);
        // Until the backlog has its size again.
        load.watch(RUN_UP / 4).await?;
        let mut each_second = Vec::new();
        for _ in 0..self.seconds {
            each_second.push(load.watch(Duration::from_secs(1)).await?);
        }
        let missing = load.drain().await?;
        let per_second = each_second.iter().sum::<f64>() / each_second.len().max(1) as f64;
        Ok(ThroughputOutcome { per_second, each_second, messages: load.received() - self.before, missing })
    }
}
