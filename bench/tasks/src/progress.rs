//! Progress: the steps and tasks that handlers have run.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::{Semaphore, watch};

use crate::Result;

/// Counts steps and tasks that have run.
#[derive(Debug)]
pub struct Progress {
    steps: AtomicU64,
    tasks: watch::Sender<u64>,
    /// A permit for each task that may be submitted now.
    pub(crate) room: Semaphore,
}

impl Default for Progress {
    fn default() -> Self {
        Progress { steps: AtomicU64::new(0), tasks: watch::Sender::new(0), room: Semaphore::new(0) }
    }
}

impl Progress {
    /// Counts a step, and its task if the step is the last one.
    pub fn ran(&self, is_last: bool) {
        self.steps.fetch_add(1, Relaxed);
        if is_last {
            self.tasks.send_modify(|tasks| *tasks += 1);
            self.room.add_permits(1);
        }
    }

    /// The number of steps so far.
    pub fn steps(&self) -> u64 {
        self.steps.load(Relaxed)
    }

    /// The number of tasks so far.
    pub fn tasks(&self) -> u64 {
        *self.tasks.borrow()
    }

    /// Returns when `tasks` tasks have run.
    ///
    /// # Errors
    /// Never while this is held.
    pub async fn reach(&self, tasks: u64) -> Result<()> {
        self.tasks.subscribe().wait_for(|ran| *ran >= tasks).await?;
        Ok(())
    }
}
