//! The status of a task, computed from the number of its steps by state.

use serde::Serialize;

use crate::task::state::{StepState, TaskState};

/// The number of steps of a task by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepCounts {
    /// All created steps.
    pub total: u32,
    /// Waiting for dependencies.
    pub pending: u32,
    /// Ready, and not claimed.
    pub ready: u32,
    /// Held by workers.
    pub in_progress: u32,
    /// Failed, and the retry is not due yet.
    pub waiting_for_retry: u32,
    /// Complete, or resolved manually.
    pub complete: u32,
    /// Failed permanently, so that the task cannot continue.
    pub failed: u32,
    /// Ended without being complete: cancelled, or failed where the task continues anyway.
    pub dropped: u32,
}

/// What a task is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// A step failed permanently.
    BlockedByFailures,
    /// A step can be claimed.
    HasReadySteps,
    /// A worker holds a step.
    Processing,
    /// All steps have ended.
    AllComplete,
    /// No step is ready or in progress.
    WaitingForDependencies,
    /// The task exceeded a time limit. Its open steps are cancelled; it can be resumed.
    TimedOut,
    /// An operator cancelled the task.
    Cancelled,
    /// An operator resolved the task by other means.
    ResolvedManually,
}

/// What an operator or worker should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RecommendedAction {
    /// Reset or resolve the failed steps.
    HandleFailures,
    /// Run workers for the ready steps.
    ExecuteReadySteps,
    /// Wait for the steps in progress.
    WaitForCompletion,
    /// Nothing: the task has ended.
    FinalizeTask,
    /// Wait for dependencies or retries.
    WaitForDependencies,
}

/// Whether a task makes progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// It makes progress, or has ended well.
    Healthy,
    /// It needs an operator.
    Blocked,
    /// A step failed and will be retried.
    Recovering,
    /// An operator cancelled the task.
    Cancelled,
}

impl StepCounts {
    /// Adds a step. `spared`: the task continues if the step fails.
    pub(crate) fn add(&mut self, state: StepState, spared: bool) {
        self.total += 1;
        *self.count_of(state, spared) += 1;
    }

    /// Moves a step from one state to another.
    pub(crate) fn shift(&mut self, from: StepState, to: StepState, spared: bool) {
        *self.count_of(from, spared) -= 1;
        *self.count_of(to, spared) += 1;
    }

    fn count_of(&mut self, state: StepState, spared: bool) -> &mut u32 {
        match state {
            StepState::Pending => &mut self.pending,
            StepState::Enqueued => &mut self.ready,
            StepState::WaitingForRetry => &mut self.waiting_for_retry,
            StepState::Complete | StepState::ResolvedManually => &mut self.complete,
            StepState::Error if !spared => &mut self.failed,
            StepState::Error | StepState::Cancelled => &mut self.dropped,
            // These two states are passed within the transaction that ends the attempt.
            StepState::InProgress
            | StepState::EnqueuedForOrchestration
            | StepState::EnqueuedAsErrorForOrchestration => &mut self.in_progress,
        }
    }

    /// What the task is doing. `ended` is the state in which it ended; `None` while it is open. By precedence:
    /// failures, ready steps, steps in progress.
    ///
    /// The final state of a task takes precedence over its steps: if all steps are cancelled, the task is not complete.
    pub fn execution_status(&self, ended: Option<TaskState>) -> ExecutionStatus {
        match ended {
            Some(TaskState::Complete) => return ExecutionStatus::AllComplete,
            Some(TaskState::Cancelled) => return ExecutionStatus::Cancelled,
            Some(TaskState::ResolvedManually) => return ExecutionStatus::ResolvedManually,
            // An error without a failed step: a time limit was exceeded.
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

    /// What an operator or worker should do.
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

    /// Whether the task makes progress.
    pub fn health_status(&self, ended: Option<TaskState>) -> HealthStatus {
        match self.execution_status(ended) {
            ExecutionStatus::BlockedByFailures | ExecutionStatus::TimedOut => HealthStatus::Blocked,
            ExecutionStatus::Cancelled => HealthStatus::Cancelled,
            ExecutionStatus::AllComplete | ExecutionStatus::ResolvedManually => HealthStatus::Healthy,
            _ if self.waiting_for_retry > 0 => HealthStatus::Recovering,
            _ => HealthStatus::Healthy,
        }
    }

    /// The percentage of complete steps, with two decimals; 100 for a task without steps.
    pub fn completion_percentage(&self) -> f64 {
        if self.total == 0 {
            return 100.0;
        }
        (f64::from(self.complete) / f64::from(self.total) * 10_000.0).round() / 100.0
    }

    /// The public state of an open task.
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

    /// Each status takes precedence over the later ones.
    #[test]
    fn statuses_have_their_precedence() {
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

    /// A step that is retried is recovering; a permanent failure is blocked.
    #[test]
    fn health_distinguishes_recovery_from_failure() {
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

    /// The final state of a task takes precedence over its steps: cancelled steps do not make it complete, and a
    /// failure that an operator resolved does not block it.
    #[test]
    fn the_final_state_takes_precedence_over_the_steps() {
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
        /// For all counts the action corresponds to the status, and an open task is not in a terminal state.
        #[test]
        fn the_action_corresponds_to_the_status(ready in 0..3_u32, in_progress in 0..3_u32, retry in 0..3_u32, complete in 0..3_u32, failed in 0..3_u32, pending in 0..3_u32) {
            let total = ready + in_progress + retry + complete + failed + pending;
            let counts = StepCounts { total, pending, ready, in_progress, waiting_for_retry: retry, complete, failed, dropped: 0 };
            prop_assert_eq!(counts.recommended_action(None) == RecommendedAction::HandleFailures, failed > 0);
            prop_assert_eq!(counts.recommended_action(None) == RecommendedAction::FinalizeTask, complete == total);
            prop_assert!(!counts.open_state().is_terminal());
            prop_assert!((0.0..=100.0).contains(&counts.completion_percentage()));
        }
    }
}
