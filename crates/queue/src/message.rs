//! Messages to push, and popped messages.

use serde_json::value::RawValue;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::id::PartitionId;
use crate::name::{DEFAULT_PARTITION, check, check_text};

/// A message to push.
#[derive(Debug, Clone)]
pub struct NewMessage {
    /// The queue; created if it does not exist.
    pub queue: String,
    /// The partition: messages of one are read in order. `None` is [`DEFAULT_PARTITION`](crate::DEFAULT_PARTITION).
    pub partition: Option<String>,
    /// Any JSON; it is delivered byte by byte as pushed.
    pub payload: Box<RawValue>,
    /// The producer's own id: a second message with the same id in the same partition is a duplicate. `None`: an id is
    /// generated.
    pub transaction_id: Option<String>,
    /// An id for tracing, such as that of a request.
    pub trace_id: Option<String>,
    /// The name of the producer, as authenticated by the server.
    pub producer: Option<String>,
}

impl NewMessage {
    /// A message for the default partition of a queue.
    pub fn new(queue: impl Into<String>, payload: Box<RawValue>) -> NewMessage {
        let queue = queue.into();
        NewMessage { queue, partition: None, payload, transaction_id: None, trace_id: None, producer: None }
    }

    /// The name of the partition.
    pub(crate) fn partition_name(&self) -> &str {
        self.partition.as_deref().unwrap_or(DEFAULT_PARTITION)
    }

    /// Rejects a message that cannot be stored.
    pub(crate) fn check(&self) -> Result<()> {
        check("queue", &self.queue)?;
        check("partition", self.partition_name())?;
        check_text("transactionId", self.transaction_id.as_deref().unwrap_or_default())?;
        check_text("traceId", self.trace_id.as_deref().unwrap_or_default())
    }
}

/// The status of a pushed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushStatus {
    /// It is stored.
    Queued,
    /// The partition has a message with this transaction id; the message id is that of the original.
    Duplicate,
    /// It is buffered until maintenance ends, and pushed then.
    Buffered,
    /// It was not stored, for this reason.
    Failed(String),
}

/// The answer to a pushed message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// Its status.
    pub status: PushStatus,
    /// Its id; of a duplicate, the id of the original.
    pub message_id: Uuid,
    /// Its transaction id.
    pub transaction_id: String,
    /// Its partition.
    pub partition_id: PartitionId,
}

/// A message that was popped.
#[derive(Debug, Clone)]
pub struct Message<P = Box<RawValue>> {
    /// Its id.
    pub id: Uuid,
    /// The transaction id that the producer gave it.
    pub transaction_id: String,
    /// Its id for tracing.
    pub trace_id: Option<String>,
    /// The payload as it was pushed.
    pub payload: P,
    /// The name of the producer.
    pub producer: Option<String>,
    /// When it was stored, by the database's clock.
    pub created_at: OffsetDateTime,
    /// Its queue.
    pub queue: String,
    /// Its partition.
    pub partition: String,
    /// The id of the partition.
    pub partition_id: PartitionId,
    /// Its position in the partition.
    pub offset: i64,
    /// How often the delivery has been retried for this consumer group: after a failed ack, or a lease that expired.
    /// Counted for the first message of the batch's partition.
    pub retries: u32,
}

/// A payload as it is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) encrypted: bool,
    pub(crate) bytes: Vec<u8>,
}

impl Message<Stored> {
    /// Replaces the stored payload by the decrypted one, or parses it.
    pub(crate) fn opened(self, decrypted: Option<Box<RawValue>>) -> Result<Message> {
        let Message { id, transaction_id, trace_id, payload, producer, created_at, .. } = self;
        let Message { queue, partition, partition_id, offset, retries, .. } = self;
        let stored = || String::from_utf8(payload.bytes).ok().and_then(|text| RawValue::from_string(text).ok());
        let Some(payload) = decrypted.or_else(stored) else {
            return Err(Error::invalid("payload", format!("the stored payload of message {id} is not JSON")));
        };
        Ok(Message {
            id,
            transaction_id,
            trace_id,
            payload,
            producer,
            created_at,
            queue,
            partition,
            partition_id,
            offset,
            retries,
        })
    }
}
