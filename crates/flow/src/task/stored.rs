//! How values are stored: the words of the database's enum types, and lists as arrays.
//!
//! An unknown word is an error: a newer version wrote it, and a guess would be wrong.

use crate::query::audit::Outcome;
use crate::task::state::{StepState, TaskState};

/// The states of a step's row, with their words. The other public states are passed within a transaction.
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

/// The state of a task that has not ended; its public state follows from its steps.
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

fn by_word<T: Copy>(words: &[(&str, T)], word: &str) -> Option<T> {
    words.iter().find(|(each, _)| *each == word).map(|(_, value)| *value)
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

/// The error for an unknown word.
pub(crate) fn unknown(what: &str, word: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("unknown {what} {word:?}").into())
}

/// Lists of lists as two arrays, as statements take them: the end of each list, and all elements.
pub(crate) fn flat<T: Clone>(lists: impl Iterator<Item = impl AsRef<[T]>>) -> (Vec<i32>, Vec<T>) {
    let (mut lasts, mut all) = (Vec::new(), Vec::new());
    for list in lists {
        all.extend_from_slice(list.as_ref());
        lasts.push(all.len() as i32);
    }
    (lasts, all)
}

/// Declares an enum with words that the database and the API share.
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
