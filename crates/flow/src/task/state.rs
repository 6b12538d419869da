//! The public states of tasks and steps, and the transitions between them.
//!
//! The tables have fewer states. The API and the history use the names here; the state of an open task follows from its
//! steps. Some states are passed within one transaction and cannot be observed: [`StepState::path`] lists them, so that
//! the history is complete.

use serde::{Deserialize, Serialize};

/// Declares states with their public names.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $state:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$each])* #[serde(rename = $text)] $state,)*
        }

        impl $name {
            /// All states.
            pub const ALL: &'static [$name] = &[$($name::$state),*];

            /// The name in the API.
            pub fn name(self) -> &'static str {
                match self { $($name::$state => $text),* }
            }

            /// The state with that name.
            pub fn named(name: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|state| state.name() == name)
            }
        }

        // Not derived: the schema has to list the public names, not those of the variants.
        #[cfg(feature = "http")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                reveille_web::text("The public name of a state").enum_values(Some([$($text),*])).build().into()
            }
        }

        #[cfg(feature = "http")]
        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
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
    /// The state of a task.
    TaskState {
        /// Submitted.
        Pending = "pending",
        /// Its steps are being created.
        Initializing = "initializing",
        /// Steps are ready, and none is in progress.
        EnqueuingSteps = "enqueuing_steps",
        /// A worker holds a step.
        StepsInProcess = "steps_in_process",
        /// A result has arrived.
        EvaluatingResults = "evaluating_results",
        /// No step is ready or in progress.
        WaitingForDependencies = "waiting_for_dependencies",
        /// A step failed, and its retry is not due yet.
        WaitingForRetry = "waiting_for_retry",
        /// A step failed permanently.
        BlockedByFailures = "blocked_by_failures",
        /// All steps are complete.
        Complete = "complete",
        /// Ended because a step failed permanently or a time limit was exceeded.
        Error = "error",
        /// Cancelled by an operator.
        Cancelled = "cancelled",
        /// Resolved by an operator by other means.
        ResolvedManually = "resolved_manually",
    }
}

states! {
    /// The state of a step.
    StepState {
        /// Waits for its dependencies.
        Pending = "pending",
        /// Ready, and not claimed.
        Enqueued = "enqueued",
        /// A worker holds it.
        InProgress = "in_progress",
        /// Its result has arrived.
        EnqueuedForOrchestration = "enqueued_for_orchestration",
        /// Its failure has arrived.
        EnqueuedAsErrorForOrchestration = "enqueued_as_error_for_orchestration",
        /// It failed, and its retry is not due yet.
        WaitingForRetry = "waiting_for_retry",
        /// Complete.
        Complete = "complete",
        /// Failed permanently.
        Error = "error",
        /// Cancelled with its task.
        Cancelled = "cancelled",
        /// Resolved by an operator by other means.
        ResolvedManually = "resolved_manually",
    }
}

/// Who causes a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The engine.
    Engine,
    /// An operator, by a manual operation.
    Operator,
}

impl TaskState {
    /// Whether the engine does not leave this state.
    pub fn is_terminal(self) -> bool {
        matches!(self, TaskState::Complete | TaskState::Error | TaskState::Cancelled | TaskState::ResolvedManually)
    }

    /// Whether a task may change from this state to that in one transition.
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
            // A failed step was reset or resolved: its task continues.
            (Error, EnqueuingSteps | WaitingForDependencies | EvaluatingResults) => by == By::Operator,
            _ => false,
        }
    }

    /// The states that the engine passes from this state to that; the last is `to`. Empty if there is no path or
    /// nothing to do.
    pub fn path(self, to: TaskState) -> Vec<TaskState> {
        let path = |to| shortest(Self::ALL, self, to, |from: TaskState, to| from.may_become(to, By::Engine));
        match path(TaskState::BlockedByFailures) {
            // A step in progress failed. A task without steps in progress exceeded a time limit.
            mut blocked if to == TaskState::Error && self != TaskState::EnqueuingSteps && !blocked.is_empty() => {
                blocked.push(to);
                blocked
            }
            _ => path(to),
        }
    }

    /// The same, if an operator may have been involved.
    pub(crate) fn path_by_operator(self, to: TaskState) -> Vec<TaskState> {
        match self.path(to) {
            none if none.is_empty() => shortest(Self::ALL, self, to, |from, to| from.may_become(to, By::Operator)),
            path => path,
        }
    }
}

impl StepState {
    /// Whether the engine does not leave this state.
    pub fn is_terminal(self) -> bool {
        matches!(self, StepState::Complete | StepState::Error | StepState::Cancelled | StepState::ResolvedManually)
    }

    /// Whether a step may change from this state to that in one transition.
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

