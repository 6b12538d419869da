//! What the engine does by itself, whether or not workers are there.

use std::future::Future;
use std::time::Duration;

use reveille_wake::Consumer;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::Result;
use crate::event_driven::Cause;
use crate::flow::Flow;
use crate::task::due::{DUE_MAX, Due};

/// How long one wait is; it is only begun again.
const WAIT: Duration = Duration::from_secs(86_400);
/// The pause after a failure, which the log tells.
const PAUSE: Duration = Duration::from_secs(1);

/// Frees what workers that died have left behind, deals with tasks that take too long, removes those that are not kept any longer and submits what is scheduled, until these tasks are ended.
pub(crate) fn attend_all(flow: &Flow) -> [JoinHandle<()>; 4] {
    let leases = flow.clone();
    let leases = tokio::spawn(async move {
        let end = |tokens| leases.end_leases(tokens);
        attend("leases that have ended", &leases.inner.leases, end).await;
    });
    let tasks = flow.clone();
    let tasks = tokio::spawn(async move {
        let age = |due| tasks.age(due);
        attend("tasks that take too long", &tasks.inner.overdue, age).await;
    });
    let schedules = flow.clone();
    let schedules = tokio::spawn(async move {
        let run = |due| schedules.run_due(due);
        attend("schedules that are due", &schedules.inner.schedules, run).await;
    });
    let retention = flow.clone();
    let retention = tokio::spawn(async move {
        let prune = |due| retention.prune(due);
        attend("tasks that are not kept any longer", &retention.inner.retention, prune).await;
    });
    [leases, tasks, schedules, retention]
}

impl Flow {
    /// Deals with tasks that may have taken too long.
    async fn age(&self, tasks: Vec<Uuid>) -> Result<()> {
        self.inner.db.ask("age tasks", || sqlx::query(&self.inner.sql.age_tasks).bind(&tasks)).await?;
        tasks.iter().for_each(|task| self.inner.news.tell(None, *task, Cause::StepReport));
        Ok(())
    }
}

/// Does something about whatever a consumer finds, until it is closed. What fails is found again.
pub(crate) async fn attend<T, F>(what: &'static str, consumer: &Consumer<Due<T>>, act: impl Fn(Vec<T>) -> F)
where
    T: Send + Sync + 'static,
    F: Future<Output = Result<()>>,
{
    loop {
        let done = match consumer.claim((), DUE_MAX, (), Instant::now() + WAIT).await {
            Ok(found) => act(found.map(|found| found.accept()).unwrap_or_default()).await,
            Err(reveille_wake::Error::Closed { .. }) => return,
            Err(error) => Err(error.into()),
        };
        if let Err(error) = done {
            tracing::warn!(error = reveille_pg::causes(&error), "{what} could not be dealt with for now");
            tokio::time::sleep(PAUSE).await;
        }
    }
}
