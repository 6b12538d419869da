//! Writes: acks, abandons, renewals and messages. Each kind is sent in batches, see [`reveille_wake::BatchedWrite`].

mod abandon;
mod ack;
mod activities;
mod commit;
mod enqueue;
mod finished_turn;
mod message;
mod pipeline;
mod transaction;
mod work_item;

use std::collections::HashSet;

use uuid::Uuid;

pub(crate) use abandon::Abandon;
pub(crate) use activities::{EnqueueActivities, ScheduledActivity, tag_queue};
pub(crate) use commit::Commit;
#[cfg(feature = "http")]
pub(crate) use commit::CommitWrite;
pub(crate) use finished_turn::{EventBatch, TurnChanges, event_batch};
#[cfg(feature = "http")]
pub(crate) use message::Message;
pub(crate) use message::{millis, receiver};
pub(crate) use pipeline::{PIPELINED_ACKS, Pipeline};
pub(crate) use work_item::read as read_work_item;

/// Which writes of a batch have the token of an earlier one: only the first counts.
fn repeated(fences: impl IntoIterator<Item = Uuid>) -> Vec<bool> {
    let mut seen = HashSet::new();
    fences.into_iter().map(|fence| !seen.insert(fence)).collect()
}
