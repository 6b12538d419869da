//! The states of tasks and steps as people see them, and the moves between them.
//!
//! What is stored knows fewer states: a step row is waiting, due, leased or done, and a task is open or not. The names here are what the API and the history speak; which of them
//! a task is in is read from its steps. Some are passed within one transaction and can never be observed: [`StepState::passed`] says which, so that a history is complete all
//! the same.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

/// Declares states with their public names.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $state:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$each])* #[serde(rename = $text)] $state,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$state),*];

            /// The name that the API uses.
            pub fn name(self) -> &'static str {
                match self { $($name::$state => $text),* }
            }

            /// The state of that name.
            pub fn named(name: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|state| state.name() == name)
            }
        }

        // The names as they are written: a derived schema would know those of the variants.
        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                web::text("The public name of a state").enum_values(Some([$($text),*])).build().into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

states! {
    /// Where a task is.
    TaskState {
        /// It was submitted.
        Pending = "pending",
        /// Its steps are being made.
        Initializing = "initializing",
        /// Steps are ready, and nobody has them.
        EnqueuingSteps = "enqueuing_steps",
        /// Somebody works on a step.
        StepsInProcess = "steps_in_process",
        /// A result has come in.
        EvaluatingResults = "evaluating_results",
        /// Nothing is ready and nothing is under way.
        WaitingForDependencies = "waiting_for_dependencies",
        /// A step failed, and its next attempt is not due yet.
        WaitingForRetry = "waiting_for_retry",
        /// A step failed for good.
        BlockedByFailures = "blocked_by_failures",
        /// Every step is done.
        Complete = "complete",
        /// It ended because a step failed for good, or because it took too long.
        Error = "error",
        /// Somebody cancelled it.
        Cancelled = "cancelled",
        /// Somebody dealt with it by other means.
        ResolvedManually = "resolved_manually",
    }
}

states! {
    /// Where a step is.
    StepState {
        /// It waits for its parents, or its turn has not come.
        Pending = "pending",
        /// It is ready, and nobody has it.
        Enqueued = "enqueued",
        /// A worker has it.
        InProgress = "in_progress",
        /// Its result has come in.
        EnqueuedForOrchestration = "enqueued_for_orchestration",
        /// Its failure has come in.
        EnqueuedAsErrorForOrchestration = "enqueued_as_error_for_orchestration",
        /// It failed, and its next attempt is not due yet.
        WaitingForRetry = "waiting_for_retry",
        /// It is done.
        Complete = "complete",
        /// It failed for good.
        Error = "error",
        /// Its task was cancelled.
        Cancelled = "cancelled",
        /// Somebody dealt with it by other means.
        ResolvedManually = "resolved_manually",
    }
}

/// Who moves something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The engine.
    Engine,
    /// A person, by one of the manual operations.
    Operator,
}

impl TaskState {
    /// Whether nothing more happens by itself.
    pub fn is_terminal(self) -> bool {
        matches!(self, TaskState::Complete | TaskState::Error | TaskState::Cancelled | TaskState::ResolvedManually)
    }

    /// Whether a task may go from here to there in one move.
    pub fn may_become(self, to: TaskState, by: By) -> bool {
        use TaskState::*;
        match (self, to) {
            (Pending, Initializing)
            | (Initializing, EnqueuingSteps | WaitingForDependencies | Complete)
            | (EnqueuingSteps, StepsInProcess | Error)
            | (StepsInProcess, EvaluatingResults | WaitingForRetry)
            | (EvaluatingResults, Complete | EnqueuingSteps | WaitingForDependencies | BlockedByFailures)
            | (WaitingForDependencies, EvaluatingResults)
            | (WaitingForRetry, EnqueuingSteps)
            | (BlockedByFailures, Error) => true,
            (_, ResolvedManually) => by == By::Operator && self != ResolvedManually,
            (_, Cancelled) => by == By::Operator && !self.is_terminal(),
            // A step was given another chance, or dealt with: its task goes on.
            (Error, EnqueuingSteps | WaitingForDependencies | EvaluatingResults) => by == By::Operator,
            _ => false,
        }
    }

