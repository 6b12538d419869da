//! How a task stands, from how many of its steps are where.

use serde::Serialize;
use utoipa::ToSchema;

use crate::task::state::{StepState, TaskState};

/// How many steps of a task are where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepCounts {
    /// All that exist.
    pub total: u32,
    /// They wait for parents.
    pub pending: u32,
    /// They are ready, and nobody has them.
    pub ready: u32,
    /// Workers have them.
    pub in_progress: u32,
    /// They failed, and their next attempt is not due yet.
    pub waiting_for_retry: u32,
    /// They are done, or somebody dealt with them.
    pub complete: u32,
    /// They failed for good, and nothing goes on without them.
    pub failed: u32,
    /// They ended without being done: cancelled, or failed where that does not matter.
    pub dropped: u32,
}

/// How a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// A step failed for good.
    BlockedByFailures,
    /// A step can be claimed.
    HasReadySteps,
    /// A worker has a step.
    Processing,
    /// Nothing is left to do.
    AllComplete,
    /// Nothing can be done now.
    WaitingForDependencies,
    /// The task took longer than its template allows. What was left of it is cancelled; it can be resumed.
    TimedOut,
    /// An operator cancelled the task.
    Cancelled,
    /// An operator dealt with the task by other means.
    ResolvedManually,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecommendedAction {
    /// Look at what failed: reset it, or resolve it.
    HandleFailures,
    /// Have workers for the steps that are ready.
    ExecuteReadySteps,
    /// Wait for the workers.
    WaitForCompletion,
    /// Nothing: it is over.
    FinalizeTask,
    /// Wait for what the next step waits for.
    WaitForDependencies,
}

/// How worried to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// Not at all.
    Healthy,
    /// Nothing goes on until somebody does something.
    Blocked,
    /// A step failed and will be tried again.
    Recovering,
    /// An operator cancelled the task: it is not going to be done.
    Cancelled,
}

impl StepCounts {
    /// Counts a step in. `spared`: the rest goes on without it, should it have failed.
    pub(crate) fn add(&mut self, state: StepState, spared: bool) {
        self.total += 1;
        *self.place(state, spared) += 1;
    }

    /// Counts a step where it is now, and not where it was.
    pub(crate) fn shift(&mut self, from: StepState, to: StepState, spared: bool) {
        *self.place(from, spared) -= 1;
        *self.place(to, spared) += 1;
    }

    fn place(&mut self, state: StepState, spared: bool) -> &mut u32 {
        match state {
            StepState::Pending => &mut self.pending,
            StepState::Enqueued => &mut self.ready,
            StepState::WaitingForRetry => &mut self.waiting_for_retry,
            StepState::Complete | StepState::ResolvedManually => &mut self.complete,
            StepState::Error if !spared => &mut self.failed,
            StepState::Error | StepState::Cancelled => &mut self.dropped,
            // What has come in is under way until it is settled, which is the same moment.
            StepState::InProgress
            | StepState::EnqueuedForOrchestration
            | StepState::EnqueuedAsErrorForOrchestration => &mut self.in_progress,
        }
    }

    /// How the task stands. `ended` is the state in which it ended; `None` while it is open. What comes first counts: a failure hides ready steps, ready steps hide what is under way.
    ///
    /// The end of a task is more than the sum of its steps: steps that were cancelled are over, but the task is not complete.
    pub fn execution_status(&self, ended: Option<TaskState>) -> ExecutionStatus {
        match ended {
            Some(TaskState::Complete) => return ExecutionStatus::AllComplete,
            Some(TaskState::Cancelled) => return ExecutionStatus::Cancelled,
            Some(TaskState::ResolvedManually) => return ExecutionStatus::ResolvedManually,
            // An error without a failed step: the task took too long.
            Some(TaskState::Error) if self.failed == 0 => return ExecutionStatus::TimedOut,
            _ => {}
        }
        if self.failed > 0 {
            ExecutionStatus::BlockedByFailures
        } else if self.ready > 0 {
            ExecutionStatus::HasReadySteps
        } else if self.in_progress > 0 {
            ExecutionStatus::Processing
        } else if self.complete + self.dropped == self.total {
            ExecutionStatus::AllComplete
        } else {
            ExecutionStatus::WaitingForDependencies
        }
    }

    /// What to do about it.
    pub fn recommended_action(&self, ended: Option<TaskState>) -> RecommendedAction {
        match self.execution_status(ended) {
            ExecutionStatus::BlockedByFailures | ExecutionStatus::TimedOut => RecommendedAction::HandleFailures,
            ExecutionStatus::HasReadySteps => RecommendedAction::ExecuteReadySteps,
            ExecutionStatus::Processing => RecommendedAction::WaitForCompletion,
            ExecutionStatus::AllComplete | ExecutionStatus::Cancelled | ExecutionStatus::ResolvedManually => {
                RecommendedAction::FinalizeTask
            }
            ExecutionStatus::WaitingForDependencies => RecommendedAction::WaitForDependencies,
        }
    }

    /// How worried to be.
    pub fn health_status(&self, ended: Option<TaskState>) -> HealthStatus {
        match self.execution_status(ended) {
            ExecutionStatus::BlockedByFailures | ExecutionStatus::TimedOut => HealthStatus::Blocked,
            ExecutionStatus::Cancelled => HealthStatus::Cancelled,
            ExecutionStatus::AllComplete | ExecutionStatus::ResolvedManually => HealthStatus::Healthy,
            _ if self.waiting_for_retry > 0 => HealthStatus::Recovering,
            _ => HealthStatus::Healthy,
        }
    }

