//! The latency from sending to a waiting receiver, with or without another load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::{Load, Rate};
use crate::probe::Probe;
use crate::{Broker, Latencies, Queue, Result, Sender};

/// Samples that are not counted: connections are opened and statements prepared.
const WARM_UP: usize = 20;
/// How long the throughput is measured from which the load is calculated.
const CALIBRATION: Duration = Duration::from_secs(4);
/// The time after which the rate of a load is constant.
const RUN_UP: Duration = Duration::from_secs(1);

/// Single messages, one at a time, for one receiver that waits for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The queue.
    pub probe: Queue,
    /// The number of messages.
    pub samples: usize,
    /// The average pause between two messages, in milliseconds.
    pub pause_ms: u64,
    /// The queue of the other load, if there is one.
    pub beside: Option<Queue>,
    /// The other load, as a share of the throughput of its queue.
    pub share: f64,
}

/// The result of a [`Latency`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyOutcome {
    /// The times from sending to receiving.
    pub latencies: Latencies,
    /// Messages per second of the other load.
    pub beside_per_second: f64,
}

/// Waiting receivers, and the other load with its rate.
pub(crate) struct Prepared<S> {
    probe: Probe<S>,
    load: Option<(Load, f64)>,
}

impl Latency {
    pub(crate) async fn prepare<B: Broker>(&self, broker: &B) -> Result<Prepared<B::Sender>> {
        let mut load = None;
        if let Some(queue) = &self.beside {
            load = Some(loaded(broker, queue, self.share).await?);
        }
        let mut probe = Probe::start(broker, &self.probe).await?;
        probe.sample(WARM_UP, Duration::from_millis(self.pause_ms)).await?;
        Ok(Prepared { probe, load })
    }

    pub(crate) async fn measure<S: Sender>(&self, prepared: &mut Prepared<S>) -> Result<LatencyOutcome> {
        if let Some((load, rate)) = &mut prepared.load {
            load.set(Rate::PerSecond(*rate));
            load.watch(RUN_UP).await?;
        }
        let before = prepared.load.as_ref().map_or(0, |(load, _)| load.received());
        let began = tokio::time::Instant::now();
        let latencies = prepared.probe.sample(self.samples, Duration::from_millis(self.pause_ms)).await?;
        let after = prepared.load.as_ref().map_or(0, |(load, _)| load.received());
        let beside_per_second = (after - before) as f64 / began.elapsed().as_secs_f64();
        Ok(LatencyOutcome { latencies: Latencies::of(latencies), beside_per_second })
    }
}

/// Measures the throughput of a queue. Returns a load that sends nothing yet, and the rate that is `share` of the
/// throughput.
pub(crate) async fn loaded<B: Broker>(broker: &B, queue: &Queue, share: f64) -> Result<(Load, f64)> {
    let mut load = Load::start(broker, queue).await?;
    load.set(Rate::Full);
    load.watch(CALIBRATION / 2).await?;
    let most = load.watch(CALIBRATION).await?;
    load.drain().await?;
    Ok((load, most * share))
}