    /// The states that a step passes when a report moves it from this state to that; the last is `to`. A step whose
    /// worker died without a report changes in one transition.
    pub fn path(self, to: StepState) -> Vec<StepState> {
        use StepState::*;
        match (self, to) {
            (InProgress, Complete) => vec![EnqueuedForOrchestration, Complete],
            (InProgress, WaitingForRetry | Error) => vec![EnqueuedAsErrorForOrchestration, to],
            _ => shortest(Self::ALL, self, to, |from, to| from.may_become(to, By::Engine)),
        }
    }

    /// The same for a manual operation.
    pub(crate) fn path_by_operator(self, to: StepState) -> Vec<StepState> {
        shortest(Self::ALL, self, to, |from, to| from.may_become(to, By::Operator))
    }
}

/// The shortest path without its start; of several the first in the order of the states.
fn shortest<S: Copy + PartialEq>(all: &[S], from: S, to: S, may: impl Fn(S, S) -> bool) -> Vec<S> {
    let mut paths = vec![vec![from]];
    let mut seen = vec![from];
    while !paths.is_empty() && from != to {
        let mut longer = Vec::new();
        for path in paths {
            let last = path[path.len() - 1];
            for next in all.iter().copied().filter(|next| may(last, *next)) {
                if next == to {
                    return path[1..].iter().copied().chain([next]).collect();
                }
                if !seen.contains(&next) {
                    seen.push(next);
                    longer.push(path.iter().copied().chain([next]).collect());
                }
            }
        }
        paths = longer;
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every state survives a round trip through its public name, and there are as many as the API documents.
    #[test]
    fn states_have_their_public_names() {
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

    /// The engine never leaves a terminal state, and never resolves or cancels.
    #[test]
    fn only_an_operator_leaves_a_terminal_state() {
        for from in TaskState::ALL {
            for to in TaskState::ALL {
                let may = from.may_become(*to, By::Engine);
                assert!(!may || !from.is_terminal(), "{from} to {to}");
                assert!(!may || !matches!(to, TaskState::Cancelled | TaskState::ResolvedManually), "{from} to {to}");
                assert!(!may || from.may_become(*to, By::Operator), "an operator may do what the engine may do");
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
        assert!(StepState::Error.may_become(StepState::Pending, By::Operator), "reset for retry");
        assert!(!StepState::Complete.may_become(StepState::Pending, By::Operator), "a complete step is not reset");
    }

    /// The complete paths of typical tasks and steps.
    #[test]
    fn typical_paths_are_complete() {
        let names = |states: Vec<TaskState>| states.into_iter().map(TaskState::name).collect::<Vec<_>>();
        use TaskState::*;
        assert_eq!(names(Pending.path(EnqueuingSteps)), ["initializing", "enqueuing_steps"]);
        assert_eq!(names(Pending.path(Complete)), ["initializing", "complete"], "a task without steps");
        assert_eq!(names(StepsInProcess.path(EnqueuingSteps)), ["evaluating_results", "enqueuing_steps"]);
        assert_eq!(names(StepsInProcess.path(Complete)), ["evaluating_results", "complete"]);
        assert_eq!(names(StepsInProcess.path(Error)), ["evaluating_results", "blocked_by_failures", "error"]);
        assert_eq!(names(Complete.path(Pending)), [""; 0], "there is no path");
        let names = |states: Vec<StepState>| states.into_iter().map(StepState::name).collect::<Vec<_>>();
        use StepState as S;
        assert_eq!(names(S::InProgress.path(S::Complete)), ["enqueued_for_orchestration", "complete"]);
        let failed = ["enqueued_as_error_for_orchestration", "waiting_for_retry"];
        assert_eq!(names(S::InProgress.path(S::WaitingForRetry)), failed);
        assert_eq!(names(S::WaitingForRetry.path(S::Enqueued)), ["pending", "enqueued"]);
        assert_eq!(names(S::Pending.path(S::Pending)), [""; 0], "nothing to do");
    }

    proptest! {
        /// Every transition of every path is legal, and the path ends at its target.
        #[test]
        fn every_path_is_legal(from in 0..12_usize, to in 0..12_usize) {
            let (from, to) = (TaskState::ALL[from], TaskState::ALL[to]);
            let mut at = from;
            for next in from.path(to) {
                prop_assert!(at.may_become(next, By::Engine), "{at} to {next}");
                at = next;
            }
            prop_assert!(at == to || at == from);
            if let (Some(from), Some(to)) = (StepState::named(from.name()), StepState::named(to.name())) {
                let mut at = from;
                for next in from.path(to) {
                    prop_assert!(at.may_become(next, By::Engine), "{at} to {next}");
                    at = next;
                }
            }
        }
    }
}
