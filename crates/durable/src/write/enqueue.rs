//! Sends messages to instances and activities to workers.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{ProviderError, WorkItem};

use super::activities::ScheduledActivity;
use super::commit::CommitWrite;
use super::message::Message;
use crate::observe::Failure;
use crate::provider::PostgresProvider;

impl PostgresProvider {
    pub(crate) async fn enqueue_message(&self, item: &WorkItem, delay: Option<Duration>) -> Result<(), Failure> {
        const OPERATION: &str = "enqueue_for_orchestrator";
        let message = Message::new(OPERATION, item, delay).map_err(Failure::own)?;
        let sent = self.inner.commits.submit(CommitWrite::Message(Arc::new(message))).await;
        self.inner.count_write();
        sent.map(drop).map_err(|error| Failure::engine(OPERATION, &error))
    }

    pub(crate) async fn enqueue_activity(&self, item: &WorkItem) -> Result<(), ProviderError> {
        const OPERATION: &str = "enqueue_for_worker";
        let activity = ScheduledActivity::new(OPERATION, item)?;
        let sent = self.inner.enqueued_activities.submit(activity).await;
        self.inner.count_write();
        sent.map_err(|error| crate::error::engine(OPERATION, &error))
    }
}
