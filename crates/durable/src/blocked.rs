//! Messages that wait for a lease to end.
//!
//! A message that comes while its instance is being worked on wakes somebody, who finds it leased and sleeps on. When the turn ends, somebody must
//! look again; but most turns end with nobody waiting for them, and a look each would be a statement in five. So a look that saw such a message
//! says so here, and the turns that end after it ring.
//!
//! The danger is a turn that ends while the look is on its way: the look still sees the lease, and the turn does not see the look. Both
//! sides write before they read: the turn counts itself and then asks whether anybody waits, the look says that it waits and then asks whether
//! a turn has ended since it began. One of them sees the other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Whether anybody here waits for a lease to end.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    ended: AtomicU64,
    waiting: AtomicBool,
}

/// How many turns had ended when a look began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since(u64);

impl Blocked {
    /// A look begins.
    pub(crate) fn begin(&self) -> Since {
        Since(self.ended.load(Ordering::SeqCst))
    }

    /// A look saw a due message of a leased instance. `true`: a turn has ended since it began, so it must look again.
    pub(crate) fn seen(&self, since: Since) -> bool {
        self.waiting.store(true, Ordering::SeqCst);
        self.ended.load(Ordering::SeqCst) != since.0
    }

    /// A turn has ended. `true`: somebody waits for that, so it must ring.
    pub(crate) fn ended(&self) -> bool {
        self.ended.fetch_add(1, Ordering::SeqCst);
        self.waiting.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In every order of a look's and a turn's two steps one of them sees the other.
    #[test]
    fn one_of_them_sees_the_other() {
        // The look's steps are `store` and `load`; the turn's `count` and `swap`. All interleavings after the look began.
        for order in ["lltt", "ltlt", "lttl", "tllt", "tltl", "ttll"] {
            let blocked = Blocked::default();
            let since = blocked.begin();
            let (mut polls, mut turns) = (0, 0);
            let (mut looks_again, mut wake_ups) = (false, false);
            for step in order.chars() {
                match (step, polls, turns) {
                    ('l', 0, _) => blocked.waiting.store(true, Ordering::SeqCst),
                    ('l', ..) => looks_again = blocked.ended.load(Ordering::SeqCst) != since.0,
                    (_, _, 0) => drop(blocked.ended.fetch_add(1, Ordering::SeqCst)),
                    _ => wake_ups = blocked.waiting.swap(false, Ordering::SeqCst),
                }
                if step == 'l' { polls += 1 } else { turns += 1 }
            }
            assert!(looks_again || wake_ups, "{order}");
        }
    }

    /// A turn rings nobody if nobody waits, and once if somebody does.
    #[test]
    fn turns_ring_only_who_waits() {
        let blocked = Blocked::default();
        assert!(!blocked.ended());
        assert!(!blocked.seen(blocked.begin()));
        assert!(blocked.ended());
        assert!(!blocked.ended());
    }
}