    /// The states on the way from here to there, by the engine alone: the last is `to`. Empty if there is no way, or none to go.
    pub fn passed(self, to: TaskState) -> Vec<TaskState> {
        let way = |to| shortest(Self::ALL, self, to, |from: TaskState, to| from.may_become(to, By::Engine));
        match way(TaskState::BlockedByFailures) {
            // What was under way failed; a task with nothing under way took too long.
            mut blocked if to == TaskState::Error && self != TaskState::EnqueuingSteps && !blocked.is_empty() => {
                blocked.push(to);
                blocked
            }
            _ => way(to),
        }
    }

    /// The same where a person may have had a hand in it.
    pub(crate) fn led(self, to: TaskState) -> Vec<TaskState> {
        match self.passed(to) {
            none if none.is_empty() => shortest(Self::ALL, self, to, |from, to| from.may_become(to, By::Operator)),
            way => way,
        }
    }
}

impl StepState {
    /// Whether nothing more happens by itself.
    pub fn is_terminal(self) -> bool {
        matches!(self, StepState::Complete | StepState::Error | StepState::Cancelled | StepState::ResolvedManually)
    }

    /// Whether a step may go from here to there in one move.
    pub fn may_become(self, to: StepState, by: By) -> bool {
        use StepState::*;
        match (self, to) {
            (Pending, Enqueued)
            | (Enqueued, InProgress)
            | (InProgress, EnqueuedForOrchestration | EnqueuedAsErrorForOrchestration)
            | (EnqueuedForOrchestration, Complete | Error)
            | (EnqueuedAsErrorForOrchestration, WaitingForRetry | Error)
            | (Pending | Enqueued | InProgress, WaitingForRetry | Error)
            | (WaitingForRetry, Pending) => true,
            // Reset, or resumed with its task.
            (Error | Cancelled, Pending) => by == By::Operator,
            (_, Cancelled) => by == By::Operator && !self.is_terminal(),
            (_, ResolvedManually | Complete) => by == By::Operator && self != to,
            _ => false,
        }
    }

    /// The states that a step passes when what a worker said of it takes it from here to there: the last is `to`. A worker that says nothing any more, because it died, takes it there
    /// in one move.
    pub fn passed(self, to: StepState) -> Vec<StepState> {
        use StepState::*;
        match (self, to) {
            (InProgress, Complete) => vec![EnqueuedForOrchestration, Complete],
            (InProgress, WaitingForRetry | Error) => vec![EnqueuedAsErrorForOrchestration, to],
            _ => shortest(Self::ALL, self, to, |from, to| from.may_become(to, By::Engine)),
        }
    }

    /// The same where a person has taken it there.
    pub(crate) fn led(self, to: StepState) -> Vec<StepState> {
        shortest(Self::ALL, self, to, |from, to| from.may_become(to, By::Operator))
    }
}

