//! Starts orchestrations and raises events inside the application's own transaction: they exist exactly if it commits.

use std::time::Duration;

use duroxide::INITIAL_EXECUTION_ID;
use duroxide::providers::WorkItem;
use reveille_wake::Wake;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres};

use super::message::{Message, millis};
use crate::error::{Error, Result};
use crate::provider::PostgresProvider;

impl PostgresProvider {
    /// Starts an orchestration inside the caller's transaction. With `version: None` the runtime chooses the version.
    ///
    /// ```no_run
    /// # async fn example(provider: reveille_durable::PostgresProvider) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut transaction = provider.pool().begin().await?;
    /// sqlx::query("insert into orders (id) values (42)").execute(&mut *transaction).await?;
    /// provider.start_orchestration_in(&mut transaction, "order-42", "ProcessOrder", None, "{}").await?;
    /// transaction.commit().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the statement fails; the transaction is then aborted.
    pub async fn start_orchestration_in(
        &self,
        conn: &mut PgConnection,
        instance: &str,
        orchestration: &str,
        version: Option<&str>,
        input: &str,
    ) -> Result<()> {
        let start = WorkItem::StartOrchestration {
            instance: instance.to_owned(),
            orchestration: orchestration.to_owned(),
            input: input.to_owned(),
            version: version.map(str::to_owned),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: INITIAL_EXECUTION_ID,
        };
        self.enqueue_in(conn, start, None).await
    }

    /// Raises an event for an orchestration inside the caller's transaction.
    ///
    /// # Errors
    /// If the statement fails; the transaction is then aborted.
    pub async fn raise_event_in(&self, conn: &mut PgConnection, instance: &str, name: &str, data: &str) -> Result<()> {
        let raised =
            WorkItem::ExternalRaised { instance: instance.to_owned(), name: name.to_owned(), data: data.to_owned() };
        self.enqueue_in(conn, raised, None).await
    }

    /// Puts a message into the queue of an instance inside the caller's transaction.
    ///
    /// # Errors
    /// If the statement fails; the transaction is then aborted.
    pub async fn enqueue_event_in(
        &self,
        conn: &mut PgConnection,
        instance: &str,
        queue: &str,
        data: &str,
    ) -> Result<()> {
        let queued =
            WorkItem::QueueMessage { instance: instance.to_owned(), name: queue.to_owned(), data: data.to_owned() };
        self.enqueue_in(conn, queued, None).await
    }

    /// Sends any message to an instance inside the caller's transaction, due after `delay`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the item is not a message to an instance; otherwise if the statement fails, and the
    /// transaction is then aborted.
    pub async fn enqueue_in(&self, conn: &mut PgConnection, item: WorkItem, delay: Option<Duration>) -> Result<()> {
        let message = Message::new("enqueue_in", &item, delay)
            .map_err(|error| Error::Invalid { what: "item", reason: error.message })?;
        self.inner.count_write();
        self.enqueue_query(message).execute(conn).await.map_err(reveille_pg::Error::from)?;
        Ok(())
    }

    /// The statement that sends a message and notifies, for a transaction.
    pub(crate) fn enqueue_query(&self, message: Message) -> Query<'_, Postgres, PgArguments> {
        let delay = message.due.delay();
        let (channels, payloads) = Wake::notifications(&[self.inner.channels.orchestrations.wake_up().after(delay)]);
        sqlx::query(&self.inner.queries.enqueue_in_transaction)
            .bind(channels)
            .bind(payloads)
            .bind(vec![message.instance])
            .bind(vec![millis(delay)])
            .bind(vec![message.item])
    }
}
