//! Signals from the last turn of an orchestration to the task that waits for its result in the same process.
//!
//! duroxide's client reads the status of an instance again and again, with pauses of up to 100 ms. The end of an
//! orchestration that falls into a pause is seen late, and with a fixed number of orchestrations in progress that
//! bounds the rate of every provider alike, the fast ones most. Instead the orchestration function signals that it is
//! about to return, and one status read follows. The result is not visible before the ack of that turn commits, so that
//! read may come too early; such an instance is verified at the end of the round, when all others have been waited for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide::OrchestrationStatus;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::Result;

/// The pause before the second read of a verification.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause between two reads of a verification; they double up to it. Short, so that a commit is seen soon.
const LONGEST_PAUSE: Duration = Duration::from_millis(4);

/// The instances of one process that are waited for: as many as are in progress at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signals(Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>);

/// The signal of one instance, to be received once. Dropping it ends the registration.
#[derive(Debug)]
pub(crate) struct Expected {
    signals: Signals,
    instance: String,
    receiver: oneshot::Receiver<()>,
}

impl Signals {
    /// Registers an instance. Call it before the instance is started, or its signal may be lost.
    pub(crate) fn expect(&self, instance: &str) -> Expected {
        let (sender, receiver) = oneshot::channel();
        self.registered().insert(instance.to_owned(), sender);
        Expected { signals: self.clone(), instance: instance.to_owned(), receiver }
    }

    /// Signals that the function of an instance is about to return. No effect if the instance is not registered: it is
    /// waited for in another way, or its last turn is repeated and has signalled before.
    pub(crate) fn send(&self, instance: &str) {
        if let Some(sender) = self.registered().remove(instance) {
            // The receiver may be gone: its patience has ended.
            let _ = sender.send(());
        }
    }

    fn registered(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Expected {
    /// Waits for the signal.
    ///
    /// # Errors
    /// The same instance was registered again.
    pub(crate) async fn received(&mut self) -> Result<()> {
        Ok((&mut self.receiver).await?)
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.signals.registered().remove(&self.instance);
    }
}

/// Reads a status now, and again after 1 ms, 2 ms, 4 ms and then every 4 ms, until it is that of an ended instance.
/// Returns it with the number of reads.
pub(crate) async fn read_until_ended<F>(mut read: impl FnMut() -> F) -> Result<(OrchestrationStatus, usize)>
where
    F: Future<Output = Result<OrchestrationStatus>>,
{
    let (mut reads, mut pause) = (0, FIRST_PAUSE);
    loop {
        let status = read().await?;
        reads += 1;
        if has_ended(&status) {
            return Ok((status, reads));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Whether an instance with this status has ended.
pub(crate) fn has_ended(status: &OrchestrationStatus) -> bool {
    matches!(status, OrchestrationStatus::Completed { .. } | OrchestrationStatus::Failed { .. })
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// A signal that is sent before it is waited for is received, and a repeated turn may send it again.
    /// What has been received or dropped is no longer registered.
    #[tokio::test]
    async fn a_signal_is_received_once_whenever_it_is_sent() {
        let signals = Signals::default();
        let (mut early, unused) = (signals.expect("early"), signals.expect("unused"));
        signals.send("early");
        signals.send("early");
        signals.send("unknown");
        early.received().await.unwrap();
        drop(unused);
        signals.send("unused");
        assert!(signals.registered().is_empty());
    }

    /// Reads are 1, 2, 4, 4 ms apart, and the read that sees the end is the last. The clock is simulated.
    #[tokio::test(start_paused = true)]
    async fn status_reads_stop_at_the_end_of_the_instance() {
        let (began, mut read_at) = (Instant::now(), Vec::new());
        let (status, reads) = read_until_ended(|| {
            read_at.push(began.elapsed().as_millis());
            let (output, custom_status, custom_status_version) = (String::new(), None, 0);
            let status = if read_at.len() == 5 {
                OrchestrationStatus::Completed { output, custom_status, custom_status_version }
            } else {
                OrchestrationStatus::Running { custom_status, custom_status_version }
            };
            async { Ok(status) }
        })
        .await
        .unwrap();
        assert!(matches!(status, OrchestrationStatus::Completed { .. }) && reads == 5);
        assert_eq!(read_at, [0, 1, 3, 7, 11]);
    }
}