    /// How much is done, in percent with two decimals; everything, if there is nothing to do.
    pub fn completion_percentage(&self) -> f64 {
        if self.total == 0 {
            return 100.0;
        }
        (f64::from(self.complete) / f64::from(self.total) * 10_000.0).round() / 100.0
    }

    /// The public state of a task that is not over.
    pub fn open_state(&self) -> TaskState {
        match () {
            () if self.in_progress > 0 => TaskState::StepsInProcess,
            () if self.failed > 0 => TaskState::BlockedByFailures,
            () if self.ready > 0 => TaskState::EnqueuingSteps,
            () if self.waiting_for_retry > 0 => TaskState::WaitingForRetry,
            () => TaskState::WaitingForDependencies,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The precedence, line by line, with everything that comes later present as well.
    #[test]
    fn what_comes_first_counts() {
        let mut counts = StepCounts {
            total: 12,
            pending: 2,
            ready: 1,
            in_progress: 1,
            waiting_for_retry: 1,
            complete: 6,
            failed: 1,
            dropped: 0,
        };
        let mut seen = Vec::new();
        for take in 0..4 {
            seen.push(counts.execution_status(None));
            *[&mut counts.failed, &mut counts.ready, &mut counts.in_progress, &mut counts.waiting_for_retry][take] = 0;
        }
        use ExecutionStatus::*;
        assert_eq!(seen, [BlockedByFailures, HasReadySteps, Processing, WaitingForDependencies]);
        let done = StepCounts { total: 3, complete: 2, dropped: 1, ..StepCounts::default() };
        assert_eq!((done.execution_status(None), done.completion_percentage()), (AllComplete, 66.67));
        assert_eq!(StepCounts::default().execution_status(None), AllComplete, "a task without steps");
        assert_eq!(StepCounts::default().completion_percentage(), 100.0);
    }

    /// A step that is tried again is no failure, and a failure for good is not on its way to recovery.
    #[test]
    fn health_tells_recovery_from_failure() {
        let retrying = StepCounts { total: 2, waiting_for_retry: 1, pending: 1, ..StepCounts::default() };
        assert_eq!(
            (retrying.health_status(None), retrying.open_state()),
            (HealthStatus::Recovering, TaskState::WaitingForRetry)
        );
        let failed = StepCounts { failed: 1, pending: 0, ..retrying };
        assert_eq!(
            (failed.health_status(None), failed.open_state()),
            (HealthStatus::Blocked, TaskState::BlockedByFailures)
        );
    }

    /// The end of a task counts before its steps: cancelled steps are over, but not done, and a failure that an operator dealt with blocks nothing.
    #[test]
    fn the_end_of_a_task_counts_before_its_steps() {
        use ExecutionStatus::*;
        let cut_off = StepCounts { total: 2, dropped: 2, ..StepCounts::default() };
        let failed = StepCounts { total: 2, failed: 1, dropped: 1, ..StepCounts::default() };
        let done = StepCounts { total: 2, complete: 2, ..StepCounts::default() };
        for (ended, counts, status, action, health) in [
            (TaskState::Error, cut_off, TimedOut, RecommendedAction::HandleFailures, HealthStatus::Blocked),
            (TaskState::Error, failed, BlockedByFailures, RecommendedAction::HandleFailures, HealthStatus::Blocked),
            (TaskState::Cancelled, cut_off, Cancelled, RecommendedAction::FinalizeTask, HealthStatus::Cancelled),
            (TaskState::Cancelled, failed, Cancelled, RecommendedAction::FinalizeTask, HealthStatus::Cancelled),
            (
                TaskState::ResolvedManually,
                failed,
                ResolvedManually,
                RecommendedAction::FinalizeTask,
                HealthStatus::Healthy,
            ),
            (TaskState::Complete, done, AllComplete, RecommendedAction::FinalizeTask, HealthStatus::Healthy),
        ] {
            let ended = Some(ended);
            let shown = (counts.execution_status(ended), counts.recommended_action(ended), counts.health_status(ended));
            assert_eq!(shown, (status, action, health), "{ended:?} {counts:?}");
        }
    }

    proptest! {
        /// Whatever the counts, the action answers the status, and an open task is in a state that is not terminal.
        #[test]
        fn the_action_answers_the_status(ready in 0..3_u32, in_progress in 0..3_u32, retry in 0..3_u32, complete in 0..3_u32, failed in 0..3_u32, pending in 0..3_u32) {
            let total = ready + in_progress + retry + complete + failed + pending;
            let counts = StepCounts { total, pending, ready, in_progress, waiting_for_retry: retry, complete, failed, dropped: 0 };
            prop_assert_eq!(counts.recommended_action(None) == RecommendedAction::HandleFailures, failed > 0);
            prop_assert_eq!(counts.recommended_action(None) == RecommendedAction::FinalizeTask, complete == total);
            prop_assert!(!counts.open_state().is_terminal());
            prop_assert!((0.0..=100.0).contains(&counts.completion_percentage()));
        }
    }
}
