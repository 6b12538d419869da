//! Single messages for receivers that wait.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::{Broker, Note, Queue, Receiver as _, Result, Sender};

/// How long a message may take before it counts as lost.
const ARRIVES_WITHIN: Duration = Duration::from_secs(20);
/// Until receivers wait.
const PARKS_WITHIN: Duration = Duration::from_millis(500);

/// One sender, and receivers of which one at a time has something to do. Ends when dropped.
pub(crate) struct Probe<S> {
    queue: Queue,
    sender: S,
    arrivals: mpsc::UnboundedReceiver<Duration>,
    receivers: JoinSet<Result<()>>,
}

impl<S: Sender> Probe<S> {
    /// Opens the queue and has all receivers wait.
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
                    // Before it is ended: the receiver has it now.
                    let ages: Vec<Duration> = notes.iter().map(Note::age).collect();
                    if !notes.is_empty() {
                        receiver.end().await?;
                    }
                    for age in ages {
                        // The receiver is gone: the round ends.
                        let _ = arrived.send(age);
                    }
                }
            });
        }
        let sender = broker.sender(queue).await?;
        sleep(PARKS_WITHIN).await;
        Ok(Probe { queue: queue.clone(), sender, arrivals, receivers })
    }

    /// Sends one and waits until it was received and ended; how long it took to be received.
    pub(crate) async fn send(&mut self) -> Result<Duration> {
        self.sender.send(&self.queue, 0, &[Note::now()]).await?;
        tokio::select! {
            arrived = timeout(ARRIVES_WITHIN, self.arrivals.recv()) => {
                arrived.map_err(|_| "a message did not arrive")?.ok_or_else(|| "all receivers have ended".into())
            }
            Some(ended) = self.receivers.join_next() => {
                Err(ended?.err().unwrap_or_else(|| "a receiver has ended by itself".into()))
            }
        }
    }

    /// Sends some, each a while after the last has been received; a while is half to three halves of `pause`.
    pub(crate) async fn sample(&mut self, samples: usize, pause: Duration) -> Result<Vec<Duration>> {
        let mut latencies = Vec::with_capacity(samples);
        for _ in 0..samples {
            sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            latencies.push(self.send().await?);
        }
        Ok(latencies)
    }
}
