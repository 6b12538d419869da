//! From sending to a receiver that waits, beside nothing or beside a load.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::{Load, Rate};
use crate::probe::Probe;
use crate::{Broker, Latencies, Queue, Result, Sender};

/// Samples that are not counted: connections are opened and statements prepared.
const WARM_UP: usize = 20;
/// How long is found out how much goes through.
const CALIBRATION: Duration = Duration::from_secs(4);
/// Until a load is even.
const RUN_UP: Duration = Duration::from_secs(1);

/// Single messages, one at a time, for one receiver that waits for them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Where they go.
    pub probe: Queue,
    /// How many.
    pub samples: usize,
    /// Between two, in milliseconds.
    pub pause_ms: u64,
    /// What else goes on, on another queue.
    pub beside: Option<Queue>,
    /// How much of it, as a share of what goes through there.
    pub share: f64,
}

/// How long they took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyOutcome {
    /// Of those that are counted.
    pub latencies: Latencies,
    /// Messages per second that went through beside them.
    pub beside_per_second: f64,
}

/// Ready to begin.
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

/// A load that stands still, and the rate that is so large a share of what it can do.
pub(crate) async fn loaded<B: Broker>(broker: &B, queue: &Queue, share: f64) -> Result<(Load, f64)> {
    let mut load = Load::start(broker, queue).await?;
    load.set(Rate::Full);
    load.watch(CALIBRATION / 2).await?;
    let most = load.watch(CALIBRATION).await?;
    load.drain().await?;
    Ok((load, most * share))
}
