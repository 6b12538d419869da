//! Letting a task go on that ended as an error: by a failure, or because it took too long.

use uuid::Uuid;

use super::act::Manner;
use super::bulk::Each;
use super::{BULK_MAX, BulkFilter, BulkOperation, BulkRequest, Obstacle, Operation, Who};
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::query::task::{STEP_PAGE_MAX, TaskSummary};
use crate::task::state::{StepState, TaskState};

impl Flow {
    /// Lets a task go on that ended as an error. Steps that failed for good get all their attempts again, and so do those that were cancelled because the task took too long. The limits of its
    /// `lifecycle` count from now.
    ///
    /// Each failed step is reset by itself, as by [`Operation::ResetForRetry`]: if this stops halfway, call it again.
    ///
    /// # Errors
    /// [`Error::NoTask`]; [`Error::NotAllowed`] if it has not ended as an error. Else the database's.
    pub async fn resume(&self, task: Uuid, who: Who) -> Result<TaskSummary> {
        who.check()?;
        let obstacle = |found: &TaskSummary| {
            let obstacle = Obstacle::Itself(found.status);
            Error::NotAllowed { task, step: None, operation: "resume", obstacle }
        };
        let found = self.summary(task).await?.ok_or(Error::NoTask { task })?;
        if found.status != TaskState::Error {
            return Err(obstacle(&found));
        }
        let failed = BulkRequest {
            filter: BulkFilter { tasks: Some(vec![task]), ..BulkFilter::default() },
            operation: BulkOperation::ResetForRetry,
            limit: BULK_MAX,
            preview: false,
        };
        // A task has no more failed steps than steps: every round resets some, or it ends here.
        loop {
            let rows = self.operable(&failed).await?;
            for row in &rows {
                let (_, refused) = self.one(row, &Each::Step(Operation::ResetForRetry), &who, Manner::Earnest).await?;
                refused.map_or(Ok(()), Err)?;
            }
            if rows.len() < BULK_MAX {
                break;
            }
        }
        // Where none failed, any that was cancelled brings back all of those.
        if self.summary(task).await?.ok_or(Error::NoTask { task })?.status == TaskState::Error {
            let mut after = None;
            let cancelled = loop {
                let page = self.steps(task, after.as_deref(), STEP_PAGE_MAX).await?.ok_or(Error::NoTask { task })?;
                match page.steps.into_iter().find(|step| step.state == StepState::Cancelled) {
                    Some(step) => break step,
                    None => after = Some(page.next.ok_or_else(|| obstacle(&found))?),
                }
            };
            self.operate(task, &cancelled.name, Operation::ResetForRetry, who).await?;
        }
        self.summary(task).await?.ok_or(Error::NoTask { task })
    }
}
