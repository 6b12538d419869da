//! Workers in Rust: handlers with typed input and output, and what runs them.
//!
//! A [`Worker`] claims steps for as many handlers as may run at a time, says every third of a lease that it is still at them, and tells the engine how each ended. A handler that
//! panics, takes too long or loses its step hurts no other. Everything is one task that owns what it knows (`run.rs`), and one task for each handler at work: there is no lock, and
//! nothing is polled.
//!
//! **Which steps it claims.** Those of its namespaces; of certain names only, if it is told which. The template says which *callable* carries out a step, and a worker finds the
//! handler by that. A step whose callable it does not have is given back, uncharged, and the worker leaves steps of that name alone for a while, which the log tells. So several
//! programs can share a namespace, each with handlers of its own; those that name their steps never meet others'.
//!
//! **What is promised.** A step's word counts once, and only while the step is this worker's: the database compares the fence. A handler may run more than once all the same, because a
//! worker may die after it and before its word: effects outside the database must bear that. Somebody has to [`orchestrate`](crate::Flow::orchestrate), in this process or another: a
//! worker that dies with the last attempt of a step leaves that to the engine.

mod build;
mod counts;
mod decision;
mod failure;
mod handler;
mod handlers;
mod heartbeat;
mod run;
mod step;
mod unhandled;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use build::WorkerBuilder;
pub use counts::WorkerCounts;
pub use handler::{Answer, Handled, Handler};
pub use handlers::Handlers;
pub use step::{Signal, Step};

use counts::Tally;

/// A worker that runs. Made by [`Flow::worker`](crate::Flow::worker). Dropped, it ends what its handlers do and gives their steps back, as far as that can be said before the process ends.
#[derive(Debug)]
pub struct Worker {
    tally: Arc<Tally>,
    /// Ends it: says for how long handlers may go on.
    end: oneshot::Sender<Duration>,
    ended: JoinHandle<()>,
}

impl Worker {
    /// What it has done so far.
    pub fn counts(&self) -> WorkerCounts {
        self.tally.snapshot()
    }

    /// Whether it has not ended.
    pub(crate) fn is_running(&self) -> bool {
        !self.ended.is_finished()
    }

    /// Stops: claims nothing more, lets handlers go on for so long, gives back uncharged what is not done by then, and answers what it has done when everything is said.
    ///
    /// Handlers hear of it by [`Signal::stopping`]: one that saves checkpoints can yield. What they answer counts as ever.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing: the worker goes on stopping.
    pub async fn stop(self, grace: Duration) -> WorkerCounts {
        // Whoever does not listen has ended.
        let _ = self.end.send(grace);
        let _ = self.ended.await;
        self.tally.snapshot()
    }
}
