//! Stopping the server of a directory.

use std::time::{Duration, Instant};

use super::home::Home;
use super::launch::POLL_EVERY;
use super::postmaster::{self, Signal};
use super::{Error, Result};

/// How long a stop may take: a fast shutdown writes a checkpoint first.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

impl Home {
    /// Stops the server. Succeeds if it does not run.
    pub(super) async fn end(&self, signal: Signal) -> Result<()> {
        let pgdata = self.data();
        let Some(file) = postmaster::running(&pgdata) else { return Ok(()) };
        postmaster::signal(file.pid, signal, self.account())?;
        let since = Instant::now();
        while postmaster::serves(file.pid, &pgdata) {
            if since.elapsed() > STOP_TIMEOUT {
                return Err(Error::StillStopping { pid: file.pid, waited: STOP_TIMEOUT, log: self.log() });
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
        Ok(())
    }
}