/// The shortest way, without where it begins; of several the first in the order of the states.
fn shortest<S: Copy + PartialEq>(all: &[S], from: S, to: S, may: impl Fn(S, S) -> bool) -> Vec<S> {
    let mut ways = vec![vec![from]];
    let mut seen = vec![from];
    while !ways.is_empty() && from != to {
        let mut longer = Vec::new();
        for way in ways {
            let last = way[way.len() - 1];
            for next in all.iter().copied().filter(|next| may(last, *next)) {
                if next == to {
                    return way[1..].iter().copied().chain([next]).collect();
                }
                if !seen.contains(&next) {
                    seen.push(next);
                    longer.push(way.iter().copied().chain([next]).collect());
                }
            }
        }
        ways = longer;
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every name leads back to its state, and there are as many as the API promises.
    #[test]
    fn names_are_the_public_ones() {
        assert_eq!((TaskState::ALL.len(), StepState::ALL.len()), (12, 10));
        for state in TaskState::ALL {
            assert_eq!(TaskState::named(state.name()), Some(*state));
            assert_eq!(serde_json::to_value(state).expect("JSON"), state.name());
        }
        for state in StepState::ALL {
            assert_eq!(StepState::named(state.name()), Some(*state));
            assert_eq!(serde_json::to_value(state).expect("JSON"), state.name());
        }
        assert_eq!(TaskState::named("nonsense"), None);
    }

    /// The engine never leaves a terminal state, and never resolves or cancels by itself.
    #[test]
    fn only_an_operator_leaves_a_terminal_state() {
        for from in TaskState::ALL {
            for to in TaskState::ALL {
                let may = from.may_become(*to, By::Engine);
                assert!(!may || !from.is_terminal(), "{from} to {to}");
                assert!(!may || !matches!(to, TaskState::Cancelled | TaskState::ResolvedManually), "{from} to {to}");
                assert!(!may || from.may_become(*to, By::Operator), "an operator may what the engine may");
                assert!(from != to || !from.may_become(*to, By::Operator), "{from} stays");
            }
            assert_eq!(from.may_become(TaskState::Cancelled, By::Operator), !from.is_terminal(), "{from}");
        }
        for from in StepState::ALL {
            for to in StepState::ALL {
                assert!(!from.may_become(*to, By::Engine) || !from.is_terminal(), "{from} to {to}");
                assert!(from != to || !from.may_become(*to, By::Operator), "{from} stays");
            }
        }
        assert!(StepState::Error.may_become(StepState::Pending, By::Operator), "it is reset");
        assert!(!StepState::Complete.may_become(StepState::Pending, By::Operator), "what is done is done");
    }

    /// What a history shows of the usual lives, in full.
    #[test]
    fn the_usual_lives_are_shown_in_full() {
        let names = |states: Vec<TaskState>| states.into_iter().map(TaskState::name).collect::<Vec<_>>();
        use TaskState::*;
        assert_eq!(names(Pending.passed(EnqueuingSteps)), ["initializing", "enqueuing_steps"]);
        assert_eq!(names(Pending.passed(Complete)), ["initializing", "complete"], "a task without steps");
        assert_eq!(names(StepsInProcess.passed(EnqueuingSteps)), ["evaluating_results", "enqueuing_steps"]);
        assert_eq!(names(StepsInProcess.passed(Complete)), ["evaluating_results", "complete"]);
        assert_eq!(names(StepsInProcess.passed(Error)), ["evaluating_results", "blocked_by_failures", "error"]);
        assert_eq!(names(Complete.passed(Pending)), [""; 0], "there is no way");
        let names = |states: Vec<StepState>| states.into_iter().map(StepState::name).collect::<Vec<_>>();
        use StepState as S;
        assert_eq!(names(S::InProgress.passed(S::Complete)), ["enqueued_for_orchestration", "complete"]);
        let failed = ["enqueued_as_error_for_orchestration", "waiting_for_retry"];
        assert_eq!(names(S::InProgress.passed(S::WaitingForRetry)), failed);
        assert_eq!(names(S::WaitingForRetry.passed(S::Enqueued)), ["pending", "enqueued"]);
        assert_eq!(names(S::Pending.passed(S::Pending)), [""; 0], "there is none to go");
    }

    proptest! {
        /// Whatever way is shown, each of its moves is legal, and it ends where it should.
        #[test]
        fn every_way_is_legal(from in 0..12_usize, to in 0..12_usize) {
            let (from, to) = (TaskState::ALL[from], TaskState::ALL[to]);
            let mut at = from;
            for next in from.passed(to) {
                prop_assert!(at.may_become(next, By::Engine), "{at} to {next}");
                at = next;
            }
            prop_assert!(at == to || at == from);
            if let (Some(from), Some(to)) = (StepState::named(from.name()), StepState::named(to.name())) {
                let mut at = from;
                for next in from.passed(to) {
                    prop_assert!(at.may_become(next, By::Engine), "{at} to {next}");
                    at = next;
                }
            }
        }
    }
}
