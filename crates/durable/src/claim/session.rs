//! Sessions of workers: renewed and cleaned up.
//!
//! The runtime asks every half minute to renew the sessions of its workers and every few minutes to clean up, whether
//! there are any or not. An idle process must not query the database, so an earlier answer is used again: owners that had
//! no session and have claimed none since have none.

use std::collections::HashSet;
use std::time::Duration;

use duroxide::providers::ProviderError;
use parking_lot::Mutex;

use crate::provider::PostgresProvider;
use crate::queries::column;
use crate::text::escape;
use crate::write::millis;

/// At most this many owners are remembered; beyond it all are forgotten, and the database is queried.
const OWNERS_MAX: usize = 10_000;

/// What is known about sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Owners that certainly have no session.
    without_session: HashSet<Box<str>>,
    /// There is certainly no session to clean up.
    clean: bool,
    claims: u64,
}

impl Sessions {
    /// How many sessions have been claimed so far. An answer is valid only if none was claimed while it was on its way.
    fn claims(&self) -> u64 {
        self.0.lock().claims
    }

    /// An owner of this process has claimed a session.
    pub(crate) fn claimed(&self, owner: &str) {
        let mut state = self.0.lock();
        state.claims += 1;
        state.without_session.remove(owner);
        state.clean = false;
    }

    /// Whether none of these owners has a session.
    fn certainly_none(&self, owners: &[&str]) -> bool {
        let state = self.0.lock();
        owners.iter().all(|owner| state.without_session.contains(*owner))
    }

    /// The database answered that none of these owners has a session; `claims` is the count when it was queried.
    fn found_none(&self, owners: &[&str], claims: u64) {
        let mut state = self.0.lock();
        if state.claims != claims {
            return;
        }
        if state.without_session.len() + owners.len() > OWNERS_MAX {
            state.without_session.clear();
        }
        state.without_session.extend(owners.iter().map(|owner| Box::from(*owner)));
    }

    /// Whether there is nothing to clean up.
    fn certainly_clean(&self) -> bool {
        self.0.lock().clean
    }

    /// A cleanup left no session; `claims` is the count when it was sent.
    fn found_clean(&self, claims: u64) {
        let mut state = self.0.lock();
        state.clean = state.claims == claims;
    }
}

impl PostgresProvider {
    /// Extends the sessions of these owners that were used within `idle_timeout`. Returns how many.
    pub(crate) async fn renew_sessions(
        &self,
        owners: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        const OPERATION: &str = "renew_session_lock";
        let owners: Vec<String> = owners.iter().map(|owner| escape(owner).into_owned()).collect();
        let names: Vec<&str> = owners.iter().map(String::as_str).collect();
        let sessions = &self.inner.sessions;
        if sessions.certainly_none(&names) {
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
            sessions.found_none(&names, claims);
        }
        Ok(column::<i64>(OPERATION, &row, 0)? as usize)
    }

    /// Deletes expired sessions without queued activities. Returns how many.
    pub(crate) async fn clean_sessions(&self) -> Result<usize, ProviderError> {
        const OPERATION: &str = "cleanup_orphaned_sessions";
        let sessions = &self.inner.sessions;
        if sessions.certainly_clean() {
            return Ok(0);
        }
        let claims = sessions.claims();
        let Some(row) = self.row(OPERATION, &self.inner.queries.clean_sessions, |query| query).await? else {
            return Ok(0);
        };
        if !column::<bool>(OPERATION, &row, 1)? {
            sessions.found_clean(claims);
        }
        Ok(column::<i64>(OPERATION, &row, 0)? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer is used until a session is claimed, and not at all if one was claimed while it was on its way.
    #[test]
    fn a_claim_invalidates_earlier_answers() {
        let sessions = Sessions::default();
        assert!(!sessions.certainly_none(&["a"]) && !sessions.certainly_clean(), "nothing is known at first");
        let asked = sessions.claims();
        sessions.found_none(&["a", "b"], asked);
        sessions.found_clean(asked);
        assert!(sessions.certainly_none(&["a", "b"]) && sessions.certainly_clean());
        assert!(!sessions.certainly_none(&["a", "c"]));
        sessions.claimed("b");
        assert!(
            sessions.certainly_none(&["a"]) && !sessions.certainly_none(&["a", "b"]) && !sessions.certainly_clean()
        );
        sessions.found_none(&["b"], asked);
        sessions.found_clean(asked);
        assert!(!sessions.certainly_none(&["b"]) && !sessions.certainly_clean(), "the answer is older than the claim");
    }
}
