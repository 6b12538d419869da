//! How many messages acks have ended, for monitoring.
//!
//! An ack ends the messages before it, so their number is not that of acks.

use super::{AckStatus, Acks, Fate, Member, Said};
use crate::tally::Moved;

/// Acks in a transaction, and what becomes of them if it is committed.
pub(crate) struct Ended {
    pub(super) member: Member,
    pub(super) fate: Fate,
}

impl Acks {
    /// Counts acks of a transaction that is committed.
    pub(crate) fn count_all(&self, ended: &[Ended]) {
        ended.iter().for_each(|Ended { member, fate }| self.count(member, fate));
    }

    /// Counts what became of messages. An ack ends those before it, too: how many these are is known of leases of this process; elsewhere each ack counts for one.
    pub(super) fn count(&self, member: &Member, fate: &Fate) {
        let each = || member.said.iter().zip(&fate.each);
        let is_end = |said: &Said, letter: char| letter == 'd' || letter == 'o' && said.status == AckStatus::Completed;
        let ends: Vec<i64> =
            each().filter(|(said, letter)| is_end(said, **letter)).map(|(said, _)| said.hash).collect();
        let known = member.lease.and_then(|lease| {
            let mut held = self.held();
            let ended = held.ended(lease, member.place.id, &ends);
            if fate.released || fate.over {
                held.end(lease, member.place.id);
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
        self.tally.moved(&member.place.queue, &fate.group, moved);
    }
}
