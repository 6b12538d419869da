//! Acking a popped batch as a whole.

use std::time::Duration;

use crate::consume::ack::{Ack, AckStatus};
use crate::consume::lease::Extended;
use crate::consume::pop::Batch;
use crate::error::{Error, Result};
use crate::message::Message;

impl Batch {
    /// Acks all messages. A batch that was popped with [`auto_ack`](crate::Pop::auto_ack) needs no ack.
    ///
    /// # Errors
    /// [`Error::AckRejected`] if the lease of a partition has expired: its messages are redelivered. Otherwise those of
    /// the database.
    pub async fn ack(self) -> Result<()> {
        self.send(self.acks_completed(&self.messages)).await
    }

    /// Reports that processing failed: a retry is charged, and all messages are redelivered, up to the queue's
    /// `retryLimit`; then the first message of each partition becomes a dead letter with `error`.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub async fn fail(self, error: impl Into<String>) -> Result<()> {
        self.send(self.acks_failed(&self.messages, Some(error.into()))).await
    }

    /// Releases all messages: they are redelivered, and no retry is charged.
    ///
    /// # Errors
    /// As [`ack`](Self::ack).
    pub async fn release(self) -> Result<()> {
        let acks = self.acks_failed(&self.messages, None);
        self.send(acks.into_iter().map(|ack| Ack { status: AckStatus::Retry, ..ack }).collect()).await
    }

    /// Extends the lease to `by` from now, see [`Queues::extend`](crate::Queues::extend). `None`: the lease is over, or
    /// the batch was popped with [`auto_ack`](crate::Pop::auto_ack).
    ///
    /// # Errors
    /// Those of the database.
    pub async fn extend(&self, by: Option<Duration>) -> Result<Option<Extended>> {
        match self.lease_id {
            Some(lease) => self.queues.extend(lease, by).await,
            None => Ok(None),
        }
    }

    async fn send(&self, acks: Vec<Ack>) -> Result<()> {
        let acked = self.queues.ack(acks).await?;
        match acked.iter().find_map(|acked| acked.outcome.err()) {
            Some(error) => Err(Error::AckRejected(error)),
            None => Ok(()),
        }
    }

    /// An ack of each partition's last message, which covers those before it. None without a lease.
    pub(crate) fn acks_completed(&self, messages: &[Message]) -> Vec<Ack> {
        let partitions = messages.chunk_by(|one, next| one.partition_id == next.partition_id);
        let last = partitions.filter_map(|messages| messages.last());
        last.filter_map(|message| self.ack_of(message, AckStatus::Completed, None)).collect()
    }

    /// A failed ack of each partition's first message, which releases the lease. None without a lease.
    pub(crate) fn acks_failed(&self, messages: &[Message], error: Option<String>) -> Vec<Ack> {
        let partitions = messages.chunk_by(|one, next| one.partition_id == next.partition_id);
        let first = partitions.filter_map(|messages| messages.first());
        first.filter_map(|message| self.ack_of(message, AckStatus::Failed, error.clone())).collect()
    }

    fn ack_of(&self, message: &Message, status: AckStatus, error: Option<String>) -> Option<Ack> {
        Some(Ack {
            transaction_id: message.transaction_id.clone(),
            partition_id: message.partition_id,
            status,
            lease_id: Some(self.lease_id?),
            group: Some(self.group.clone()),
            error,
        })
    }
}
