//! The words of the database's enum types, and the Rust types that they stand for.
//!
//! A word that is not known here is an error: it was written by a newer version, and a guess would be wrong.

use crate::query::audit::Outcome;
use crate::task::state::{StepState, TaskState};

/// The states in which a step's row can be, with their words. All other public states are passed within a transaction.
pub(crate) const STEPS: &[(&str, StepState)] = &[
    ("pending", StepState::Pending),
    ("ready", StepState::Enqueued),
    ("in_progress", StepState::InProgress),
    ("waiting_for_retry", StepState::WaitingForRetry),
    ("complete", StepState::Complete),
    ("error", StepState::Error),
    ("cancelled", StepState::Cancelled),
    ("resolved_manually", StepState::ResolvedManually),
];

/// The states of tasks that have ended.
pub(crate) const ENDED_TASKS: &[(&str, TaskState)] = &[
    ("complete", TaskState::Complete),
    ("error", TaskState::Error),
    ("cancelled", TaskState::Cancelled),
    ("resolved_manually", TaskState::ResolvedManually),
];

/// The state of a task that has not ended; its steps tell the public one.
pub(crate) const OPEN: &str = "open";

/// How attempts ended.
const OUTCOMES: &[(&str, Outcome)] = &[
    ("in_progress", Outcome::InProgress),
    ("complete", Outcome::Complete),
    ("failed", Outcome::Failed),
    ("failed_for_good", Outcome::FailedForGood),
    ("lease_ended", Outcome::LeaseEnded),
    ("timed_out", Outcome::TimedOut),
    ("timed_out_for_good", Outcome::TimedOutForGood),
    ("given_back", Outcome::GivenBack),
    ("yielded", Outcome::Yielded),
    ("taken_away", Outcome::TakenAway),
    ("cancelled", Outcome::Cancelled),
    ("completed_manually", Outcome::CompletedManually),
    ("resolved_manually", Outcome::ResolvedManually),
    ("reset", Outcome::Reset),
];

fn by_word<T: Copy>(known: &[(&str, T)], word: &str) -> Option<T> {
    known.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
}

/// The state of a step's row.
pub(crate) fn step_state(word: &str) -> Option<StepState> {
    by_word(STEPS, word)
}

/// The state of a task's row: `Some(None)` if it is open.
pub(crate) fn task_state(word: &str) -> Option<Option<TaskState>> {
    if word == OPEN { Some(None) } else { by_word(ENDED_TASKS, word).map(Some) }
}

/// How an attempt ended.
pub(crate) fn attempt_outcome(word: &str) -> Option<Outcome> {
    by_word(OUTCOMES, word)
}

/// The error of a word that is not known.
pub(crate) fn unknown(what: &str, word: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("unknown {what} {word:?}").into())
}

/// Declares an enum with its words, which the database and the API share.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$each])* $variant,)*
        }

        impl $name {
            pub(crate) fn word(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }

            pub(crate) fn of(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }
    };
}

pub(crate) use words;
