//! How much the rate of receivers drops while senders send as fast as they can.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::load::{Load, Rate};
use crate::{Broker, Queue, Result};

/// The time until connections are warm and there is a backlog.
const RUN_UP: Duration = Duration::from_secs(1);
/// How often to check whether the backlog has been received.
const STEP: Duration = Duration::from_millis(100);

/// How long senders send, and how long they then pause at most.
const TURN: Duration = Duration::from_secs(1);

/// All senders send as fast as they can, without a limit of the backlog; then no sender sends, and the backlog is
/// received. This is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saturation {
    /// The queue.
    pub queue: Queue,
    /// The number of repetitions, and so the seconds of sending.
    pub seconds: u64,
}

/// The rates of receivers while senders sent, and while they had stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SaturationOutcome {
    /// Messages per second that were sent while senders sent.
    pub sent_per_second: f64,
    /// Messages per second that every group received meanwhile.
    pub received_per_second: f64,
    /// Messages per second that every group received while senders had stopped and there was a backlog.
    pub alone_per_second: f64,
    /// Messages that were sent and that a group has not received.
    pub missing: u64,
}

/// A load that is ready.
pub(crate) struct Prepared(Load);

impl Saturation {
    pub(crate) async fn prepare<B: Broker>(&self, broker: &B) -> Result<Prepared> {
        Ok(Prepared(Load::start(broker, &self.queue).await?))
    }

    pub(crate) async fn measure(&self, Prepared(load): &mut Prepared) -> Result<SaturationOutcome> {
        load.set(Rate::Flood);
        load.watch(RUN_UP).await?;
        let (mut sent, mut beside, mut alone) = (Tally::default(), Tally::default(), Tally::default());
        let enough = (self.queue.batch * self.queue.receivers) as u64;
        // Alternating every second, because the speed of the machine varies.
        for _ in 0..self.seconds {
            load.set(Rate::Flood);
            load.watch(STEP).await?;
            let (began, begun, received) = (Instant::now(), load.begun(), load.received());
            load.watch(TURN).await?;
            sent.add(load.begun() - begun, began.elapsed());
            beside.add(load.received() - received, began.elapsed());
            load.set(Rate::Still);
            // Batches that were being sent when the senders were stopped are completed first.
            load.watch(STEP).await?;
            let (began, received) = (Instant::now(), load.received());
            while began.elapsed() < TURN && load.begun() - load.received() > enough {
                load.watch(STEP).await?;
            }
            alone.add(load.received() - received, began.elapsed());
        }
        let missing = load.drain().await?;
        Ok(SaturationOutcome {
            sent_per_second: sent.rate(),
            received_per_second: beside.rate(),
            alone_per_second: alone.rate(),
            missing,
        })
    }
}

/// Messages, and the time they took.
#[derive(Default)]
struct Tally {
    messages: u64,
    time: Duration,
}

impl Tally {
    fn add(&mut self, messages: u64, time: Duration) {
        self.messages += messages;
        self.time += time;
    }

    fn rate(&self) -> f64 {
        self.messages as f64 / self.time.as_secs_f64().max(STEP.as_secs_f64())
    }
}
