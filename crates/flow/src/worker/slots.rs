//! The slots of a worker: how many more handlers may run. Pure.
//!
//! A report is committed together with others, which takes as long as the disk needs. Meanwhile the slot of its handler
//! is free, so that the worker can claim the next step. The danger is a worker that claims steps faster than it can
//! report them. So the slots of some reports stay taken until the outcome is known: of those beyond a bound, of large
//! ones, of failed ones, and of those whose lease may end first. A worker holds at most as many steps as it has slots
//! and pipelined reports.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::claim::token::Token;

/// The default bound: one slot is kept busy during a commit if a step takes a sixty-fourth of it.
pub(super) const PIPELINED_REPORTS: usize = 64;
/// The largest result, checkpoint or failure whose slot is free during the commit. With the default bound this is 4 MiB
/// for a worker.
pub(super) const REPORT_BYTES_MAX: usize = 64 << 10;
/// How long before the end of its lease the slot of a report counts as taken again: a commit takes much less.
const LEASE_RESERVE: Duration = Duration::from_secs(1);

/// The slots of a worker.
#[derive(Debug)]
pub(super) struct Slots {
    concurrency: usize,
    /// The most reports whose slots are free.
    pipelined: usize,
    /// The submitted reports whose slots may be free, by the end of their leases.
    submitted: BTreeSet<(Instant, Token)>,
}

impl Slots {
    pub(super) fn new(concurrency: usize, pipelined: usize) -> Slots {
        Slots { concurrency, pipelined, submitted: BTreeSet::new() }
    }

    /// A report of this size has been handed to the write batch; the lease of its step lasts until then.
    pub(super) fn submitted(&mut self, token: Token, until: Instant, bytes: usize) {
        if bytes <= REPORT_BYTES_MAX {
            self.submitted.insert((until, token));
        }
    }

    /// A heartbeat has moved the end of a lease.
    pub(super) fn extended(&mut self, token: Token, from: Instant, until: Instant) {
        if self.submitted.remove(&(from, token)) {
            self.submitted.insert((until, token));
        }
    }

    /// The outcome of a report is known, or it is sent again: then its slot is taken until there is an outcome.
    pub(super) fn answered(&mut self, token: Token, until: Instant) {
        self.submitted.remove(&(until, token));
    }

    /// How many more handlers may run beside these handlers and these reports without an outcome.
    pub(super) fn free(&self, handlers: usize, reports: usize, now: Instant) -> usize {
        let ending = self.submitted.iter().take_while(|(until, _)| *until <= now + LEASE_RESERVE).count();
        let free = (self.submitted.len() - ending).min(self.pipelined);
        self.concurrency.saturating_sub(handlers + reports.saturating_sub(free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn token(fence: i64) -> Token {
        Token { task: uuid::Uuid::nil(), ordinal: 0, fence, template: 0, slot: 0 }
    }

    /// Each report beyond the bound takes a slot, and frees it when it or another one has its outcome. Workers of one slot
    /// and of a hundred submit reports one by one, also with pipelining off.
    #[test]
    fn reports_beyond_the_bound_take_slots() {
        let now = Instant::now();
        for (concurrency, pipelined) in [(1, 64), (100, 64), (100, 1), (2, 0)] {
            let mut slots = Slots::new(concurrency, pipelined);
            let mut reports = 0;
            while slots.free(0, reports, now) > 0 {
                assert_eq!(slots.free(concurrency, reports, now), 0);
                slots.submitted(token(reports as i64), now + LEASE, REPORT_BYTES_MAX);
                reports += 1;
            }
            assert_eq!(reports, pipelined + concurrency);
            slots.answered(token(0), now + LEASE);
            assert_eq!(slots.free(0, reports - 1, now), 1);
        }
    }

    /// The slot of a report is taken if it is large, before it is submitted, and after it has failed.
    #[test]
    fn some_reports_take_slots_until_their_outcome() {
        let now = Instant::now();
        let mut slots = Slots::new(2, PIPELINED_REPORTS);
        assert_eq!(slots.free(0, 1, now), 1, "not submitted");
        slots.submitted(token(1), now + LEASE, REPORT_BYTES_MAX + 1);
        assert_eq!(slots.free(0, 1, now), 1, "large");
        slots.submitted(token(2), now + LEASE, 0);
        assert_eq!((slots.free(0, 2, now), slots.free(1, 2, now)), (1, 0));
        slots.answered(token(2), now + LEASE);
        assert_eq!(slots.free(0, 2, now), 0, "sent again");
    }

    /// The slot of a report is taken again a second before its lease ends, and free when a heartbeat has extended it.
    #[test]
    fn a_lease_that_ends_takes_the_slot() {
        let now = Instant::now();
        let mut slots = Slots::new(1, PIPELINED_REPORTS);
        slots.submitted(token(1), now + LEASE, 0);
        let late = now + LEASE - LEASE_RESERVE;
        assert_eq!((slots.free(0, 1, late - Duration::from_millis(1)), slots.free(0, 1, late)), (1, 0));
        slots.extended(token(1), now + LEASE, late + LEASE);
        assert_eq!((slots.free(0, 1, late), slots.free(0, 1, late + LEASE)), (1, 0));
        // A step without a submitted report is extended, too.
        slots.extended(token(2), now, now + LEASE);
        slots.answered(token(1), late + LEASE);
        assert_eq!(slots.free(0, 0, late), 1);
        assert_eq!(slots.free(0, 1, now), 0);
    }
}
