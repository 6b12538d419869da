//! Ctrl-C during a long operation.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Error;

/// Receives SIGINT and SIGTERM, so that an operation can end between two requests. Without it they end the process.
pub struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupt {
    /// Begins to receive signals.
    ///
    /// # Errors
    /// [`Error::Signals`].
    pub fn listen() -> Result<Interrupt, Error> {
        let interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
        let terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
        Ok(Interrupt { interrupt, terminate })
    }

    /// Resolves once a signal has arrived. May be dropped and called again.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// The result of `work`, or `None` if a signal arrives first; `work` is dropped then.
    pub async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.received() => None,
            done = work => Some(done),
        }
    }
}
