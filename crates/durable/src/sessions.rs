//! Keeping sessions: asked of the database only if there may be any.

use std::time::Duration;

use duroxide::providers::ProviderError;

use crate::message::millis;
use crate::provider::PostgresProvider;
use crate::queries::column;
use crate::text::stored;

impl PostgresProvider {
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
