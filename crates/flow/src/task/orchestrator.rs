//! What the engine does by itself, with or without workers.

use std::future::Future;
use std::time::Duration;

use reveille_wake::Consumer;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::Result;
use crate::events::Cause;
use crate::flow::Flow;
use crate::task::due::{DUE_MAX, Due};

/// How long one claim waits before it is repeated.
const WAIT: Duration = Duration::from_secs(86_400);
/// The pause after a failure, which is logged.
const PAUSE: Duration = Duration::from_secs(1);

/// Ends last attempts whose leases ended, acts on tasks that exceed a time limit, submits scheduled tasks and removes
/// tasks whose retention is over, until the returned tasks are aborted.
pub(crate) fn maintain(flow: &Flow) -> [JoinHandle<()>; 4] {
    let leases = flow.clone();
    let leases = tokio::spawn(async move {
        let end = |tokens| leases.end_leases(tokens);
        process_due("ended leases", &leases.inner.leases, end).await;
    });
    let tasks = flow.clone();
    let tasks = tokio::spawn(async move {
        let age = |due| tasks.age(due);
        process_due("overdue tasks", &tasks.inner.overdue, age).await;
    });
    let schedules = flow.clone();
    let schedules = tokio::spawn(async move {
        let run = |due| schedules.run_due(due);
        process_due("due schedules", &schedules.inner.schedules, run).await;
    });
    let retention = flow.clone();
    let retention = tokio::spawn(async move {
        let prune = |due| retention.prune(due);
        process_due("tasks whose retention is over", &retention.inner.retention, prune).await;
    });
    [leases, tasks, schedules, retention]
}

impl Flow {
    /// Acts on tasks that may have exceeded a time limit.
    async fn age(&self, tasks: Vec<Uuid>) -> Result<()> {
        self.inner.db.ask("age tasks", || sqlx::query(&self.inner.sql.age_tasks).bind(&tasks)).await?;
        tasks.iter().for_each(|task| self.inner.task_events.publish(None, *task, Cause::Ended));
        Ok(())
    }
}

/// Processes everything that a consumer finds, until the consumer is closed. Failed items are found again.
async fn process_due<T, F>(what: &'static str, consumer: &Consumer<Due<T>>, process: impl Fn(Vec<T>) -> F)
where
    T: Send + Sync + 'static,
    F: Future<Output = Result<()>>,
{
    loop {
        let done = match consumer.claim((), DUE_MAX, (), Instant::now() + WAIT).await {
            Ok(found) => process(found.map(|found| found.accept()).unwrap_or_default()).await,
            Err(reveille_wake::Error::Closed { .. }) => return,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = done {
            tracing::warn!(error = reveille_pg::causes(&error), "processing {what} failed; retrying");
            tokio::time::sleep(PAUSE).await;
        }
    }
}
