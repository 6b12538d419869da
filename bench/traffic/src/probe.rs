//! Sends single messages to waiting receivers.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::{Broker, Note, Queue, Receiver as _, Result, Sender};

/// How long a message may take before it counts as lost.
const ARRIVES_WITHIN: Duration = Duration::from_secs(20);
/// The pause after which the receivers wait.
const PARKS_WITHIN: Duration = Duration::from_millis(500);

/// One sender, and receivers of which one at a time gets a message. Dropping this ends them.
pub(crate) struct Probe<S> {
    queue: Queue,
    sender: S,
    arrivals: mpsc::UnboundedReceiver<Duration>,
    receivers: JoinSet<Result<()>>,
}

impl<S: Sender> Probe<S> {
    /// Opens the queue, connects the receivers, and returns when they wait.
    pub(crate) async fn start<B: Broker<Sender = S>>(broker: &B, queue: &Queue) -> Result<Probe<S>> {
        broker.open(queue).await?;
        let (arrived, arrivals) = mpsc::unbounded_channel();
        let mut receivers = JoinSet::new();
        for number in 0..queue.receivers {
            let mut receiver = broker.receiver(queue, 0, number).await?;
            let arrived = arrived.clone();
            receivers.spawn(async move {
                loop {
                    let notes = receiver.receive().await?;
                    // Measured before the ack: the receiver has the message now.
                    let ages: Vec<Duration> = notes.iter().map(Note::age).collect();
                    if !notes.is_empty() {
                        receiver.end().await?;
                    }
                    for age in ages {
                        // An error means that the round has ended.
                        let _ = arrived.send(age);
                    }
                }
            });
        }
        let sender = broker.sender(queue).await?;
        sleep(PARKS_WITHIN).await;
        Ok(Probe { queue: queue.clone(), sender, arrivals, receivers })
    }

    /// Sends a message and waits until it has been received and acked. Returns the time from sending to receiving.
    pub(crate) async fn send(&mut self) -> Result<Duration> {
        self.sender.send(&self.queue, 0, &[Note::now()]).await?;
        tokio::select! {
            arrived = timeout(ARRIVES_WITHIN, self.arrivals.recv()) => {
                arrived.map_err(|_| "a message was not received")?.ok_or_else(|| "all receivers have ended".into())
            }
            Some(ended) = self.receivers.join_next() => {
                Err(ended?.err().unwrap_or_else(|| "a receiver ended early".into()))
            }
        }
    }

    /// Sends `samples` messages, each when the one before has been acked and after a pause of 0.5 to 1.5 times `pause`.
    pub(crate) async fn sample(&mut self, samples: usize, pause: Duration) -> Result<Vec<Duration>> {
        let mut latencies = Vec::with_capacity(samples);
        for _ in 0..samples {
            sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            latencies.push(self.send().await?);
        }
        Ok(latencies)
    }
}
