//! Operations on instances: starting, raising events, cancelling, deleting, pruning.
//!
//! A start, an event or a cancellation is a message, as duroxide's client sends it; a runtime of any process acts on it.
//! A message that no runtime could act on is an error here: to an instance that does not exist, or has ended.

mod delete;
mod message;
mod prune;

pub(crate) use delete::Deleted;
pub(crate) use message::{ID_MAX, Sent, Start, Started};
pub(crate) use prune::{PRUNED_MAX, Prune, Pruned, What};
