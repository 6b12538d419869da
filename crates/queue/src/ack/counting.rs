//! How many messages acks have ended, for monitoring.
//!
//! An ack ends the messages before it, so their number is not that of acks.

use super::{AckStatus, Acks, Fate, Said, Write};
use crate::tally::Moved;

/// Acks in a transaction, and what becomes of them if it is committed.
pub(crate) struct Ended {
    pub(super) write: Write,
    pub(super) fate: Fate,
}

impl Acks {
    /// Counts acks of a transaction that is committed.
    pub(crate) fn count_all(&self, ended: &[Ended]) {
        ended.iter().for_each(|Ended { write, fate }| self.count(write, fate));
    }

    /// Counts what became of messages. An ack ends those before it, too: how many these are is known of leases of this process; elsewhere each ack counts for one.
    pub(super) fn count(&self, write: &Write, fate: &Fate) {
        let each = || write.said.iter().zip(&fate.each);
        let is_end = |said: &Said, letter: char| letter == 'd' || letter == 'o' && said.status == AckStatus::Completed;
        let ends: Vec<i64> =
            each().filter(|(said, letter)| is_end(said, **letter)).map(|(said, _)| said.hash).collect();
        let known = write.lease.and_then(|lease| {
            let mut held = self.held();
            let ended = held.ended(lease, write.place.id, &ends);
            if fate.released || fate.over {
                held.end(lease, write.place.id);
            }
            ended
        });
        // What is said again under a lease that is over was counted when it was said first.
        let ended = known.unwrap_or(if fate.over { 0 } else { ends.len() });
        let dead = each().filter(|(_, letter)| **letter == 'd').count();
        let failed = each().filter(|(said, letter)| **letter == 'o' && said.status == AckStatus::Failed && !fate.over);
        let moved = Moved {
            acked: ended.saturating_sub(dead) as u64,
            failed: failed.count() as u64,
            dead_lettered: dead as u64,
            ..Moved::default()
        };
        self.tally.moved(&write.place.queue, &fate.group, moved);
    }
}
