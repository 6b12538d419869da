//! Which sessions this process may have.
//!
//! The runtime asks every half minute to renew the sessions of its workers and every few minutes to clean up, whether it has any or not. An
//! idle process must not ask the database, so what an earlier answer implies is answered from memory: owners that had no session and have
//! claimed none since have none.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Owners remembered; beyond it all are forgotten, and the database is asked.
const OWNERS_MAX: usize = 10_000;

/// What is known of sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Owners that surely have no session.
    without: HashSet<Box<str>>,
    /// There is surely none that this process would have to clean up.
    clean: bool,
    claims: u64,
}

impl Sessions {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many sessions have been claimed so far: what is learnt from a question counts only if none was claimed while it was asked.
    pub(crate) fn claims(&self) -> u64 {
        self.state().claims
    }

    /// An owner here has claimed a session.
    pub(crate) fn claimed(&self, owner: &str) {
        let mut state = self.state();
        state.claims += 1;
        state.without.remove(owner);
        state.clean = false;
    }

    /// Whether none of these owners has a session.
    pub(crate) fn surely_none(&self, owners: &[&str]) -> bool {
        let state = self.state();
        owners.iter().all(|owner| state.without.contains(*owner))
    }

    /// The database answered that none of these owners has a session; asked when `claims` were claimed.
    pub(crate) fn none_of(&self, owners: &[&str], claims: u64) {
        let mut state = self.state();
        if state.claims != claims {
            return;
        }
        if state.without.len() + owners.len() > OWNERS_MAX {
            state.without.clear();
        }
        state.without.extend(owners.iter().map(|owner| Box::from(*owner)));
    }

    /// Whether there is nothing to clean up.
    pub(crate) fn surely_clean(&self) -> bool {
        self.state().clean
    }

    /// A clean-up left no session at all; asked when `claims` were claimed.
    pub(crate) fn cleaned(&self, claims: u64) {
        let mut state = self.state();
        state.clean = state.claims == claims;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was learnt holds until a session is claimed, and does not count if one was claimed while it was asked.
    #[test]
    fn a_claim_ends_what_was_known() {
        let sessions = Sessions::default();
        assert!(!sessions.surely_none(&["a"]) && !sessions.surely_clean(), "nothing is known at first");
        let asked = sessions.claims();
        sessions.none_of(&["a", "b"], asked);
        sessions.cleaned(asked);
        assert!(sessions.surely_none(&["a", "b"]) && sessions.surely_clean());
        assert!(!sessions.surely_none(&["a", "c"]));
        sessions.claimed("b");
        assert!(sessions.surely_none(&["a"]) && !sessions.surely_none(&["a", "b"]) && !sessions.surely_clean());
        sessions.none_of(&["b"], asked);
        sessions.cleaned(asked);
        assert!(!sessions.surely_none(&["b"]) && !sessions.surely_clean(), "the answer is older than the claim");
    }
}
