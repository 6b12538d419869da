//! What the engine does by itself, whether or not workers are there.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use wake::{Claim, Consumer};

use crate::error::Result;
use crate::expire::ENDED_MAX;
use crate::flow::Flow;

/// How long one wait is; it is only begun again.
const WAIT: Duration = Duration::from_secs(86_400);
/// The pause after a failure, which the log tells.
const PAUSE: Duration = Duration::from_secs(1);

/// Does what nobody else does, until it is dropped or shut down. One per process is enough; several do not disturb each other.
#[derive(Debug)]
pub struct Orchestrator {
    tasks: Vec<JoinHandle<()>>,
}

impl Orchestrator {
    /// Stops, and returns when it has.
    pub async fn shutdown(mut self) {
        for task in &mut self.tasks {
            task.abort();
            let _ = task.await;
        }
    }
}

impl Drop for Orchestrator {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Flow {
    /// Starts to do what nobody else does: to end the last attempts of workers that died.
    pub fn orchestrate(&self) -> Orchestrator {
        let leases = self.clone();
        let leases = tokio::spawn(async move {
            let end = |tokens| leases.end_leases(tokens);
            attend("leases that have ended", &leases.inner.leases, ENDED_MAX, end).await;
        });
        Orchestrator { tasks: vec![leases] }
    }
}

/// Does something about whatever a consumer finds, until it is closed. What fails is found again.
pub(crate) async fn attend<C, F>(
    what: &'static str,
    consumer: &Consumer<C>,
    at_most: usize,
    act: impl Fn(Vec<C::Item>) -> F,
) where
    C: Claim<Key = (), Args = ()>,
    F: Future<Output = Result<()>>,
{
    loop {
        let done = match consumer.claim((), at_most, (), Instant::now() + WAIT).await {
            Ok(found) => act(found.map(|found| found.accept()).unwrap_or_default()).await,
            Err(wake::Error::Closed { .. }) => return,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = done {
            tracing::warn!(error = pg::causes(&error), "{what} could not be dealt with for now");
            tokio::time::sleep(PAUSE).await;
        }
    }
}
