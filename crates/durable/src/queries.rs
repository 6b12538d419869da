//! Statements that are sent by themselves: neither a claim nor part of a flight.
//!
//! Each is tried again while the database is away for a moment. Two ways differ in what they do if the connection breaks before the answer, when
//! nobody knows whether the statement has happened: a question is asked again, a change is not made again, since a second answer would be about the
//! second time.

use duroxide::providers::ProviderError;
use pg::retry::{Policy, retry};
use pg::{Schema, Sql};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};

use crate::provider::PostgresProvider;

/// A statement with its arguments, or some of them.
pub(crate) type Bound<'q> = Query<'q, Postgres, PgArguments>;

macro_rules! queries {
    ($($name:ident = $file:literal),* $(,)?) => {
        /// The statements, rendered for one schema.
        pub(crate) struct Queries {
            $(pub(crate) $name: Sql,)*
        }

        impl Queries {
            pub(crate) fn new(schema: &Schema) -> Queries {
                Queries { $($name: schema.sql(pg::statement!($file)),)* }
            }
        }
    };
}

queries! {
    append = "append_history",
    read_execution = "read_execution",
    renew_instance = "renew_instance",
    renew_work = "renew_work",
    renew_sessions = "renew_sessions",
    clean_sessions = "clean_sessions",
    kv_value = "kv_value",
    kv_values = "kv_values",
    instance_stats = "instance_stats",
    list_instances = "list_instances",
    list_executions = "list_executions",
    instance_info = "instance_info",
    execution_info = "execution_info",
    system_metrics = "system_metrics",
    queue_depths = "queue_depths",
    list_children = "list_children",
    instance_tree = "instance_tree",
    delete_instances = "delete_instances",
    ended_trees = "ended_trees",
    expired_trees = "expired_trees",
    next_expiry = "next_expiry",
    prunable = "prunable",
    prune_executions = "prune_executions",
    enqueue_in_transaction = "enqueue_in_transaction",
}

impl PostgresProvider {
    /// Sends what is harmless twice, until it is answered: a question, or a change whose repetition changes and answers the same.
    ///
    /// # Errors
    /// The last one, if the database is away for longer or refuses.
    pub(crate) async fn rows<'q>(
        &self,
        operation: &'static str,
        sql: &Sql,
        bind: impl Fn(Bound<'q>) -> Bound<'q>,
    ) -> Result<Vec<PgRow>, ProviderError> {
        let asked = retry(&Policy::default(), operation, |_| self.sent(bind(sqlx::query(sql)))).await;
        asked.map_err(|error| crate::error::database(operation, &error))
    }

    /// As [`rows`](Self::rows), for one row at most.
    pub(crate) async fn row<'q>(
        &self,
        operation: &'static str,
        sql: &Sql,
        bind: impl Fn(Bound<'q>) -> Bound<'q>,
    ) -> Result<Option<PgRow>, ProviderError> {
        Ok(self.rows(operation, sql, bind).await?.into_iter().next())
    }

    /// Sends a change that answers what it did, in one row at most: again only if it certainly has not happened.
    ///
    /// # Errors
    /// As [`rows`](Self::rows); and if the answer was lost, which the message says.
    pub(crate) async fn change<'q>(
        &self,
        operation: &'static str,
        sql: &Sql,
        bind: impl Fn(Bound<'q>) -> Bound<'q>,
    ) -> Result<Option<PgRow>, ProviderError> {
        let policy = Policy::default();
        let changed = retry(&policy, operation, |_| async {
            match self.sent(bind(sqlx::query(sql))).await {
                // An outcome, so that it is not tried again.
                Err(error) if error.is_ambiguous() => Ok(Err(error)),
                sent => sent.map(Ok),
            }
        });
        let changed = changed.await.flatten();
        // Whatever it answers, it may have changed what gauges count.
        self.inner.writes();
        changed.map(|rows| rows.into_iter().next()).map_err(|error| crate::error::database(operation, &error))
    }

    async fn sent(&self, query: Bound<'_>) -> pg::Result<Vec<PgRow>> {
        let mut session = self.inner.db.session().await?;
        let rows = query.fetch_all(&mut *session).await?;
        session.finish().await?;
        Ok(rows)
    }
}

/// A column of an answer.
pub(crate) fn column<'r, T>(operation: &'static str, row: &'r PgRow, at: usize) -> Result<T, ProviderError>
where
    T: sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
{
    row.try_get(at).map_err(|error| crate::error::database(operation, &error.into()))
}
