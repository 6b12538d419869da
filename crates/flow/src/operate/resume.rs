//! Resuming a task that ended in error: because a step failed, or because it exceeded a time limit.

use uuid::Uuid;

use super::bulk::Each;
use super::change::Effect;
use super::{BULK_MAX, BulkFilter, BulkOperation, BulkRequest, Obstacle, Operation, Operator};
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::query::task::{STEP_PAGE_MAX, TaskSummary};
use crate::task::state::{StepState, TaskState};

impl Flow {
    /// Resumes a task that ended in error. Permanently failed steps, and steps that were cancelled because the task
    /// exceeded a time limit, get all their attempts again. The limits of its `lifecycle` count from now.
    ///
    /// Each failed step is reset in a transaction of its own, as by [`Operation::ResetForRetry`]. After a failure call
    /// it again.
    ///
    /// # Errors
    /// [`Error::NoTask`]; [`Error::NotAllowed`] if it has not ended in error; otherwise a database error.
    pub async fn resume(&self, task: Uuid, operator: Operator) -> Result<TaskSummary> {
        operator.check()?;
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
        // This ends: every round but the last resets as many steps as a request may.
        loop {
            let rows = self.operable(&failed).await?;
            for row in &rows {
                let (_, refused) =
                    self.one(row, &Each::Step(Operation::ResetForRetry), &operator, Effect::Apply).await?;
                refused.map_or(Ok(()), Err)?;
            }
            if rows.len() < BULK_MAX {
                break;
            }
        }
        // No step failed: resetting one cancelled step resets all of them.
        if self.summary(task).await?.ok_or(Error::NoTask { task })?.status == TaskState::Error {
            let mut after = None;
            let cancelled = loop {
                let page = self.steps(task, after.as_deref(), STEP_PAGE_MAX).await?.ok_or(Error::NoTask { task })?;
                match page.steps.into_iter().find(|step| step.state == StepState::Cancelled) {
                    Some(step) => break step,
                    None => after = Some(page.next.ok_or_else(|| obstacle(&found))?),
                }
            };
            self.operate(task, &cancelled.name, Operation::ResetForRetry, operator).await?;
        }
        self.summary(task).await?.ok_or(Error::NoTask { task })
    }
}
