//! Progress: the steps and tasks that handlers have run.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::{Semaphore, watch};

use crate::Result;

/// Counts what has run.
#[derive(Debug)]
pub struct Progress {
    steps: AtomicU64,
    tasks: watch::Sender<u64>,
    /// For tasks that may still be submitted.
    pub(crate) room: Semaphore,
}

impl Default for Progress {
    fn default() -> Self {
        Progress { steps: AtomicU64::new(0), tasks: watch::Sender::new(0), room: Semaphore::new(0) }
    }
}

impl Progress {
    /// A step has run; perhaps the last of its task.
    pub fn ran(&self, is_last: bool) {
        self.steps.fetch_add(1, Relaxed);
        if is_last {
            self.tasks.send_modify(|tasks| *tasks += 1);
            self.room.add_permits(1);
        }
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps.load(Relaxed)
    }

    /// Tasks so far.
    pub fn tasks(&self) -> u64 {
        *self.tasks.borrow()
    }

    /// Returns when so many tasks have run.
    ///
    /// # Errors
    /// Never while this is held.
    pub async fn reach(&self, tasks: u64) -> Result<()> {
        self.tasks.subscribe().wait_for(|ran| *ran >= tasks).await?;
        Ok(())
    }
}
