//! Sending: messages to instances, activities to workers.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{ProviderError, WorkItem};

use crate::message::{Message, Work};
use crate::observe::Failure;
use crate::provider::PostgresProvider;
use crate::write::Finished;

impl PostgresProvider {
    pub(crate) async fn send(&self, item: &WorkItem, delay: Option<Duration>) -> Result<(), Failure> {
        const OPERATION: &str = "enqueue_for_orchestrator";
        let message = Message::new(OPERATION, item, delay).map_err(Failure::own)?;
        let sent = self.inner.commits.submit(Finished::Message(Arc::new(message))).await;
        self.inner.writes();
        sent.map(drop).map_err(|error| Failure::engine(OPERATION, &error))
    }

    pub(crate) async fn send_work(&self, item: &WorkItem) -> Result<(), ProviderError> {
        const OPERATION: &str = "enqueue_for_worker";
        let work = Work::new(OPERATION, item)?;
        let sent = self.inner.work_sends.submit(work).await;
        self.inner.writes();
        sent.map_err(|error| crate::error::engine(OPERATION, &error))
    }
}
