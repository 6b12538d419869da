//! Throughput: messages per second that are sent, received and acked.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::{Load, Rate};
use crate::{Broker, Queue, Result};

/// The time until connections are warm, statements are prepared, and the backlog has its final size.
const RUN_UP: Duration = Duration::from_secs(2);

/// All senders and receivers work as fast as they can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// The queue.
    pub queue: Queue,
    /// The duration.
    pub seconds: u64,
}

/// The result of a [`Throughput`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputOutcome {
    /// Messages per second that every group received during the measured seconds.
    pub per_second: f64,
    /// The messages that every group received, for each second.
    pub each_second: Vec<f64>,
    /// All messages that every group received in the round. The costs of the round are divided by this number.
    pub messages: u64,
    /// Messages that were sent and that a group has not received.
    pub missing: u64,
}

/// A load that is ready.
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
        // Until the backlog has its final size again.
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
