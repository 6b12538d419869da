//! Statements that may be sent again: reading, and changes that change nothing the second time.

use pg::retry::{Policy, retry};
use sqlx::Postgres;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;

use crate::error::Result;
use crate::queues::Inner;

impl Inner {
    /// The rows of a statement, which is sent again if the database was away for a moment. `what` names it in the log.
    ///
    /// # Errors
    /// The database's, when it stays away or refuses.
    pub(crate) async fn ask<'q>(
        &self,
        what: &str,
        query: impl Fn() -> Query<'q, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>> {
        let policy = Policy::default();
        let rows = retry(&policy, what, async |_| {
            let mut session = self.db.session().await?;
            let rows = query().fetch_all(&mut *session).await?;
            session.finish().await?;
            Ok(rows)
        });
        Ok(rows.await?)
    }
}
