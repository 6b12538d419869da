//! What became of pushed messages.

use uuid::Uuid;

/// What became of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PushOutcome {
    /// Each message is stored, or the id of the one it is a duplicate of.
    Stored(Vec<Option<Uuid>>),
    /// The partition is not what it was: ask for it again.
    Gone,
    /// The queue has its `maxSize`: the ids of what is there all the same.
    Full(Vec<Option<Uuid>>),
    /// Pushes are under maintenance.
    InMaintenance,
}
