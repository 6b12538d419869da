//! Sessions: kept and cleaned up by asking the database, and only if there may be any.
//!
//! The runtime asks every half minute to renew the sessions of its workers and every few minutes to clean up, whether it has any or not. An
//! idle process must not ask the database, so what an earlier answer implies is answered from memory: owners that had no session and have
//! claimed none since have none.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide::providers::ProviderError;

use crate::message::millis;
use crate::provider::PostgresProvider;
use crate::queries::column;
use crate::text::stored;

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
    fn claims(&self) -> u64 {
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
    fn surely_none(&self, owners: &[&str]) -> bool {
        let state = self.state();
        owners.iter().all(|owner| state.without.contains(*owner))
    }

    /// The database answered that none of these owners has a session; asked when `claims` were claimed.
    fn none_of(&self, owners: &[&str], claims: u64) {
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
    fn surely_clean(&self) -> bool {
        self.state().clean
    }

    /// A clean-up left no session at all; asked when `claims` were claimed.
    fn cleaned(&self, claims: u64) {
        let mut state = self.state();
        state.clean = state.claims == claims;
    }
}

impl PostgresProvider {
    /// Extends the sessions of these owners that were used within `idle_timeout`. Answers how many.
    pub(crate) async fn renew_sessions(
        &self,
        owners: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        const OPERATION: &str = "renew_session_lock";
        let owners: Vec<String> = owners.iter().map(|owner| stored(owner).into_owned()).collect();
        let names: Vec<&str> = owners.iter().map(String::as_str).collect();
        let sessions = &self.inner.sessions;
        if sessions.surely_none(&names) {
            return Ok(0);
        }
        let claims = sessions.claims();
        let row = self
            .row(OPERATION, &self.inner.queries.renew_sessions, |query| {
                query.bind(owners.clone()).bind(millis(extend_for)).bind(millis(idle_timeout))
            })
            .await?;
        let Some(row) = row else { return Ok(0) };
        if !column::<bool>(OPERATION, &row, 1)? {
            sessions.none_of(&names, claims);
        }
        Ok(column::<i64>(OPERATION, &row, 0)? as usize)
    }

    /// Removes sessions that have ended and have nothing queued. Answers how many.
    pub(crate) async fn clean_sessions(&self) -> Result<usize, ProviderError> {
        const OPERATION: &str = "cleanup_orphaned_sessions";
        let sessions = &self.inner.sessions;
        if sessions.surely_clean() {
            return Ok(0);
        }
        let claims = sessions.claims();
        let Some(row) = self.row(OPERATION, &self.inner.queries.clean_sessions, |query| query).await? else {
            return Ok(0);
        };
        if !column::<bool>(OPERATION, &row, 1)? {
            sessions.cleaned(claims);
        }
        Ok(column::<i64>(OPERATION, &row, 0)? as usize)
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
