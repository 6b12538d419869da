//! The Rust worker SDK: handlers with typed input and output, and the worker that runs them.
//!
//! A [`Worker`] claims as many steps as it has free handler slots, sends a heartbeat every third of a lease, and
//! reports how each attempt ended. A handler that panics, times out or loses its step does not affect the others. One
//! tokio task owns all state (`run.rs`), and each running handler is a task of its own: there is no lock, and nothing
//! is polled.
//!
//! **Which steps are claimed.** All steps of the worker's namespaces, or only those with the given names. The template
//! names the *callable* of a step, and the worker looks up the handler by it. A step without a matching handler is
//! *unhandled*: it is released without counting an attempt, a warning is logged, and the worker does not claim steps
//! with that name for a while. So several programs can share a namespace, each with its own handlers. Workers that list
//! their step names never claim unhandled steps.
//!
//! **Pipelined reports.** While a report is committed, the slot of its handler is free: see `slots.rs`.
//!
//! **Guarantees.** A report is applied once, and only while the worker holds the lease: the database checks a fencing
//! token. A handler may still run more than once, because a worker may die after the handler and before the report.
//! Effects outside the database must be idempotent. [`Flow::orchestrate`](crate::Flow::orchestrate) must run in this
//! process or another one: it ends a step whose worker died during the last attempt.

mod build;
mod counts;
mod decision;
mod failure;
mod handler;
mod handlers;
mod heartbeat;
mod reports;
mod run;
mod slots;
mod step;
mod unhandled;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use build::WorkerBuilder;
pub use counts::WorkerCounts;
pub use handler::{Handled, Handler, HandlerOutput};
pub use handlers::Handlers;
pub use step::{Signal, Step};

use counts::Tally;

/// A running worker, started by [`Flow::worker`](crate::Flow::worker). Dropping it aborts its handlers and releases
/// their steps, as far as the process lives long enough to send that.
#[derive(Debug)]
pub struct Worker {
    tally: Arc<Tally>,
    /// Stops the worker; the value is the grace period of its handlers.
    end: oneshot::Sender<Duration>,
    ended: JoinHandle<()>,
}

impl Worker {
    /// What the worker has done so far.
    pub fn counts(&self) -> WorkerCounts {
        self.tally.snapshot()
    }

    /// Whether the worker is running.
    pub(crate) fn is_running(&self) -> bool {
        !self.ended.is_finished()
    }

    /// Stops the worker: it claims no more steps, gives handlers a grace period, and then aborts them and releases
    /// their steps without counting an attempt. Returns when the outcome of every report is known, or its retries have
    /// ended.
    ///
    /// Handlers are notified by [`Signal::stopping`]: one that saves checkpoints can yield. Results within the grace
    /// period are applied as usual.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing: the worker continues to stop.
    pub async fn stop(self, grace: Duration) -> WorkerCounts {
        // Fails only if the worker has ended already.
        let _ = self.end.send(grace);
        let _ = self.ended.await;
        self.tally.snapshot()
    }
}
