//! Many receivers that wait without messages, on one queue or on one each; then all of them are served.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::{Broker, Queue, Receiver, Result, Sender};

/// How long serving all receivers may take.
const SERVED_WITHIN: Duration = Duration::from_secs(120);
/// Receivers that connect at the same time.
const AT_ONCE: usize = 100;
/// The most connections that send.
const SENDERS: usize = 4;
/// The pause after which the last connected receivers wait, too.
const PARKS_WITHIN: Duration = Duration::from_secs(3);

/// A number of waiting receivers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crowd {
    /// The name of the queue, or the prefix of the names of several queues.
    pub name: String,
    /// The number of receivers.
    pub receivers: usize,
    /// The number of queues.
    pub queues: usize,
    /// How long they wait without messages, in seconds.
    pub seconds: u64,
}

/// The result of one of the two parts. Everything else is measured from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrowdOutcome {
    /// The duration of the part: of waiting, then of serving.
    pub seconds: f64,
}

/// A crowd that waits.
pub(crate) struct Prepared<S> {
    senders: Vec<S>,
    served: mpsc::UnboundedReceiver<()>,
    receivers: JoinSet<Result<()>>,
    waited: bool,
}

impl Crowd {
    fn queue(&self, number: usize) -> Queue {
        let name = if self.queues == 1 { self.name.clone() } else { format!("{}_{number}", self.name) };
        // One partition per receiver, so that all can be served at the same time.
        Queue { partitions: self.receivers / self.queues, ..Queue::probed(name, 1) }
    }

    pub(crate) async fn prepare<B: Broker>(&self, broker: &B) -> Result<Prepared<B::Sender>> {
        let mut senders = Vec::new();
        for queue in 0..self.queues {
            broker.open(&self.queue(queue)).await?;
        }
        for _ in 0..SENDERS {
            senders.push(broker.sender(&self.queue(0)).await?);
        }
        let (tell, served) = mpsc::unbounded_channel();
        let mut receivers = JoinSet::new();
        for first in (0..self.receivers).step_by(AT_ONCE) {
            let mut connecting = JoinSet::new();
            for number in first..self.receivers.min(first + AT_ONCE) {
                let (broker, queue) = (broker.clone(), self.queue(number % self.queues));
                connecting.spawn(async move { broker.receiver(&queue, 0, 0).await });
            }
            while let Some(receiver) = connecting.join_next().await {
                receivers.spawn(once(receiver??, tell.clone()));
            }
        }
        sleep(PARKS_WITHIN).await;
        Ok(Prepared { senders, served, receivers, waited: false })
    }

    /// Measures waiting when called first, and serving when called again.
    pub(crate) async fn measure<S: Sender>(&self, prepared: &mut Prepared<S>) -> Result<CrowdOutcome> {
        let began = Instant::now();
        if !std::mem::replace(&mut prepared.waited, true) {
            sleep(Duration::from_secs(self.seconds)).await;
        } else {
            self.serve(prepared).await?;
        }
        if let Some(ended) = prepared.receivers.try_join_next()
            && let Err(error) = ended?
        {
            return Err(error);
        }
        Ok(CrowdOutcome { seconds: began.elapsed().as_secs_f64() })
    }

    async fn serve<S: Sender>(&self, prepared: &mut Prepared<S>) -> Result<()> {
        let all: Vec<(Queue, usize)> =
            (0..self.receivers).map(|number| (self.queue(number % self.queues), number / self.queues)).collect();
        let mut sending = JoinSet::new();
        let share = all.len().div_ceil(prepared.senders.len().max(1));
        for (mut sender, mine) in std::mem::take(&mut prepared.senders).into_iter().zip(all.chunks(share)) {
            let mine = mine.to_vec();
            sending.spawn(async move { sender.scatter(&mine).await });
        }
        let all = async {
            for sent in sending.join_all().await {
                sent?;
            }
            for _ in 0..self.receivers {
                prepared.served.recv().await.ok_or("receivers ended before they got a message")?;
            }
            Ok(())
        };
        timeout(SERVED_WITHIN, all).await.map_err(|_| "not all receivers were served in time")?
    }
}

/// Receives and acks one message, then keeps the connection open.
async fn once(mut receiver: impl Receiver, tell: mpsc::UnboundedSender<()>) -> Result<()> {
    while receiver.receive().await?.is_empty() {}
    receiver.end().await?;
    // An error means that the round has ended.
    let _ = tell.send(());
    // The connection stays open, as that of a client that waits again.
    std::future::pending().await
}
