//! Statements that are sent on their own: neither a claim nor part of a write batch.
//!
//! Each is retried while the database is briefly unavailable. [`rows`](PostgresProvider::rows) and
//! [`change`](PostgresProvider::change) differ in what they do if the connection breaks before the answer, when the
//! outcome is unknown: a query is sent again, a change is not, since the second answer would describe the second change.

use duroxide::providers::ProviderError;
use reveille_pg::audit::Entry;
use reveille_pg::retry::{Policy, retry};
use reveille_pg::{Schema, Sql};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};

use crate::provider::PostgresProvider;

/// A statement with some or all of its arguments.
pub(crate) type Bound<'q> = Query<'q, Postgres, PgArguments>;

macro_rules! queries {
    ($($name:ident = $file:literal),* $(,)?) => {
        /// The statements, rendered for one schema.
        pub(crate) struct Queries {
            $(pub(crate) $name: Sql,)*
        }

        impl Queries {
            pub(crate) fn new(schema: &Schema) -> Queries {
                Queries { $($name: schema.sql(reveille_pg::statement!($file)),)* }
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
    /// Sends a query, or a change that may be repeated with the same effect and answer, after the acks of this process
    /// that are under way.
    ///
    /// # Errors
    /// If the database is unavailable for longer, or rejects the statement.
    pub(crate) async fn rows<'q>(
        &self,
        operation: &'static str,
        sql: &Sql,
        bind: impl Fn(Bound<'q>) -> Bound<'q>,
    ) -> Result<Vec<PgRow>, ProviderError> {
        self.after_acks().await;
        self.rows_at_once(operation, sql, bind).await
    }

    /// As [`rows`](Self::rows), without waiting for acks: for renewals, which must not be late.
    pub(crate) async fn rows_at_once<'q>(
        &self,
        operation: &'static str,
        sql: &Sql,
        bind: impl Fn(Bound<'q>) -> Bound<'q>,
    ) -> Result<Vec<PgRow>, ProviderError> {
        let rows = retry(&Policy::default(), operation, |_| self.send(bind(sqlx::query(sql)))).await;
        rows.map_err(|error| crate::error::database(operation, &error))
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

    /// Sends a change that returns what it did, in one row at most. Retried only if it has certainly not happened.
    ///
    /// # Errors
    /// As [`rows`](Self::rows); also if the outcome is unknown.
    pub(crate) async fn change<'q>(
        &self,
        operation: &'static str,
        sql: &Sql,
        bind: impl Fn(Bound<'q>) -> Bound<'q>,
    ) -> Result<Option<PgRow>, ProviderError> {
        self.change_audited(operation, sql, None, |_| true, bind).await
    }

    /// As [`change`](Self::change); writes `entry` in the same transaction if `has_changed` accepts the row.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    pub(crate) async fn change_audited<'q>(
        &self,
        operation: &'static str,
        sql: &Sql,
        entry: Option<Entry>,
        has_changed: impl Fn(&PgRow) -> bool,
        bind: impl Fn(Bound<'q>) -> Bound<'q>,
    ) -> Result<Option<PgRow>, ProviderError> {
        self.after_acks().await;
        let policy = Policy::default();
        let changed = retry(&policy, operation, |_| async {
            let query = bind(sqlx::query(sql));
            let sent = match &entry {
                Some(entry) => self.send_audited(query, entry, &has_changed).await,
                None => self.send(query).await,
            };
            match sent {
                // Wrapped in `Ok`, so that it is not retried.
                Err(error) if error.is_ambiguous() => Ok(Err(error)),
                result => result.map(Ok),
            }
        });
        let changed = changed.await.flatten();
        // Whatever the answer: it may have changed what cached answers count.
        self.inner.count_write();
        changed.map(|rows| rows.into_iter().next()).map_err(|error| crate::error::database(operation, &error))
    }

    /// Returns when the acks that are under way have ended.
    pub(crate) async fn after_acks(&self) {
        if let Some(acks) = self.inner.pipeline.under_way() {
            self.inner.pipeline.ended(acks).await;
        }
    }

    async fn send_audited(
        &self,
        query: Bound<'_>,
        entry: &Entry,
        has_changed: impl Fn(&PgRow) -> bool,
    ) -> reveille_pg::Result<Vec<PgRow>> {
        let mut transaction = self.inner.db.begin().await?;
        let rows = query.fetch_all(&mut *transaction).await?;
        if rows.first().is_some_and(has_changed) {
            entry.write(&mut transaction).await?;
        }
        transaction.commit().await?;
        Ok(rows)
    }

    async fn send(&self, query: Bound<'_>) -> reveille_pg::Result<Vec<PgRow>> {
        let mut session = self.inner.db.session().await?;
        let rows = query.fetch_all(&mut *session).await?;
        session.finish().await?;
        Ok(rows)
    }
}

/// A column of a row.
pub(crate) fn column<'r, T>(operation: &'static str, row: &'r PgRow, at: usize) -> Result<T, ProviderError>
where
    T: sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
{
    row.try_get(at).map_err(|error| crate::error::database(operation, &error.into()))
}
