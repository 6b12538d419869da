//! Whether senders keep receivers from receiving.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::load::{Load, Rate};
use crate::{Broker, Queue, Result};

/// Until connections are warm and there is a backlog.
const RUN_UP: Duration = Duration::from_secs(1);
/// How often to look whether the backlog is used up.
const STEP: Duration = Duration::from_millis(100);

/// How long senders send, and for how long they do not then.
const TURN: Duration = Duration::from_secs(1);

/// All senders send as fast as they can, whatever is received; then no sender sends, and the backlog is received; and
/// so on in turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saturation {
    /// What is used, and how.
    pub queue: Queue,
    /// For how many seconds each.
    pub seconds: u64,
}

/// What was received while senders sent, and after they had stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SaturationOutcome {
    /// Messages per second that were sent.
    pub sent_per_second: f64,
    /// Messages per second that every group received meanwhile.
    pub received_per_second: f64,
    /// And after the senders had stopped, as long as there were any.
    pub alone_per_second: f64,
    /// Messages that a group should have received and has not.
    pub missing: u64,
}

/// Ready to begin.
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
        // In turns of a second: the machine is not equally fast all the time.
        for _ in 0..self.seconds {
            load.set(Rate::Flood);
            load.watch(STEP).await?;
            let (began, begun, received) = (Instant::now(), load.begun(), load.received());
            load.watch(TURN).await?;
            sent.add(load.begun() - begun, began.elapsed());
            beside.add(load.received() - received, began.elapsed());
            load.set(Rate::Still);
            // Messages in transit when the senders were stopped are still sent.
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
