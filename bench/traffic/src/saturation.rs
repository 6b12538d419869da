//! Whether who sends keeps who receives from receiving.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::load::{Load, Pace};
use crate::{Broker, Queue, Result};

/// Until connections are warm and there is a backlog.
const RUN_UP: Duration = Duration::from_secs(1);
/// How often to look whether the backlog is used up.
const STEP: Duration = Duration::from_millis(100);

/// All senders send as fast as they can, whatever is received; then no sender sends, and the backlog is received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saturation {
    /// What is used, and how.
    pub queue: Queue,
    /// For how long each.
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
        let period = Duration::from_secs(self.seconds);
        load.set(Pace::Flood);
        load.watch(RUN_UP).await?;
        let (began, before) = (Instant::now(), load.begun());
        let received_per_second = load.watch(period).await?;
        let sent_per_second = (load.begun() - before) as f64 / began.elapsed().as_secs_f64();
        load.set(Pace::Still);
        // What was on its way when the senders were told to stop is sent.
        load.watch(STEP).await?;
        let (began, before) = (Instant::now(), load.received());
        let enough = (self.queue.batch * self.queue.receivers) as u64;
        while began.elapsed() < period && load.begun() - load.received() > enough {
            load.watch(STEP).await?;
        }
        let alone_per_second =
            (load.received() - before) as f64 / began.elapsed().as_secs_f64().max(STEP.as_secs_f64());
        let missing = load.settle().await?;
        Ok(SaturationOutcome { sent_per_second, received_per_second, alone_per_second, missing })
    }
}
