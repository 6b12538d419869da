//! Messages that wait for the end of a lease.
//!
//! A message that comes while its instance is leased wakes a waiter, whose poll finds the lease and nothing to claim. A
//! poll must follow when the turn ends. But most turns end without such a message, and a poll after each turn would be
//! one in five statements. So a poll that sees such a message records it here, and the next turn that ends wakes a waiter.
//!
//! The danger is a turn that ends during the poll: the poll still sees the lease, and the turn does not see the record.
//! Both write before they read: the turn counts itself and then reads the record; the poll writes the record and then
//! reads whether a turn has ended since it began. So one of them sees the other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether a message waits for the end of a lease, as the polls of this process have seen it.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    turns_ended: AtomicU64,
    message_waits: AtomicBool,
}

/// How many turns had ended when a poll began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since(u64);

impl Blocked {
    /// A poll begins.
    pub(crate) fn poll_begins(&self) -> Since {
        Since(self.turns_ended.load(Ordering::SeqCst))
    }

    /// A poll saw a due message of a leased instance. `true`: a turn has ended since the poll began, so it must poll again.
    pub(crate) fn message_waits(&self, since: Since) -> bool {
        self.message_waits.store(true, Ordering::SeqCst);
        self.turns_ended.load(Ordering::SeqCst) != since.0
    }

    /// A turn has ended. `true`: a message waits for that, so a waiter must be woken.
    pub(crate) fn turn_ended(&self) -> bool {
        self.turns_ended.fetch_add(1, Ordering::SeqCst);
        self.message_waits.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In every interleaving of the two steps of a poll and of a turn, one of them sees the other.
    #[test]
    fn a_poll_or_a_turn_sees_the_other() {
        // The steps of the poll (p) are `store` and `load`; those of the turn (t) are `fetch_add` and `swap`.
        for order in ["pptt", "ptpt", "pttp", "tppt", "tptp", "ttpp"] {
            let blocked = Blocked::default();
            let since = blocked.poll_begins();
            let (mut polls, mut turns) = (0, 0);
            let (mut polls_again, mut wakes) = (false, false);
            for step in order.chars() {
                match (step, polls, turns) {
                    ('p', 0, _) => blocked.message_waits.store(true, Ordering::SeqCst),
                    ('p', ..) => polls_again = blocked.turns_ended.load(Ordering::SeqCst) != since.0,
                    (_, _, 0) => drop(blocked.turns_ended.fetch_add(1, Ordering::SeqCst)),
                    _ => wakes = blocked.message_waits.swap(false, Ordering::SeqCst),
                }
                if step == 'p' { polls += 1 } else { turns += 1 }
            }
            assert!(polls_again || wakes, "{order}");
        }
    }

    /// A turn wakes a waiter once if a message waits, and none otherwise.
    #[test]
    fn a_turn_wakes_only_if_a_message_waits() {
        let blocked = Blocked::default();
        assert!(!blocked.turn_ended());
        assert!(!blocked.message_waits(blocked.poll_begins()));
        assert!(blocked.turn_ended());
        assert!(!blocked.turn_ended());
    }
}
