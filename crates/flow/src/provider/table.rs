//! The step table as a queue provider: a step row is its own message.

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use reveille_pg::{Schema, Sql};
use reveille_wake::Consumer;
use sqlx::{PgConnection, Row};

use super::events;
use super::{
    Delivery, EventDrivenQueueProvider, MessageRef, QueueError, QueueEvent, QueueProvider, Receipt, Sent, Source,
    StepMessage,
};
use crate::events::change_watch::ChangeWatches;
use crate::namespace::Provider;

const NAME: &str = "the step table";

/// Nothing is sent: workers claim due steps from the table. Receiving returns the steps that a claim would find.
pub(super) struct Table {
    receive: Sql,
    change_watches: Consumer<ChangeWatches>,
}

impl Table {
    pub(super) fn new(schema: &Schema, change_watches: Consumer<ChangeWatches>) -> Table {
        Table { receive: schema.sql(reveille_pg::statement!("receive_steps")), change_watches }
    }
}

#[async_trait]
impl QueueProvider for Table {
    fn kind(&self) -> Provider {
        Provider::Table
    }

    async fn ready(&self) -> Result<(), QueueError> {
        Ok(())
    }

    async fn publish(&self, _: &[StepMessage]) -> Result<Vec<Sent>, QueueError> {
        Err(QueueError::new(NAME, "accepts no messages", "steps are created with their task"))
    }

    async fn receive(
        &self,
        conn: &mut PgConnection,
        sources: &[Source],
        most: usize,
    ) -> Result<Vec<Delivery>, QueueError> {
        let failed = |error: sqlx::Error| QueueError::new(NAME, "could not be read", error);
        let rows = sqlx::query(&self.receive)
            .bind(sources.iter().map(|source| source.namespace.as_str()).collect::<Vec<_>>())
            .bind(sources.iter().map(|source| source.step.as_str()).collect::<Vec<_>>())
            .bind(most as i64)
            .fetch_all(conn)
            .await
            .map_err(failed)?;
        let read = |row: &sqlx::postgres::PgRow| {
            let message = StepMessage {
                task: row.try_get("task_id")?,
                ordinal: row.try_get("ordinal")?,
                number: 0,
                namespace: row.try_get("namespace")?,
                step: row.try_get("step")?,
                priority: row.try_get("priority")?,
                attempt: row.try_get("attempt")?,
            };
            Ok(Delivery { message, receipt: Receipt(MessageRef::Row) })
        };
        rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(failed)
    }

    async fn ack(&self, _: Vec<Receipt>) -> Result<(), QueueError> {
        Ok(())
    }

    async fn release(&self, _: Option<&mut PgConnection>, _: Vec<Receipt>) -> Result<(), QueueError> {
        Ok(())
    }
}

impl EventDrivenQueueProvider for Table {
    fn supports_push_notifications(&self) -> bool {
        true
    }

    fn create_event_stream(&self, namespace: &str) -> BoxStream<'static, QueueEvent> {
        events::stream(&self.change_watches, namespace)
    }
}
