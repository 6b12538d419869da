//! The leases of a sequence, as both stores have given them.

use std::ops::Range;
use std::time::Duration;

use super::step::Pick;

/// A lease's token in each store.
#[derive(Debug, Clone)]
pub(super) struct Token(pub(super) [String; 2]);

/// A lease that both stores have given.
#[derive(Debug)]
pub(super) struct Lease<T> {
    pub(super) token: Token,
    pub(super) of: T,
    /// When it was granted and when it ends, on the clock of the sequence.
    pub(super) since: Duration,
    until: Duration,
    pub(super) state: LeaseState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseState {
    Live,
    /// It has expired, and was not claimed again.
    Lapsed,
    /// It was acked or abandoned, or claimed again.
    Over,
}

/// The leases of one queue, in order.
#[derive(Debug)]
pub(super) struct Leases<T>(pub(super) Vec<Lease<T>>);

impl<T> Leases<T> {
    /// The place of what a step means; `None` if there is no such lease, or it is no lease of this queue.
    pub(super) fn find(&self, pick: Pick) -> Option<usize> {
        let (nth, live) = match pick {
            Pick::Live(nth) => (nth, true),
            Pick::Any(nth) => (nth, false),
            Pick::Foreign(_) | Pick::Nonsense => return None,
        };
        let newest_first = (0..self.0.len()).rev();
        let among: Vec<usize> = newest_first.filter(|at| !live || self.0[*at].state == LeaseState::Live).collect();
        (!among.is_empty()).then(|| among[nth % among.len()])
    }

    pub(super) fn newest(&self, nth: usize) -> Option<&Token> {
        self.0.iter().rev().nth(nth).map(|lease| &lease.token)
    }

    /// A further lease; earlier ones of the same are over.
    pub(super) fn granted(&mut self, token: Token, of: T, times: Range<Duration>, same: impl Fn(&T) -> bool) {
        self.0.iter_mut().filter(|lease| same(&lease.of)).for_each(|lease| lease.state = LeaseState::Over);
        self.0.push(Lease { token, of, since: times.start, until: times.end, state: LeaseState::Live });
    }

    pub(super) fn renewed(&mut self, at: usize, until: Duration) {
        self.0[at].until = until;
    }

    /// Those that have ended by themselves since the last time.
    pub(super) fn lapsing(&self, passed: Duration) -> Vec<usize> {
        let ended = |at: &usize| self.0[*at].state == LeaseState::Live && self.0[*at].until <= passed;
        (0..self.0.len()).filter(ended).collect()
    }
}
